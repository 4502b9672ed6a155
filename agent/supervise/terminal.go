//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// foreground returns the process group that has the terminal. It fails if the
// terminal is not this process's controlling one.
func foreground(tty int) (group int, err error) { return unix.IoctlGetInt(tty, unix.TIOCGPGRP) }

// setForeground gives the terminal to a group, also from the background.
func setForeground(tty, group int) (err error) {
	withoutTTOU(func() { err = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, group) })
	return err
}

// reclaim takes the terminal back from the group family for the group to, if
// it is still family's, or that of a group that has no member any more. It
// reports whether it was.
func reclaim(tty, family, to int) bool {
	group, err := foreground(tty)
	if err != nil || group == to {
		return false
	}
	if group != family && syscall.Kill(-group, 0) != syscall.ESRCH {
		return false
	}
	return setForeground(tty, to) == nil
}

func getTermios(tty int) (*unix.Termios, error) { return unix.IoctlGetTermios(tty, getModes) }

func setTermios(tty int, t *unix.Termios) {
	withoutTTOU(func() { _ = unix.IoctlSetTermios(tty, setModes, t) })
}
