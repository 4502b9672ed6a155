//go:build linux || darwin || freebsd

package file

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	dirs "github.com/electd/elect/internal/place"
)

// Watch implements driver.Elector. It looks every [Poll], and neither takes
// the lock nor writes anything. It never yields an error: a directory that does
// not exist is an election without a leader, and one that may not be read is a
// stale State. A lock that is held by a process that does not lead, such as
// flock(1), is a State without a leader and with a Cause that names the process.
func (e *Elector) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		if ctx.Err() != nil || e.life.Err() != nil {
			return
		}
		r := newReader(e.path, e.cfg.Logger)
		r.holdsOff = e.holdsOff
		defer r.close()
		first := time.Millisecond // an observer often begins when a leader has just gone, and the next one comes
		next := func() time.Duration {
			wait := min(nextPoll(), first)
			first = min(2*first, Poll)
			return wait
		}
		tick := time.NewTimer(next())
		defer tick.Stop()
		for ; ; tick.Reset(next()) {
			if r.look() && !yield(r.state, nil) {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			case <-e.life.Done():
				return
			}
		}
	}
}

// nextPoll is the time until this process polls next, at most [Poll]. All polls of a process are at the same instants,
// because to wake up costs more than a poll. Other processes poll at other instants.
func nextPoll() time.Duration {
	now := time.Now().UnixNano() + int64(os.Getpid())*int64(time.Millisecond)
	return Poll - time.Duration(now%int64(Poll))
}

// foreignAfter is the number of checks in a row without a leader after which the reader asks the kernel for the
// holder of the lock. It asks again after each further such number.
const foreignAfter = int(time.Second / Poll)

// reader is one observer. One goroutine uses it.
type reader struct {
	path     string
	lockPath string
	log      *slog.Logger
	state    driver.State // the last state shown
	shown    bool

	// What was open at the last check; nil if nothing was. It stays open so that a check is three system calls, and so
	// that no other file can have the same identity.
	dir              *dirs.Dir
	lock, record     *os.File
	lockID, recordID identity
	holdsOff         func() holdOff // what this very participant waits for; "" is nothing
	idle             int            // checks since there was a leader
	foreign          int            // process that holds the lock without leading, or 0
}

func newReader(path string, log *slog.Logger) *reader {
	return &reader{path: path, lockPath: path + "/" + lockName, log: log, holdsOff: func() holdOff { return "" }}
}

// look updates the state and reports whether it differs from the one shown.
func (r *reader) look() bool {
	leader, known, err := r.leader()
	next := r.state
	switch {
	case err != nil:
		next.Stale, next.Cause = true, err
	case known:
		return !r.shown // unchanged, and not stale
	default:
		next = driver.State{Leader: leader}
		if pid := r.holder(leader != nil); pid != 0 {
			next.Cause = r.held(pid)
		}
	}
	changed := !r.shown || !same(r.state, next)
	r.state, r.shown = next, true
	return changed
}

func same(a, b driver.State) bool {
	if a.Stale != b.Stale || (a.Cause == nil) != (b.Cause == nil) || a.Cause != nil && a.Cause.Error() != b.Cause.Error() {
		return false
	}
	if a.Leader == nil || b.Leader == nil {
		return a.Leader == b.Leader
	}
	return a.Leader.Token == b.Leader.Token && a.Leader.ID == b.Leader.ID && maps.Equal(a.Leader.Metadata, b.Leader.Metadata)
}

// leader returns the leader, or nil if there is none. known means that it is still the leader shown last; then the
// result is nil.
func (r *reader) leader() (_ *driver.Leader, known bool, err error) {
	for range 10 {
		led, ledErr := r.led()
		if ledErr != nil || !led {
			return nil, false, ledErr
		}
		// There is a leader. The record is in place before the lock says so. So the present record is that of the leader,
		// or of the next one.
		if r.shown && !r.state.Stale && r.state.Leader != nil && r.recordInPlace() {
			return nil, true, nil
		}
		r.closeRecord()
		var rec *record
		if rec, r.record, err = readRecord(r.dir); r.record != nil {
			r.recordID, err = fileIdentity(r.record, err)
		}
		// A second check excludes the next one: either it has not yet announced that it leads, or it is the leader by now.
		if led, ledErr = r.led(); ledErr != nil || !led {
			continue
		}
		switch {
		case err != nil && r.record == nil:
			err = explainPlace(err)
		case !r.recordInPlace():
			err = fmt.Errorf("%s/%s changes faster than it can be read", r.path, recordName)
		case err != nil:
			return nil, false, fmt.Errorf("%s/%s: %w", r.path, recordName, err)
		default:
			return rec.leader(), false, nil
		}
	}
	return nil, false, err
}

// led reports whether the lock in place says that its holder leads.
func (r *reader) led() (bool, error) {
	var st unix.Stat_t
	if r.lock != nil {
		// One check of the lock file is enough: either its directory is the open one, or the path leads to another file.
		if err := unix.Lstat(r.lockPath, &st); err != nil || identityOf(&st) != r.lockID {
			r.close()
		}
	}
	if r.lock == nil {
		if err := r.open(); err != nil || r.lock == nil {
			return false, err
		}
	}
	led, err := announced(int(r.lock.Fd()), r.path)
	if err != nil {
		return false, explain("query", r.lockPath, err)
	}
	return led, nil
}

// open opens the files in place. It is no error if there are none.
func (r *reader) open() error {
	dir, err := openToRead(r.path)
	if err == nil {
		r.dir = dir
		r.lock, err = dir.Open(lockName, os.O_RDONLY)
	}
	if err == nil {
		r.lockID, err = fileIdentity(r.lock, nil)
	}
	if err != nil {
		r.close()
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return explainPlace(err)
}

// openToRead opens the election's directory for reading, which is safe in any place.
func openToRead(path string) (*dirs.Dir, error) {
	where := directory(path)
	where.Shared = true
	return where.Open()
}

func (r *reader) dirfd() int { return int(r.dir.File().Fd()) }

func (r *reader) recordInPlace() bool {
	var st unix.Stat_t
	return r.record != nil &&
		unix.Fstatat(r.dirfd(), recordName, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && identityOf(&st) == r.recordID
}

// holder returns the process that has the lock although there is no leader, as far as the kernel tells. It asks at
// the first check, and then each second.
func (r *reader) holder(led bool) int {
	if led {
		r.idle, r.foreign = 0, 0
		return 0
	}
	if r.lock == nil {
		r.foreign = 0
	} else if r.idle%foreignAfter == 0 {
		was := r.foreign
		if r.foreign = flockHolder(r.lockID); r.foreign != 0 && r.foreign != was && r.idle > 0 {
			r.log.Warn("a process holds the lock of this election and does not lead", "file", r.lockPath, "pid", r.foreign)
		}
	}
	r.idle++
	return r.foreign
}

// held is why there is no leader although a process has the lock. It is nil if that is this process, which is about
// to lead. While nothing has ever been led with the lock, the process may be a candidate that waits for HoldOff.
func (r *reader) held(pid int) error {
	if pid == os.Getpid() {
		if h := r.holdsOff(); h != "" {
			return h
		}
		return nil
	}
	err := fmt.Errorf("process %d holds %s and does not lead", pid, r.lockPath)
	p := place{path: r.path, lockPath: r.lockPath, dir: r.dir.File(), lock: r.lock, lockID: r.lockID}
	if h, failed := p.history(); failed != nil || h.used || r.idle > foreignAfter { // or it has had the lock for longer
		return err
	}
	return fmt.Errorf("%w; process %d is next, or has the lock for another reason", newElection, pid)
}

func (r *reader) closeRecord() {
	if r.record != nil {
		_ = r.record.Close()
		r.record = nil
	}
}

func (r *reader) close() {
	r.closeRecord()
	if r.lock != nil {
		_ = r.lock.Close()
	}
	if r.dir != nil {
		_ = r.dir.Close()
	}
	r.lock, r.dir = nil, nil
}

// fileIdentity returns the identity of f, and err; the error is its own if that fails.
func fileIdentity(f *os.File, err error) (identity, error) {
	var st unix.Stat_t
	if statErr := unix.Fstat(int(f.Fd()), &st); statErr != nil {
		return identity{}, statErr
	}
	return identityOf(&st), err
}
