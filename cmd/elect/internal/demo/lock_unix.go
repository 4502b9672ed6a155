//go:build unix

package demo

import (
	"errors"
	"os"
	"syscall"
)

// lock waits for the lock of a file. The kernel frees it with the process.
func lock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
