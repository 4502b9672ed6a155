// Package place opens the directories in which elect keeps its files, and the
// files in them, so that another user of the machine cannot turn what elect does
// there against what lies elsewhere.
//
//   - The directory that somebody has chosen may be reached through links. No link
//     below it is followed, neither at a directory nor at a file.
//   - A file is a regular one, has one name, and belongs to this user, to root, to
//     the owner of its directory, or to anybody of the group for which that is.
//   - Mode and owner of what exists are never changed. What was made just now gets
//     its own through its descriptor.
//   - A process of root refuses a directory that another user can write to, or can
//     put another one in the place of, unless [At.Shared] says that they are trusted.
//
// A directory is used by its descriptor from the moment on at which it was looked
// at, so that one that is exchanged meanwhile is not used. Where others may write a
// directory, which Shared allows root to use, they can still move what is in it.
//
// A [Dir] may be used by any number of goroutines. Nothing is kept between calls.
// Errors are a [*Refused], or a *fs.PathError with the full path. It works on Linux,
// macOS and FreeBSD; elsewhere all ends with errors.ErrUnsupported.
package place

import (
	"io/fs"
	"path/filepath"
)

// At says where a directory is.
type At struct {
	// Path was chosen by who runs the program. It is absolute, and may contain links.
	Path string
	// Below are the names of directories, each in the one before. None may be a link.
	Below []string
	// Shared allows root to use what other users can write.
	Shared bool
	// Group gives a directory that is made to those for whom the one above it is: to
	// its group where that may write and not all may, and to its owner where root
	// makes it. Otherwise it is for this user alone, with mode 0700.
	Group bool
}

// String is the whole path.
func (a At) String() string {
	return filepath.Join(append([]string{a.Path}, a.Below...)...)
}

// Refused is the error for what is there and cannot be used. It matches
// fs.ErrPermission.
type Refused struct {
	Path string
	Says string // what is wrong, and what would be right
}

// Error implements error.
func (e *Refused) Error() string { return e.Path + " " + e.Says }

// Unwrap returns fs.ErrPermission.
func (e *Refused) Unwrap() error { return fs.ErrPermission }

// Info is what is known of a file or directory.
type Info struct {
	Dev, Ino uint64
	Mode     fs.FileMode
	UID, GID int
	Links    uint64
	Size     int64
}

// Same reports whether both are of one file.
func (i Info) Same(o Info) bool { return i.Dev == o.Dev && i.Ino == o.Ino }
