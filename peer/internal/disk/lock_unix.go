//go:build linux || darwin || freebsd

package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/place"
)

// lock takes the locks of the directory, without waiting: one on the file lock, which says who holds it, and one on
// the directory itself, which holds even if that file is removed. The kernel releases them when the last copies of
// the files are closed.
func lock(dir *place.Dir) ([]*os.File, error) {
	f, err := lockFile(dir)
	if err != nil {
		return nil, err
	}
	again, err := dir.Again()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	d := again.File()
	err = flock(d)
	switch {
	case err == nil:
		return []*os.File{f, d}, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(&InUse{Path: dir.Path()}, f.Close(), d.Close())
	}
	_ = d.Close() // some file systems lock files only, and then the file must do
	return []*os.File{f}, nil
}

func lockFile(dir *place.Dir) (*os.File, error) {
	for {
		f, _, err := dir.OpenOrCreate(lockName, os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = flock(f)
		if err == nil {
			here, err := dir.Lstat(lockName)
			mine, err2 := place.Stat(f)
			if err == nil && err2 == nil && here.Same(mine) {
				// For people, so a failed write does no harm.
				_, _ = f.WriteAt(fmt.Appendf(nil, "%-10d\n", os.Getpid()), 0)
				return f, nil
			}
			f.Close() // it was removed or replaced meanwhile
			continue
		}
		pid := holder(f)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &InUse{Path: dir.Path(), PID: pid}
		}
		return nil, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// holder is the pid in the lock, or 0.
func holder(f *os.File) int {
	var text [16]byte
	n, _ := f.ReadAt(text[:], 0)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:n])))
	if err != nil {
		return 0
	}
	return pid
}
