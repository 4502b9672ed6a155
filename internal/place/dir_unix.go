//go:build linux || darwin || freebsd

package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dir is an open directory. Names have no slashes.
type Dir struct {
	f    *os.File
	path string
	info Info
}

// openDir opens the directory of a descriptor that may be for searching only.
func openDir(at int, path string) (*Dir, error) {
	fd, err := openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	d := &Dir{f: os.NewFile(uintptr(fd), path), path: path}
	if d.info, err = Stat(d.f); err != nil {
		return nil, errors.Join(err, d.f.Close())
	}
	return d, nil
}

// Again opens the directory once more, for another lock on it.
func (d *Dir) Again() (*Dir, error) { return openDir(d.fd(), d.path) }

// File is the open directory. The Dir still owns it.
func (d *Dir) File() *os.File { return d.f }

// Path is the path by which the directory was opened.
func (d *Dir) Path() string { return d.path }

// Info is the state of the directory when it was opened.
func (d *Dir) Info() Info { return d.info }

// Close closes the directory.
func (d *Dir) Close() error { return d.f.Close() }

// Lock takes the exclusive flock(2) of the directory, until Close. It fails if another process, or another Dir, has it.
func (d *Dir) Lock() error {
	if err := unix.Flock(d.fd(), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return d.error("flock", "", err)
	}
	return nil
}

func (d *Dir) fd() int { return int(d.f.Fd()) }

func (d *Dir) error(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: filepath.Join(d.path, name), Err: err}
}

// Open opens a file that exists. The flags are O_RDONLY, O_WRONLY or O_RDWR, and
// O_APPEND.
func (d *Dir) Open(name string, flags int) (*os.File, error) {
	// Without O_NONBLOCK, to open a pipe would wait for its other end.
	fd, err := openat(d.fd(), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, notOpened(d.fd(), name, filepath.Join(d.path, name), "a regular file", err)
	}
	f := os.NewFile(uintptr(fd), filepath.Join(d.path, name))
	if err := d.check(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// check refuses a file that another user could have put there to harm this one.
func (d *Dir) check(f *os.File) error {
	info, err := Stat(f)
	if err != nil {
		return err
	}
	const group, all = 0o020, 0o002
	switch everybody := d.info.Mode & (group | all); {
	case !info.Mode.IsRegular():
		return &Refused{f.Name(), "is not a regular file; want one, or none"}
	case info.Links > 1:
		return &Refused{f.Name(), fmt.Sprintf("has %d names, and may be another user's file; want a file of its own", info.Links)}
	case info.UID != os.Geteuid() && info.UID != 0 && info.UID != d.info.UID && everybody != group:
		return &Refused{f.Name(), fmt.Sprintf("belongs to user %d, and its directory to user %d with mode %s; want a file of user %d, or a directory that a group of both may write (mode 0770)",
			info.UID, d.info.UID, octal(uint32(d.info.Mode.Perm())), os.Geteuid())}
	}
	return nil
}

// Create makes a file, which must not exist, and opens it. O_WRONLY, O_RDWR and
// O_APPEND are its flags. The mode is subject to the umask.
func (d *Dir) Create(name string, flags int, mode fs.FileMode) (*os.File, error) {
	fd, err := openat(d.fd(), name, flags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(mode.Perm()))
	if err != nil {
		return nil, d.error("create", name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, name)), nil
}

// Replace is Create, and first removes a file of that name.
func (d *Dir) Replace(name string, flags int, mode fs.FileMode) (*os.File, error) {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return d.Create(name, flags, mode)
}

// OpenOrCreate is Open, or Create if there is no such file; made reports which. It
// always creates with O_EXCL: with the sysctl fs.protected_regular, O_CREAT alone
// fails on another user's file.
func (d *Dir) OpenOrCreate(name string, flags int, mode fs.FileMode) (f *os.File, made bool, err error) {
	for range 100 {
		if f, err = d.Open(name, flags); !errors.Is(err, fs.ErrNotExist) {
			return f, false, err
		}
		if f, err = d.Create(name, flags, mode); !errors.Is(err, fs.ErrExist) {
			return f, err == nil, err
		}
	}
	return nil, false, &Refused{filepath.Join(d.path, name), "comes and goes; want no other process to delete it"}
}

// Lstat describes the file of that name; if it is a link, the link itself.
func (d *Dir) Lstat(name string) (Info, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return infoOf(&st), d.error("stat", name, err)
}

// Remove removes a file.
func (d *Dir) Remove(name string) error {
	return d.error("remove", name, unix.Unlinkat(d.fd(), name, 0))
}

// Rename gives a file another name.
func (d *Dir) Rename(from, to string) error {
	return d.error("rename", to, unix.Renameat(d.fd(), from, d.fd(), to))
}

// Names returns the names in the directory.
func (d *Dir) Names() ([]string, error) {
	again, err := d.Again() // a new descriptor reads from the beginning
	if err != nil {
		return nil, err
	}
	defer again.Close()
	return again.f.Readdirnames(-1)
}

// Sync writes the names in the directory to the disk.
func (d *Dir) Sync() error { return d.f.Sync() }

// Stat describes an open file.
func Stat(f *os.File) (Info, error) {
	var st unix.Stat_t
	if err := fstat(int(f.Fd()), &st); err != nil {
		return Info{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return infoOf(&st), nil
}

func infoOf(st *unix.Stat_t) Info {
	i := Info{Dev: uint64(st.Dev), Ino: st.Ino, UID: int(st.Uid), GID: int(st.Gid), Links: uint64(st.Nlink), Size: st.Size}
	i.Mode = fs.FileMode(st.Mode).Perm()
	for _, bit := range [...]struct {
		mode uint32
		is   fs.FileMode
	}{{unix.S_ISUID, fs.ModeSetuid}, {unix.S_ISGID, fs.ModeSetgid}, {unix.S_ISVTX, fs.ModeSticky}} {
		if uint32(st.Mode)&bit.mode != 0 {
			i.Mode |= bit.is
		}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		i.Mode |= fs.ModeDir
	case unix.S_IFLNK:
		i.Mode |= fs.ModeSymlink
	case unix.S_IFSOCK:
		i.Mode |= fs.ModeSocket
	case unix.S_IFIFO:
		i.Mode |= fs.ModeNamedPipe
	default:
		i.Mode |= fs.ModeDevice
	}
	return i
}
