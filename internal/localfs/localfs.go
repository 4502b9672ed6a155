// Package localfs tells what kind of file system a path is on, for code that needs the guarantees of a local one:
// locks that all its users see, and synced bytes that stay.
//
// It keeps no state, and is safe for concurrent use. If the system does not tell, that is an error. On systems that
// this package does not support the error matches errors.ErrUnsupported.
package localfs

// Kind is a kind of file system.
type Kind int

// The kinds.
const (
	Local  Kind = iota // as far as known
	Memory             // gone when the machine starts again
	FUSE               // may be of either kind
	// other machines may write to it, and do not see locks, or only under conditions that this package cannot check
	Network
)

// System is a file system.
type System struct {
	Kind Kind
	Name string // for people, of a network or FUSE; else empty
}
