package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// synced is a real file.
type synced struct{ *os.File }

// Sync leaves out the times of the file, which nobody needs after a crash.
func (f synced) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// Forget asks the system to drop its copy of what is on the disk. It is advice
// that is always followed for pages that are clean, which they are after a Sync.
func (f synced) Forget() { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
