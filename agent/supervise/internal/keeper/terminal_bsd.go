//go:build darwin || dragonfly || freebsd || openbsd

package keeper

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const getModes, setModes = unix.TIOCGETA, unix.TIOCSETA

// withoutTTOU runs f with SIGTTOU ignored, so that the terminal accepts requests from the background. The fork lock
// keeps children from inheriting that.
func withoutTTOU(f func()) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if !signal.Ignored(syscall.SIGTTOU) {
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
	}
	f()
}
