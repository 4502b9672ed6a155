package register

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/store/internal/drive"
)

// Register is where a store keeps the record of one election. Its methods are called by any number
// of goroutines. An error means that the outcome is not known, unless [ErrNotSent] is in it.
type Register interface {
	// Read returns what is kept now. It is linearizable with the writes, but what it shows need
	// not be durable: only a Write that returned no error proves anything.
	Read(ctx context.Context) (Kept, error)
	// Write replaces the record of that version by text, or creates it where version is ""
	// and there is none. If the store has another version, or none, it does nothing, and
	// returns [ErrConflict]; with [ErrNotSent] and why if that version is not one to replace. It
	// returns no error before what it wrote, and all that was there before it, is as durable as
	// it gets.
	Write(ctx context.Context, version, text string) (Kept, error)
}

// Watcher is a Register that is notified of changes. A notification only makes the machine read, so
// a Watcher may miss changes and report false ones.
type Watcher interface {
	Register
	// Watch calls changed when the record may have changed, until ctx ends.
	Watch(ctx context.Context, changed func())
}

// Sighter is a Register whose notifications have the record, so that nothing has to be read to see a renewal.
type Sighter interface {
	Register
	// Sight calls seen with each version of the record, which may be late, until ctx ends. A Kept without a version
	// means that the record may have changed, or is not there.
	Sight(ctx context.Context, seen func(Kept))
}

// Sharer is a Register that can read the records of several elections with one request.
type Sharer interface {
	Register
	// Shares reports whether there are others now.
	Shares() bool
	// ReadSoon is a Read that may wait for others until soon is closed.
	ReadSoon(ctx context.Context, soon <-chan struct{}) (Kept, error)
}

// Kept is what a Register has kept.
type Kept struct {
	Text    string
	Version string // differs for each text that was ever kept; "": there is no record
	Store   string // the incarnation of the store; "" where there is none to tell
	Deaf    string // why the holder reads no wishes; "": it does
}

// What a Register's errors may be.
var (
	ErrConflict = drive.ErrConflict
	ErrNotSent  = drive.ErrNotSent
)

// Bounds of [Config].Lease, and its default.
const (
	DefaultLease    = 5 * time.Second
	DefaultMaxLease = 15 * time.Second
	MinLease        = 100 * time.Millisecond
	MaxLease        = time.Hour
)

// Config is what an Elector is made with.
type Config struct {
	drive.Config
	// Lease is how long others wait for a leader that has fallen silent, and MaxLease the
	// longest one that any participant may have. 0 is the default.
	Lease, MaxLease time.Duration
	Poll            time.Duration // the mean time between two reads of a waiting candidate; 0: a quarter of Lease
	Assumes         string        // what exclusivity rests on; see driver.Limits
	// Global is the number of a version, where versions rise over all records of one incarnation of the store, deleted
	// ones included: a token is greater than the one that it replaces. It is not 0. Nil: versions only differ.
	Global func(version string) uint64
}

// Elector is one participant of an election. Make it with [New].
type Elector struct {
	drive.Elector
	cfg      Config
	register Register
	times    lease.Config
	versions versions
	hurry    atomic.Pointer[context.CancelFunc] // ends the patience of the latest read; nil: there was none

	// Owned by turns.
	calm   bool // the latest request was a read that succeeded
	holder *driver.Leader
	count  uint64    // of holder
	since  time.Time // of the own tenure with that count
	own    uint64
	nonce  protocol.Nonce // of the own tenure that was written last
	proven string         // the version that was acknowledged last
	shown  driver.State
	any    bool // shown was shown
}

var _ driver.Elector = (*Elector)(nil)

// New returns a participant, which reads the record from then on. The caller keeps r, and
// closes it after the Elector.
func New(r Register, cfg Config) (*Elector, error) {
	e := &Elector{cfg: cfg, register: r}
	if err := e.Init(cfg.Config); err != nil {
		return nil, err
	}
	e.cfg.Lease, e.cfg.MaxLease = defaults(cfg.Lease, cfg.MaxLease)
	switch c := &e.cfg; {
	case c.Lease < MinLease || c.Lease > MaxLease:
		return nil, driver.Permanent(fmt.Errorf("a lease of %v; want %v to %v", c.Lease, MinLease, MaxLease))
	case c.Lease > c.MaxLease || c.MaxLease > MaxLease:
		return nil, driver.Permanent(fmt.Errorf("a lease of %v, and a longest one of %v; want the longest one of any participant, at most %v", c.Lease, c.MaxLease, MaxLease))
	}
	e.times = lease.Config{Self: protocol.NodeID(cfg.ID), Duration: e.cfg.Lease, MaxDuration: e.cfg.MaxLease, Poll: cfg.Poll, GlobalVersions: cfg.Global != nil}
	e.versions.global = cfg.Global
	m, err := lease.New(e.times)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	if err := e.Start(m, lease.Name, e.times, drive.Hooks{Store: e, Timeout: e.times.RequestTimeout(), Published: e.published, Standing: e.standing, SetMetadata: e.setMetadata, Tenure: e.tenure}); err != nil {
		return nil, err
	}
	return e, nil
}

func defaults(d, longest time.Duration) (time.Duration, time.Duration) {
	if longest == 0 {
		longest = max(DefaultMaxLease, d)
	}
	if d == 0 {
		d = min(DefaultLease, longest)
	}
	return d, longest
}

// Timeout is that of a participant's requests, 0 if there can be none with these times. They are
// as in [Config].
func Timeout(d, longest time.Duration) time.Duration {
	d, longest = defaults(d, longest)
	return lease.Config{Self: "a", Duration: d, MaxDuration: longest}.RequestTimeout()
}

// Admitter is a [Register] that may refuse candidates.
type Admitter interface {
	// Admit returns an error marked by [driver.Permanent] if this participant cannot lead.
	Admit(ctx context.Context) error
}

// Campaign implements [driver.Elector].
func (e *Elector) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if a, ok := e.register.(Admitter); ok && ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, admitTime)
		stop := context.AfterFunc(e.Life, cancel)
		_, err := drive.Within(asking, func() error { return a.Admit(asking) })
		stop()
		cancel()
		if driver.IsPermanent(err) {
			return nil, drive.Refused(err)
		} else if err != nil {
			e.Log.Warn("the store admits no candidate yet", "error", err)
		}
	}
	return e.Elector.Campaign(ctx, c)
}

// admitTime is how long a campaign waits for an [Admitter].
const admitTime = 5 * time.Second

// Watch implements [driver.Elector].
func (e *Elector) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return e.Run.States().All(ctx)
}

// Limits implements [driver.Elector].
func (e *Elector) Limits() driver.Limits {
	drift := protocol.DefaultDrift()
	return driver.Limits{
		Lease: drift.Claim(e.cfg.Lease), MinLease: drift.Claim(MinLease), MaxLease: drift.Claim(MaxLease),
		Takeover: e.times.WorstTakeover() + e.patience(), Exclusive: true,
		Abilities: e.Abilities(),
		Assumes:   drive.Assumes(e.cfg.Assumes),
	}
}

// patience is how long a read at rest may wait for those of others, 0 if there are none: a part of the time between two
// reads, and of that in which a read must be answered.
func (e *Elector) patience() time.Duration {
	if s, ok := e.register.(Sharer); !ok || !s.Shares() {
		return 0
	}
	d := e.times.RequestTimeout()
	if p := e.times.Poll; p > 0 {
		d = min(d, p)
	}
	return d / 8
}

// published shows observers what a step has changed.
func (e *Elector) published(v *protocol.View) {
	s := driver.State{}
	if v.Leader.ID != "" {
		s.Leader = &driver.Leader{ID: string(v.Leader.ID), Token: e.Run.Token(v.Leader.Term)}
		if h := e.holder; h != nil && h.ID == s.Leader.ID && e.count == v.Leader.Term {
			s.Leader.Metadata, s.Leader.Since = h.Metadata, h.Since
		}
	}
	if e.Trouble != nil {
		s.Stale, s.Cause = true, fmt.Errorf("%w: %w", driver.ErrUnreachable, e.Trouble)
		if s.Leader == nil {
			s.Leader = e.shown.Leader // the last one that was known
		}
	}
	if v.Fault != "" {
		s.Cause = errors.New(v.Fault)
	}
	if !e.Answered || e.any && drive.Same(&s, &e.shown) {
		return
	}
	e.shown, e.any = s, true
	e.Run.States().Set(s)
}

// setMetadata: the next renewal carries it, and is made at once.
func (e *Elector) setMetadata(ctx context.Context, m *runtime.Mandate, metadata map[string]string) error {
	e.Run.Call(func() {
		if e.Run.Held() == m {
			e.Metadata = metadata
		}
	})
	return m.Confirm(ctx)
}
