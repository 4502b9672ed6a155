//go:build !unix

package runner

import (
	"os"
	"syscall"
)

const resume = syscall.Signal(0)

// Nothing runs here: the supervisor has no keepers on this system.

func (r *run) forward() (stop func()) { return func() {} }

func (r *run) inForeground() bool { return false }

func controllingTerminal(*os.File) *os.File { return nil }
