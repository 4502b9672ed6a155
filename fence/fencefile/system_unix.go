//go:build linux || darwin || freebsd

package fencefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock takes the lock of an open file, unless another process has it.
func flock(f *os.File) (held bool, err error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return false, nil
		default:
			return false, err
		}
	}
}

// full reports whether an error means that the disk, or this user's quota, is full.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
