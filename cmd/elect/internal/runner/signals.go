//go:build unix

package runner

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ending are the signals that ask this process to end. passed are those that are passed on to the command and have no
// other effect here. SIGTSTP and similar signals keep their effect: the supervisor handles the terminal.
var (
	ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	passed = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
)

// resume lets a stopped command receive its signal.
const resume = syscall.SIGCONT

// forward begins to handle signals, and returns a function that ends that. A signal that was ignored at the start of
// this process, as under nohup, stays ignored.
func (r *run) forward() (stop func()) {
	all := slices.DeleteFunc(slices.Concat(ending, passed), signal.Ignored)
	ch := make(chan os.Signal, 16)
	if len(all) > 0 { // Notify takes an empty list for all signals
		signal.Notify(ch, all...)
	}
	// A line on a stderr without a reader must not end a leader. Go's runtime raises SIGPIPE for descriptors 1 and 2,
	// unless a program catches the signal.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)

	attended := hasTerminal()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-ch:
				r.signal(sig.(syscall.Signal), attended)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(ch)
		signal.Stop(broken)
		close(done)
	}
}

// signal handles a signal. attended means that there is a terminal, with which this process ends.
func (r *run) signal(sig syscall.Signal, attended bool) {
	r.mu.Lock()
	family, again, now := r.family, r.why != 0, time.Now()
	if again && sig == r.why && now.Sub(r.asked) < pair {
		r.mu.Unlock()
		return
	}
	asks := slices.Contains(ending, os.Signal(sig))
	if family == nil && !r.starts && (sig == syscall.SIGQUIT || sig == syscall.SIGHUP && attended) {
		asks = true // while standing by there is no command to pass it on to
	}
	if asks && !again {
		r.why, r.asked = sig, now
	}
	r.twice = asks && again || r.twice
	if !asks && r.starts && !slices.Contains(r.early, sig) {
		r.early = append(r.early, sig) // the command may already run without this process knowing it
	}
	r.mu.Unlock()
	switch {
	case asks && again && family != nil:
		family.Kill()
	case asks:
		r.end(errStopped)
	case family != nil:
		_ = family.Signal(sig) // it may have ended just now
	}
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// controllingTerminal returns f if it is this process's controlling terminal.
func controllingTerminal(f *os.File) *os.File {
	if _, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err != nil {
		return nil
	}
	return f
}

// inForeground reports whether this process has the terminal, so that it can hand it over.
func (r *run) inForeground() bool {
	if r.terminal == nil {
		return false
	}
	group, err := unix.IoctlGetInt(int(r.terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
