package file

import (
	"io"

	"golang.org/x/sys/unix"
)

// announce says on the lock file that its holder leads: a second lock, of the
// kind that can be queried. An flock cannot, short of trying to take it, and a
// reader who tries makes a candidate miss it. The lock belongs to the open file
// description, like the flock, and so ends with it.
func announce(fd int) error {
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
}

func unannounce(fd int) error {
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart})
}

// announced reports whether somebody's open file description of the same file
// carries the announcement. fd may be open for reading only.
func announced(fd int, _ string) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lock)
	return err == nil && lock.Type != unix.F_UNLCK, err
}
