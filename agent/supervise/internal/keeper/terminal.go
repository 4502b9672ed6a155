//go:build unix && !aix && !netbsd && !solaris

package keeper

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Foreground returns the process group that has the terminal. It fails if the terminal is not this process's
// controlling one.
func Foreground(tty int) (group int, err error) { return unix.IoctlGetInt(tty, unix.TIOCGPGRP) }

// SetForeground gives the terminal to a group, also from the background.
func SetForeground(tty, group int) (err error) {
	withoutTTOU(func() { err = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, group) })
	return err
}

// Reclaim gives the terminal from the group family to the group to, if family still has it, or a group without
// members. It reports whether it did.
func Reclaim(tty, family, to int) bool {
	group, err := Foreground(tty)
	if err != nil || group == to {
		return false
	}
	if group != family && syscall.Kill(-group, 0) != syscall.ESRCH {
		return false
	}
	return SetForeground(tty, to) == nil
}

func getTermios(tty int) (*unix.Termios, error) { return unix.IoctlGetTermios(tty, getModes) }

func setTermios(tty int, t *unix.Termios) {
	withoutTTOU(func() { _ = unix.IoctlSetTermios(tty, setModes, t) })
}
