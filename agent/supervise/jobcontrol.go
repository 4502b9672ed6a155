//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// jobControl stands between a shell, whose job this process is, and the
// command, which has the terminal: when the terminal stops the command, this
// process stops, too, so that the shell sees it; and when the shell continues
// it, the command gets the terminal back and goes on.
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
			// Somebody stopped and continued us alone. The shell gave the
			// terminal to us, and the command may have been stopped for
			// reading without it.
			if f.handOver() {
				f.continueCommand()
			}
		}
	}
}

// pause deals with a command that was stopped by sig.
func (f *Family) pause(sig syscall.Signal, continued <-chan os.Signal) {
	switch sig {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		// It wants a terminal that it does not have. If we are in its
		// foreground, because a shell's fg put us there, it can have it.
		if f.handOver() {
			f.continueCommand()
			return
		}
	case syscall.SIGTSTP:
		reclaim(int(f.terminal.Fd()), f.pid, unix.Getpgrp())
	default:
		return // SIGSTOP: not the terminal's doing, and not ours to undo
	}
	select {
	case <-continued: // an old one
	default:
	}
	// The whole group, as the terminal would have done: we may be a part of a
	// pipeline or of a script. If no shell is there to continue the group (it
	// is orphaned), the kernel does not stop it.
	const settle = 100 * time.Millisecond
	before := time.Now()
	_ = syscall.Kill(0, sig)
	select {
	case <-continued:
	case <-f.closed:
		return
	case <-time.After(settle):
		if time.Since(before) < 2*settle && !f.inForeground() {
			return // not stopped, and without a terminal: it stays as it is
		}
	}
	f.handOver()
	f.continueCommand()
}

func (f *Family) inForeground() bool {
	group, err := foreground(int(f.terminal.Fd()))
	return err == nil && group == unix.Getpgrp()
}

// handOver gives the terminal to the command's group, if it is ours to give.
func (f *Family) handOver() bool {
	return f.inForeground() && setForeground(int(f.terminal.Fd()), f.pid) == nil
}

func (f *Family) continueCommand() { _ = f.send(appendNumber(nil, kindContinue, 0)) }
