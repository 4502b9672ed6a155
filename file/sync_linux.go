package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncedFile is an open counter.
type syncedFile struct{ *os.File }

// Sync does not write the times of the file, which are not needed after a crash.
func (f syncedFile) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
