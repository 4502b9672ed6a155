package disk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
)

// The names of the files.
const (
	lockName     = "lock"
	identityName = "identity"
	ballotName   = "ballot"
	pinsName     = "pins"
	historyName  = "history.ndjson"
	olderName    = "history-old.ndjson"
	flightPrefix = "flight-"
)

// Dir is an open data directory. No other process has it open.
type Dir struct {
	path     string
	at       folder
	root     *place.Dir // for the history; nil if there is no real directory
	locks    []*os.File
	identity Identity
	voted    bool // the identity says that there is a ballot
	warnings []string

	ballot  []byte // the one read by Open
	ballots *ballots

	pinning chan struct{} // held while pins are written
	history history

	mu   sync.Mutex
	pins map[protocol.NodeID]protocol.DirID // replaced, never changed
}

// LockWait is how long Open waits for another process to release the directory. When a node restarts at once, the
// keeper of its last life holds it until the work of that life is dead.
const LockWait = 5 * time.Second

// lockPoll is the time between two attempts. flock can wait, but not until a deadline.
const lockPoll = 5 * time.Millisecond

// Open opens a data directory, and makes it if it is absent or empty, with mode 0700 and a Dir of its own; want.Dir
// is ignored. If another process has it, Open waits for at most LockWait, and no longer than ctx. Its errors are
// [*InUse], [*Refused], [*place.Refused], and errors of the file system.
func Open(ctx context.Context, at place.At, want Identity) (*Dir, error) {
	if err := want.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	opened, err := at.Make()
	if err != nil {
		return nil, err
	}
	locked, err := await(ctx, opened)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	d, err := open(root{opened}, opened.Path(), want)
	if err != nil {
		return nil, errors.Join(err, opened.Close(), closeAll(locked))
	}
	d.root, d.locks = opened, locked
	return d, nil
}

// await takes the lock as soon as it is free.
func await(ctx context.Context, dir *place.Dir) ([]*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, LockWait)
	defer cancel()
	var poll *time.Ticker
	for {
		locked, err := lock(dir)
		if _, ok := errors.AsType[*InUse](err); !ok {
			return locked, err
		}
		if poll == nil {
			poll = time.NewTicker(lockPoll)
			defer poll.Stop()
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-poll.C:
		}
	}
}

// Hold locks an existing directory, of any kind, as [Open] locks a data directory, and waits as long for another
// process. The returned function releases it.
func Hold(ctx context.Context, path string) (release func() error, err error) {
	dir, err := place.At{Path: path}.Open()
	if err != nil {
		return nil, err
	}
	locked, err := await(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() error { return errors.Join(closeAll(locked), dir.Close()) }, nil
}

// open reads the directory's files, or makes them. The lock is held.
func open(at folder, path string, want Identity) (*Dir, error) {
	d := &Dir{path: path, at: at, pinning: make(chan struct{}, 1)}
	// Make the renames of an earlier process durable.
	if err := at.Sync(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text, err := read(at, identityName, maxSealed)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return d, d.make(want)
	}
	if d.identity, d.voted, err = decodeIdentity(text); err != nil {
		return nil, refused(path, "its file %s is damaged: %v. Without it this voter is not known to the others", identityName, err)
	}
	if own := (Identity{want.Cluster, want.Election, want.ID, d.identity.Dir, d.identity.Era}); own != d.identity {
		return nil, refused(path, "it belongs to %v, and not to %v; want a directory for each node of each election", d.identity, own)
	}
	if want.Era < d.identity.Era {
		return nil, d.falls(want.Era)
	}
	switch says, err := voided(at); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case says != "":
		return nil, refused(path, "%s", says)
	}
	if err := d.readPins(); err != nil {
		return nil, err
	}
	return d, d.readBallots()
}

// Raise makes a greater era durable; a new directory has its own from Open on. The node calls it after everything
// else in its start that may fail, because it cannot be undone, and before any token of that era.
func (d *Dir) Raise(era uint64) error {
	switch {
	case era == d.identity.Era:
		return nil
	case era < d.identity.Era:
		return d.falls(era)
	}
	raised := d.identity
	raised.Era = era
	text, err := encodeIdentity(raised, d.voted)
	if err == nil {
		err = replace(d.at, identityName, text)
	}
	if err != nil {
		return fmt.Errorf("%s: its era cannot be raised: %w", d.path, err)
	}
	d.identity = raised
	return nil
}

// falls refuses a smaller era, in which tokens would fall.
func (d *Dir) falls(era uint64) error {
	own := d.identity.Era
	return refused(d.path, "it was used in era %d of tokens, and era %d is configured: tokens would fall; want era=%d or more", own, era, own)
}

func (d *Dir) readPins() error {
	text, err := read(d.at, pinsName, maxSealed)
	if err != nil {
		return err
	}
	if text == nil {
		err = errors.New("it is missing")
	} else {
		d.pins, err = decodePins(text)
	}
	if err != nil {
		return refused(d.path, "its file %s, which has the directories that the other voters are known by, is lost: %v. %s", pinsName, err, Remedy)
	}
	return nil
}

func (d *Dir) readBallots() error {
	f, err := d.at.Open(ballotName)
	if errors.Is(err, fs.ErrNotExist) {
		if d.voted {
			return refused(d.path, "its votes are lost: its file %s is missing. %s", ballotName, Remedy)
		}
		if f, err = createBallots(d.at); err == nil {
			err = d.at.Sync()
		}
	}
	if err != nil {
		return err
	}
	if d.ballots, d.ballot, d.warnings, err = openBallots(f, d.path, d.voted); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// make makes the directory, or completes an interrupted attempt. The identity comes last: a directory that has one
// has the other files too.
func (d *Dir) make(want Identity) error {
	if err := d.vacant(); err != nil {
		return err
	}
	d.identity, d.pins = want, make(map[protocol.NodeID]protocol.DirID)
	_, _ = rand.Read(d.identity.Dir[:]) // never fails
	pins, err := encodePins(d.pins)
	if err != nil {
		return err
	}
	identity, err := encodeIdentity(d.identity, false)
	if err != nil {
		return err
	}
	f, err := createBallots(d.at)
	if err == nil {
		err = replace(d.at, pinsName, pins) // also makes the name of the ballot durable
	}
	if err == nil {
		err = replace(d.at, identityName, identity)
	}
	if err == nil {
		d.ballots, _, _, err = openBallots(f, d.path, false)
	}
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return fmt.Errorf("%s: it cannot be made a data directory: %w", d.path, err)
	}
	return nil
}

// vacant returns an error if no data directory can be made here, because the contents are not the beginning of one.
func (d *Dir) vacant() error {
	names, err := d.at.List()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case name == lockName, strings.HasSuffix(name, temporary):
		case name == pinsName:
			text, err := read(d.at, pinsName, maxSealed)
			if err != nil {
				return err
			}
			if pins, err := decodePins(text); err != nil || len(pins) > 0 {
				return d.headless(pinsName)
			}
		case name == ballotName:
			raw, err := read(d.at, ballotName, 2*SlotSize)
			if err != nil {
				return err
			}
			for slot := range slices.Chunk(raw, SlotSize) {
				if _, err := decodeSlot(slot); err == nil || errors.Is(err, errFormat) {
					return d.headless(ballotName)
				}
			}
		case name == historyName, name == olderName, strings.HasPrefix(name, flightPrefix):
			return d.headless(name)
		default:
			return refused(d.path, "it has no file %s, and is not empty: there is %q; want an empty directory or a node's own", identityName, name)
		}
	}
	return nil
}

func (d *Dir) headless(name string) error {
	return refused(d.path, "its file %s is missing, but %s is there: this was a node's directory, and whose it was is lost. %s", identityName, name, Remedy)
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Identity is the owner of a directory.
func (d *Dir) Identity() Identity { return d.identity }

// Locks are the locked files, with absolute names: the file lock and, if the file system can lock one, the directory.
// Copies of their descriptors keep other processes out until the last one is closed. The Dir keeps owning the files.
func (d *Dir) Locks() []*os.File { return d.locks }

// Warnings are Open's warnings for people, a sentence each.
func (d *Dir) Warnings() []string { return d.warnings }

// Close closes all files. It does not unlock: the lock lasts until the last copy of its descriptor is closed.
func (d *Dir) Close() error {
	err := errors.Join(d.ballots.f.Close(), d.history.close())
	if d.root != nil {
		err = errors.Join(err, d.root.Close())
	}
	return errors.Join(err, closeAll(d.locks))
}

func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}
