package drive

import (
	"os"

	"golang.org/x/sys/unix"
)

// witnesses says whether the system has witnesses.
const witnesses = true

// lockedFile returns a file without a name, locked by its open file description.
func lockedFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("elect", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "elect")
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, os.NewSyscallError("flock", err)
	}
	return f, nil
}
