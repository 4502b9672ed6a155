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
	// Can is nil, or the reason why this kind of disk cannot have the fault; it matches
	// [ErrUnable].
	Can(Fault) error
	// Fault sets the faults of the disk from now on, replacing earlier ones; Fault{} heals it.
	// Faults that [Can] refuses are refused here, and change nothing.
	Fault(Fault) error
	// Snapshot keeps a copy of all files as they are now, under a name. One of
	// the same name is replaced. The node may run.
	Snapshot(name string) error
	// Restore replaces the files by the copy. The node must be down.
	Restore(name string) error
	// Wipe removes all files. The node must be down.
	Wipe() error
	// PowerLoss removes what was not synced. All processes that use the disk must have been killed;
	// it waits for those that still end.
	PowerLoss() error
	// Close ends the disk, even if it is in use. A copy of its files is left at Path, on an
	// ordinary disk, for inspection. It may be called twice.
	Close() error
}

// Fault are the faults of a disk. Zero is none.
type Fault struct {
	// SyncDelay is how long each fsync and fdatasync takes.
	SyncDelay time.Duration
	// SyncError fails each fsync and fdatasync with EIO. Data that was not durable before such a
	// call never becomes so, even if a later call succeeds.
	SyncError bool
	// WriteError fails writes to files with EIO.
	WriteError bool
	// Full fails with ENOSPC all that needs more space: files that grow, new names.
	Full bool
	// ReadOnly fails all changes with EROFS.
	ReadOnly bool
	// Torn makes the next power loss cut the last write to each file that was not synced in two, at
	// any byte, and keep the first part.
	Torn bool
	// Luck is the seed by which the next power loss draws how much of what was not synced survives;
	// with 0 nothing does.
	Luck uint64
}

// ErrUnable is matched by errors that say what this kind of disk cannot do, or why it is impossible
// on this machine.
var ErrUnable = errors.New("unable")
