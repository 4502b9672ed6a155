package failover

import (
	"golang.org/x/sys/unix"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/internal/proc"
)

// keeperOf is the keeper of a command, 0 if it is not known.
func keeperOf(command int) int {
	s, _ := proc.Read(command)
	return s.Parent
}

// runnerOf is the elect run of a command, 0 if it is not known.
func runnerOf(command int) int { return keeperOf(keeperOf(command)) }

// running reports whether a process has not ended.
func running(pid int) bool {
	s, ok := proc.Read(pid)
	return ok && !s.Dead()
}

// strikeStopped brings down what needs signals that not every system has.
func (b *bench) strikeStopped(kill Kill) error {
	if err := b.leader.Signal(unix.SIGSTOP); err != nil || kill == Freeze {
		return err
	}
	// elect run is stopped, so it does not notice that the others die.
	for _, pid := range []int{keeperOf(b.work.PID), b.work.PID, b.leader.PID} {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH { // the kernel kills the command with its keeper
			return err
		}
	}
	return nil
}

// goOn continues a stopped elect run.
func goOn(c *cluster.Candidate) error { return c.Signal(unix.SIGCONT) }
