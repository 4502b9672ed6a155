package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// synced is a real file.
type synced struct{ *os.File }

// Sync does not write the times of the file, which are not needed after a crash.
func (f synced) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// Forget asks the system to drop its copy of what is on the disk. Linux always does so for clean pages, and they are
// clean after a Sync.
func (f synced) Forget() { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
