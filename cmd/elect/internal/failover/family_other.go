//go:build !linux

package failover

import (
	"errors"

	"github.com/electd/elect/cmd/elect/internal/cluster"
)

func runnerOf(int) int { return 0 } // not known

func running(int) bool { return false }

func (b *bench) strikeStopped(Kill) error {
	return errors.New("freeze and machine are measured on Linux only")
}

func goOn(*cluster.Candidate) error { return nil }
