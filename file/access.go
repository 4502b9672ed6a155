//go:build linux || darwin || freebsd

package file

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
)

// access says for which users the files of an election are: those who may write its directory.
type access struct {
	mode     uint32 // 0600, or 0660 if a group may write the directory
	uid, gid int    // for new files; -1 leaves the kernel's choice
}

func accessOf(dir *unix.Stat_t) access {
	a := access{mode: 0o600, uid: -1, gid: -1}
	if os.Geteuid() == 0 {
		// Root may stand in another user's election, and must not lock that user out of it afterwards.
		a.uid, a.gid = int(dir.Uid), int(dir.Gid)
	}
	if dir.Mode&0o020 != 0 {
		a.mode, a.gid = 0o660, int(dir.Gid)
	}
	return a
}

// apply gives a new file its owner and mode, regardless of the umask. It only logs a failure, which does this
// candidate no harm.
func (a access) apply(fd int, name string, log *slog.Logger) {
	if a.uid >= 0 || a.gid >= 0 {
		if err := unix.Fchown(fd, a.uid, a.gid); err != nil {
			log.Warn("other users of this election may not be able to open a file of it", "file", name, "operation", "chown", "error", err)
		}
	}
	if err := unix.Fchmod(fd, a.mode); err != nil {
		log.Warn("other users of this election may not be able to open a file of it", "file", name, "operation", "chmod", "error", err)
	}
}

// syncDir makes the names in a directory durable. It ignores a directory that may not be read, and a file system that
// has no such operation.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return explain("fsync", path, err)
	}
	return nil
}

// inspect checks path, or the nearest directory above it that exists, for permanent errors. It changes nothing.
func inspect(path string, log *slog.Logger) error {
	for at := path; ; at = filepath.Dir(at) {
		st, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at):
			continue
		case err != nil:
			return explain("stat", at, err)
		case !st.IsDir():
			return driver.Permanent(fmt.Errorf("%s is not a directory; want another path, or remove it", at))
		}
		return checkFileSystem(at, log)
	}
}

// explainPlace is explain for an error of package place. What that package refuses stays refused until the place is
// changed.
func explainPlace(err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return driver.Permanent(err)
	}
	if above := filepath.Dir(at.Path); at.Op == "mkdir" && errors.Is(err, unix.ENOENT) {
		if _, err := os.Stat(above); err == nil {
			return driver.Permanent(fmt.Errorf("mkdir %s: %s holds no directories of ours; want a path on an ordinary file system", at.Path, above))
		}
	}
	return explain(at.Op, at.Path, err)
}

// explain makes one line of an error of the file system: what failed, the reason as far as it can be seen, and what
// would be right. It marks permanent errors.
func explain(op, path string, err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		err = errno // without the path that os repeats
	}
	switch {
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return driver.Permanent(fmt.Errorf("%s %s: %w for user %d: %s; want a directory and files that this user may write",
			op, path, err, os.Geteuid(), describe(blocker(path))))
	case errors.Is(err, unix.EROFS):
		return driver.Permanent(fmt.Errorf("%s %s: %w; want a directory on one that can be written", op, path, err))
	case errors.Is(err, unix.EISDIR):
		return driver.Permanent(fmt.Errorf("%s %s: %w; want a regular file there, or none", op, path, err))
	case errors.Is(err, unix.ENOTDIR):
		return driver.Permanent(fmt.Errorf("%s %s: %s is not a directory; want another path, or remove it", op, path, blocker(path)))
	case errors.Is(err, unix.ENAMETOOLONG):
		return driver.Permanent(fmt.Errorf("%s %s: %w; want a shorter path", op, path, err))
	case errors.Is(err, unix.ELOOP):
		return driver.Permanent(fmt.Errorf("%s %s: %w; want a path without links in its last part", op, path, err))
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%s %s: %w; free some space there", op, path, err)
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%s %s: %w; close some, or raise the limit (ulimit -n)", op, path, err)
	case errors.Is(err, unix.EIO):
		return fmt.Errorf("%s %s: %w; look at the disk and the kernel's log", op, path, err)
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}

// blocker returns the longest part of path that can be inspected: what is there blocks the caller, unless it is the
// whole path.
func blocker(path string) string {
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			return at
		}
	}
}

func describe(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Sprintf("%s cannot be looked at", path)
	}
	return fmt.Sprintf("%s belongs to user %d and group %d with mode %s", path, st.Uid, st.Gid, modeString(uint32(st.Mode)))
}

func modeString(mode uint32) string { return fmt.Sprintf("%04o", mode&0o7777) }
