package leasepage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/localfs"
)

// Writer is an open page. Its methods do nothing if it is nil. Each process that writes to a page has the shared flock
// of its file, so that pages whose writers are dead can be found.
type Writer struct {
	fd   int
	path string
}

// Dir is the directory of this user's pages. It is in memory: a write to a disk may wait.
func Dir() string { return fmt.Sprintf("/dev/shm/elect-%d", os.Geteuid()) }

// Create makes a page, which all users may read. After an error nothing is left of it.
func Create(s State) (*Writer, error) {
	dir := Dir()
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	for range 100 {
		f, err := os.CreateTemp(dir, "*")
		if err != nil {
			return nil, err
		}
		_, err = f.Write(encode(s))
		if err == nil {
			err = f.Chmod(0o644)
		}
		f.Close()
		if err != nil {
			os.Remove(f.Name())
			return nil, err
		}
		w, err := Open(f.Name())
		if err == nil {
			return w, nil
		}
		_ = os.Remove(f.Name()) // it may be gone
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		} // another process has taken it for that of a dead one
	}
	return nil, fmt.Errorf("files in %s come and go; want no other program to delete them", dir)
}

func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil {
		err = os.Chmod(dir, 0o755) // whatever the umask
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode()&0o022 != 0 {
		return fmt.Errorf("%s is %v of user %d; want a directory of user %d that no other may write, or none", dir, info.Mode(), st.Uid, os.Geteuid())
	}
	system, err := localfs.Of(dir)
	if err == nil && system.Kind != localfs.Memory {
		err = fmt.Errorf("%s is not in memory; want /dev/shm to be a tmpfs", dir)
	}
	return err
}

// Tidy removes the pages of this user whose writers are dead. With very many files it takes a while: call it when
// nobody waits.
func Tidy() {
	dir := Dir()
	list, _ := os.ReadDir(dir)
	for _, entry := range list {
		if w, err := open(dir+"/"+entry.Name(), unix.LOCK_EX); err == nil {
			w.Remove()
		}
	}
}

// Open opens a page as one of its writers.
func Open(path string) (*Writer, error) { return open(path, unix.LOCK_SH) }

func open(path string, lock int) (*Writer, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	w := &Writer{fd: fd, path: path}
	if err = w.load(lock); err != nil {
		w.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return w, nil
}

func (w *Writer) load(lock int) error {
	if err := unix.Flock(w.fd, lock|unix.LOCK_NB); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(w.fd, &st); err != nil {
		return err
	}
	var b [Size]byte
	n, err := unix.Pread(w.fd, b[:], 0)
	switch {
	case err != nil:
		return err
	case st.Nlink == 0:
		return unix.ENOENT
	}
	return Check(b[:n])
}

// Path is where readers find the page.
func (w *Writer) Path() string { return w.path }

// Prove says that leadership is proven until an instant of CLOCK_BOOTTIME; 0 says that it is over. It takes 4 system
// calls, of which none waits.
func (w *Writer) Prove(until int64) {
	if w == nil {
		return
	}
	var b [8]byte // another writer may have written, and may have died meanwhile
	_, _ = unix.Pread(w.fd, b[:], Sequence)
	odd := binary.LittleEndian.Uint64(b[:]) | 1
	w.put(Sequence, odd)
	w.put(Until, uint64(until))
	w.put(Sequence, odd+1)
}

func (w *Writer) put(at int64, value uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value)
	for {
		if _, err := unix.Pwrite(w.fd, b[:], at); err != unix.EINTR {
			return // a file in memory has no other trouble
		}
	}
}

// Close leaves the page to its other writer.
func (w *Writer) Close() {
	if w != nil && w.fd >= 0 {
		unix.Close(w.fd)
		w.fd = -1
	}
}

// Remove says that leadership is over, and removes the file. Readers that have it open see that.
func (w *Writer) Remove() {
	if w == nil || w.fd < 0 {
		return
	}
	w.Prove(0)
	_ = os.Remove(w.path)
	w.Close()
}
