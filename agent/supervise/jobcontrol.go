//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// jobControl mediates between a shell, of which this process is a job, and the command, which has the terminal. When
// the terminal stops the command, this process stops too, so that the shell sees it. When the shell continues it, the
// command gets the terminal back and continues.
func (f *Family) jobControl() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	for {
		select {
		case <-f.closed:
			return
		case sig := <-f.paused:
			f.pause(sig, continued)
		case <-continued:
			// This process alone was stopped and continued. The shell gave it the terminal, and the command may have been
			// stopped for reading without it.
			if f.handOver() {
				f.continueCommand()
			}
		}
	}
}

// pause handles that sig has stopped the command.
func (f *Family) pause(sig syscall.Signal, continued <-chan os.Signal) {
	switch sig {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		// The command wants a terminal that it does not have. It can have it if this process is in the foreground, because
		// a shell's fg put it there.
		if f.handOver() {
			f.continueCommand()
			return
		}
	case syscall.SIGTSTP:
		keeper.Reclaim(int(f.terminal.Fd()), f.pid, unix.Getpgrp())
	default:
		return // SIGSTOP: not caused by the terminal, and so not undone here
	}
	select {
	case <-continued: // an old one
	default:
	}
	// The whole group, as the terminal would have done: this process may be a part of a pipeline or of a script. If no
	// shell can continue the group (it is orphaned), the kernel does not stop it.
	const settle = 100 * time.Millisecond
	before := time.Now()
	_ = syscall.Kill(0, sig)
	select {
	case <-continued:
	case <-f.closed:
		return
	case <-time.After(settle):
		if time.Since(before) < 2*settle && !f.inForeground() {
			return // not stopped, and without a terminal: the command stays stopped
		}
	}
	f.handOver()
	f.continueCommand()
}

func (f *Family) inForeground() bool {
	group, err := keeper.Foreground(int(f.terminal.Fd()))
	return err == nil && group == unix.Getpgrp()
}

// handOver gives the terminal to the command's group, if this process has it.
func (f *Family) handOver() bool {
	return f.inForeground() && keeper.SetForeground(int(f.terminal.Fd()), f.pid) == nil
}

func (f *Family) continueCommand() { _ = f.send(keeper.AppendNumber(nil, keeper.KindContinue, 0)) }
