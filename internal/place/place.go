// Package place opens the directories in which elect keeps its files, and the
// files in them. It prevents another user of the machine from making elect read or
// change files elsewhere.
//
//   - The path to the configured directory may contain links. No link below that
//     directory is followed, neither at a directory nor at a file.
//   - A file must be regular, have one name, and belong to this user, to root or to
//     the owner of its directory. If a group may write the directory, the file may
//     belong to any user.
//   - Mode and owner of an existing file or directory are never changed. A new one
//     gets its mode and owner through its descriptor.
//   - A process of root refuses a directory that another user can write to or
//     replace, unless [At.Shared] says that these users are trusted.
//
// A directory is used by its descriptor as soon as it was checked, so that a replacement is not used. If Shared
// allows root to use a directory that other users may write, they can still move its contents.
//
// A [Dir] may be used by any number of goroutines. The package keeps no state. Errors are a [*Refused], or a
// *fs.PathError with the full path. The package works on Linux, macOS and FreeBSD; on other systems every call
// returns errors.ErrUnsupported.
package place

import (
	"io/fs"
	"path/filepath"
)

// At is the place of a directory.
type At struct {
	// Path is the configured directory. It is absolute, and may contain links.
	Path string
	// Below are the names of directories, each inside the one before. None may be a link.
	Below []string
	// Shared allows root to use files and directories that other users can write.
	Shared bool
	// Group gives a new directory the access of the one above it: its group, with mode
	// 0770, if that group may write there and not all users may; and its owner, if
	// root makes the new one. Otherwise a new directory has mode 0700.
	Group bool
}

// String is the whole path.
func (a At) String() string {
	return filepath.Join(append([]string{a.Path}, a.Below...)...)
}

// Refused is the error for a file or directory that exists and must not be used. It
// matches fs.ErrPermission.
type Refused struct {
	Path string
	Says string // what is wrong, and what would be right
}

// Error implements error.
func (e *Refused) Error() string { return e.Path + " " + e.Says }

// Unwrap returns fs.ErrPermission.
func (e *Refused) Unwrap() error { return fs.ErrPermission }

// Info describes a file or directory.
type Info struct {
	Dev, Ino uint64
	Mode     fs.FileMode
	UID, GID int
	Links    uint64
	Size     int64
}

// Same reports whether both describe the same file.
func (i Info) Same(o Info) bool { return i.Dev == o.Dev && i.Ino == o.Ino }
