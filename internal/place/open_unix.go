//go:build linux || darwin || freebsd

package place

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens a directory that exists.
func (a At) Open() (*Dir, error) { return a.open(false) }

// Make is Open, and durably makes the directories that are missing.
func (a At) Make() (*Dir, error) { return a.open(true) }

func (a At) open(missing bool) (*Dir, error) {
	w := opener{At: a, missing: missing, distrust: os.Geteuid() == 0 && !a.Shared}
	var fd int
	var err error
	if w.distrust {
		fd, err = w.walk()
	} else {
		fd, err = w.openTrusted(a.Path)
	}
	path := a.Path
	for _, name := range a.Below {
		if name == "." || name == ".." || strings.Contains(name, "/") {
			err = closing(fd, &Refused{path, fmt.Sprintf("cannot have the directory %q; want one below it", name)})
		}
		if err != nil {
			return nil, err
		}
		above := fd
		fd, err = w.enter(above, filepath.Join(path, name))
		_ = unix.Close(above)
		path = filepath.Join(path, name)
		if err == nil && w.distrust {
			err = closing(fd, private(fd, path))
		}
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return openDir(fd, path)
}

// opener opens one directory.
type opener struct {
	At
	missing  bool // make missing directories
	distrust bool // do not trust other users
}

const toSearch = search | unix.O_DIRECTORY | unix.O_CLOEXEC

// openTrusted opens a path as the kernel does: the links in a configured path are trusted.
func (w *opener) openTrusted(path string) (int, error) {
	fd, err := openat(unix.AT_FDCWD, path, toSearch, 0)
	switch {
	case err == nil:
		return fd, nil
	case err != unix.ENOENT || !w.missing || path == "/":
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	above, err := w.openTrusted(filepath.Dir(path))
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	return w.enter(above, path)
}

// enter opens path, whose last element is in the directory above, and follows no
// link.
func (w *opener) enter(above int, path string) (int, error) {
	name := filepath.Base(path)
	for range 100 {
		fd, err := openat(above, name, toSearch|unix.O_NOFOLLOW, 0)
		if err == nil {
			return fd, nil
		}
		if err != unix.ENOENT || !w.missing {
			return -1, notOpened(above, name, path, "a directory", err)
		}
		if err := unix.Mkdirat(above, name, 0o700); err == unix.EEXIST {
			continue
		} else if err != nil {
			return -1, &fs.PathError{Op: "mkdir", Path: path, Err: err}
		}
		if w.Group {
			give(above, name)
		}
		if err := syncDir(above, filepath.Dir(path)); err != nil {
			return -1, err
		}
	}
	return -1, &Refused{path, "comes and goes; want no other process to delete it"}
}

// notOpened is the error for a path that is a link, or cannot be opened.
func notOpened(above int, name, path, want string, err error) error {
	if isLink(above, name) {
		return &Refused{path, "is a link, and none is followed here; want " + want + ", or none"}
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

// give sets the owner, group and mode of the directory that this process has just made
// according to At.Group. Other users may be able to rename in the one above, so give
// changes only an empty directory of this user. If it fails, the error that another
// user gets later names the mode.
func give(above int, name string) {
	fd, err := openat(above, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var over, st unix.Stat_t
	if fstat(above, &over) != nil || fstat(fd, &st) != nil || int(st.Uid) != os.Geteuid() {
		return
	}
	if _, err := f.Readdirnames(1); err != io.EOF {
		return
	}
	uid, gid, mode := -1, -1, uint32(0o700)
	if st.Uid == 0 && over.Uid != 0 {
		uid, gid = int(over.Uid), int(over.Gid)
	}
	if over.Mode&0o022 == 0o020 {
		gid, mode = int(over.Gid), 0o770
	}
	if uid >= 0 || gid >= 0 {
		_ = unix.Fchown(fd, uid, gid)
	}
	_ = unix.Fchmod(fd, uint32(st.Mode)&0o7000|mode)
}

// walk opens the path element by element, for root. It checks each directory before it relies on a name in it.
func (w *opener) walk() (int, error) {
	here, path := -1, "/"
	from := w.Path
	if !filepath.IsAbs(from) {
		wd, err := os.Getwd()
		if err != nil {
			return -1, err
		}
		from = wd + "/" + from // uncleaned: what .. leads to depends on links
	}
	todo := strings.Split(from, "/")
	todo[0] = "/"
	fromLink := 0 // how many elements of todo, from the first on, come from a link
	links := 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		byLink := fromLink > 0
		fromLink = max(0, fromLink-1)
		var next int
		var err error
		switch name {
		case "", ".":
			continue
		case "/":
			path = "/"
			if next, err = openat(unix.AT_FDCWD, path, toSearch, 0); err != nil {
				err = &fs.PathError{Op: "open", Path: path, Err: err}
			}
		default:
			if err := passable(here, path); err != nil {
				return -1, closing(here, err)
			}
			target, linkErr := link(here, name)
			if linkErr == nil {
				if links++; links > 40 {
					return -1, closing(here, &fs.PathError{Op: "open", Path: w.Path, Err: unix.ELOOP})
				}
				if err := ownLink(here, name, filepath.Join(path, name)); err != nil {
					return -1, closing(here, err)
				}
				steps := strings.Split(target, "/")
				if filepath.IsAbs(target) {
					steps[0] = "/"
				}
				todo, fromLink = slices.Concat(steps, todo), fromLink+len(steps)
				continue
			}
			path = filepath.Join(path, name)
			if byLink || name == ".." { // make nothing behind a link: its disk may not be mounted
				var fd int
				if fd, err = openat(here, name, toSearch|unix.O_NOFOLLOW, 0); err != nil {
					err = &fs.PathError{Op: "open", Path: path, Err: err}
				}
				next = fd
			} else {
				next, err = w.enter(here, path)
			}
		}
		if here >= 0 {
			_ = unix.Close(here)
		}
		if err != nil {
			return -1, err
		}
		here = next
	}
	return here, closing(here, private(here, path))
}

// wanted ends the refusals of directories.
const wanted = "; want one that only root can write, or --shared-place (in a URL shared-place=true) if they are trusted"

// passable refuses a directory in which another user can replace what root relies
// on. In a sticky directory only the owner of a name can do so.
func passable(fd int, path string) error {
	var st unix.Stat_t
	switch err := fstat(fd, &st); {
	case err != nil:
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	case st.Uid != 0:
		return &Refused{path, fmt.Sprintf("belongs to user %d, who can exchange what is below it, and this is root%s", st.Uid, wanted)}
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return &Refused{path, fmt.Sprintf("has mode %s, so that other users can exchange what is below it, and this is root%s", octal(uint32(st.Mode)), wanted)}
	}
	return nil
}

// private refuses a directory that another user can write to.
func private(fd int, path string) error {
	var st unix.Stat_t
	switch err := fstat(fd, &st); {
	case err != nil:
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	case st.Uid != 0:
		return &Refused{path, fmt.Sprintf("belongs to user %d, who can write to it, and this is root%s", st.Uid, wanted)}
	case st.Mode&0o022 != 0:
		return &Refused{path, fmt.Sprintf("has mode %s, so that other users can write to it, and this is root%s", octal(uint32(st.Mode)), wanted)}
	}
	return nil
}

// ownLink refuses a link of another user in a directory that other users may write.
func ownLink(above int, name, path string) error {
	var over, st unix.Stat_t
	if err := fstat(above, &over); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := unix.Fstatat(above, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if over.Mode&0o022 != 0 && st.Uid != 0 {
		return &Refused{path, fmt.Sprintf("is a link of user %d, who can lead root anywhere with it%s", st.Uid, wanted)}
	}
	return nil
}

func isLink(above int, name string) bool {
	_, err := link(above, name)
	return err == nil
}

// link returns the target of a link. For what is no link the error is EINVAL.
func link(above int, name string) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(above, name, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// syncDir writes the names in a directory to the disk. It ignores a directory that
// may not be read, and a file system without such an operation.
func syncDir(at int, path string) error {
	fd, err := openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// closing closes fd if there is an error, and returns the error.
func closing(fd int, err error) error {
	if err != nil && fd >= 0 {
		_ = unix.Close(fd)
	}
	return err
}

func openat(at int, name string, flags int, mode uint32) (fd int, err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		fd, err = unix.Openat(at, name, flags, mode)
	}
	return fd, err
}

func fstat(fd int, st *unix.Stat_t) (err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Fstat(fd, st)
	}
	return err
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode&0o7777) }
