//go:build !unix

package runner

import (
	"os"
	"syscall"
)

const resume = syscall.Signal(0)

// No command runs on this system: the supervisor has no keepers here.

func (r *run) forward() (stop func()) { return func() {} }

func (r *run) inForeground() bool { return false }

func controllingTerminal(*os.File) *os.File { return nil }
