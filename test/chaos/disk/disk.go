//go:build linux

package disk

import (
	"errors"
	"time"
)

// Disk is where one node keeps its data.
type Disk interface {
	// Path is a directory; the node keeps its data below it.
	Path() string
	// Can is nil, or why this kind of disk cannot have the fault; it matches
	// [ErrUnable].
	Can(Fault) error
	// Fault is how the disk is from now on, whatever it was before; Fault{} heals
	// it. What [Can] refuses is refused here, and changes nothing.
	Fault(Fault) error
	// Snapshot keeps a copy of all files as they are now, under a name. One of
	// the same name is replaced. The node may run.
	Snapshot(name string) error
	// Restore puts the copy in the place of what is there. The node must be down.
	Restore(name string) error
	// Wipe removes all files. The node must be down.
	Wipe() error
	// PowerLoss takes away what was not synced. All processes that use the disk
	// must have been killed; those that still end are waited for.
	PowerLoss() error
	// Close ends the disk, even if it is in use. A copy of its files is left at Path, on an
	// ordinary disk, for inspection. It may be called twice.
	Close() error
}

// Fault is what is wrong with a disk. Zero is nothing.
type Fault struct {
	// SyncDelay is how long each fsync and fdatasync takes.
	SyncDelay time.Duration
	// SyncError fails each fsync and fdatasync with EIO. What was not durable
	// before such a call never becomes so, also if a later call succeeds.
	SyncError bool
	// WriteError fails with EIO what writes to a file.
	WriteError bool
	// Full fails with ENOSPC what needs more space: files that grow, new names.
	Full bool
	// ReadOnly fails with EROFS all that changes something.
	ReadOnly bool
	// Torn has the next power loss cut in two the last write to each file that was
	// not synced, at any byte, and keep the first part.
	Torn bool
	// Luck is the seed by which it is drawn how much of what was not synced
	// survives the next power loss; with 0 nothing does.
	Luck uint64
}

// ErrUnable is matched by errors that say what this kind of disk cannot do, or
// why there can be none of the kind here.
var ErrUnable = errors.New("unable")
