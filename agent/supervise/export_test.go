//go:build linux

package supervise

import (
	"os"
	"syscall"

	"github.com/electd/elect/internal/clock"
)

// Strike kills all descendants of this process, with or without the kernel's
// lists of children.
func Strike(scan bool) error {
	if err := becomeReaper(); err != nil {
		return err
	}
	l := lineage{root: os.Getpid(), scan: scan}
	for l.strike() > 0 {
		_, _ = syscall.Wait4(-1, nil, syscall.WALL, nil)
	}
	return nil
}

// Descendants lists those of root.
func Descendants(root int, scan bool) (pids []int) {
	l := lineage{root: root, scan: scan}
	l.each(func(pid int) { pids = append(pids, pid) })
	return pids
}

// KillKeeper kills the keeper alone.
func (f *Family) KillKeeper() { f.signalKeeper(syscall.SIGKILL) }

// Deadline is deadline.
func (f *Family) Deadline(at clock.Boot) { f.deadline(at) }

// Keeper is the keeper's pid.
func (f *Family) Keeper() int { return f.keeper }
