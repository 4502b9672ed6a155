package file

import (
	"io"

	"golang.org/x/sys/unix"
)

// announce marks the lock file as held by a leader: with a second lock, of a kind that can be queried. An flock can
// be queried only by an attempt to take it, which would make a candidate miss it. The lock belongs to the open file
// description, like the flock, and so ends with it.
func announce(fd int) error {
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
}

func unannounce(fd int) error {
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart})
}

// announced reports whether another open file description of the same file has the announcement. fd may be open for
// reading only.
func announced(fd int, _ string) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lock)
	return err == nil && lock.Type != unix.F_UNLCK, err
}
