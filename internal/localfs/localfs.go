// Package localfs tells what kind of file system a path is on, for those who rely on
// what only a local one gives: locks that all who use it see, and bytes that stay when
// they were synced.
//
// It keeps nothing, and is safe for concurrent use. What the system does not tell is an
// error; where this is not known how to ask, that matches errors.ErrUnsupported.
package localfs

// Kind is what is known of a file system.
type Kind int

// The kinds.
const (
	Local   Kind = iota // as far as can be told
	Memory              // gone when the machine starts again
	FUSE                // may be of either kind
	Network             // other machines may write to it, and do not see locks, or only under conditions that cannot be checked from here
)

// System is a file system.
type System struct {
	Kind Kind
	Name string // for people, of a network or FUSE; else empty
}
