package register

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/runtime"
)

// Register is where a store keeps the record of one election. Its methods are called by
// any number of goroutines; those of one elector make one call at a time. An error means
// that the outcome is not known, unless [ErrNotSent] is in it.
type Register interface {
	// Read returns what is kept now. It is linearizable.
	Read(ctx context.Context) (Kept, error)
	// Write replaces the record of that version by text, or creates it where version is ""
	// and there is none. If the store has another version, or none, it does nothing, and
	// returns [ErrConflict]. It returns when what it wrote is as durable as it gets.
	Write(ctx context.Context, version, text string) (Kept, error)
}

// Kept is what a Register has kept.
type Kept struct {
	Text    string
	Version string // differs for each text that was ever kept; "": there is no record
	Store   string // the incarnation of the store; "" where there is none to tell
}

// What a Register's errors may be.
var (
	// ErrConflict: the condition of a write did not hold.
	ErrConflict = errors.New("another version is there")
	// ErrNotSent: nothing was sent, and nothing will be.
	ErrNotSent = errors.New("not sent")
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
	Name, ID string
	Era      uint64
	// Lease is how long others wait for a leader that has fallen silent, and MaxLease the
	// longest one that any participant may have. 0 is the default.
	Lease, MaxLease time.Duration
	Poll            time.Duration // the mean time between two reads of a waiting candidate; 0: a quarter of Lease
	Assumes         string        // what exclusivity rests on; see driver.Limits
	Logger          *slog.Logger
	Now             func() protocol.Reading // reads the clocks; nil: those of the system
}

// Elector is one participant of an election. Make it with [New].
type Elector struct {
	cfg      Config
	register Register
	times    lease.Config
	run      *runtime.Runner
	work     sync.WaitGroup
	life     context.Context
	cancel   context.CancelFunc
	closing  sync.Once

	versions versions

	// Owned by turns.
	trouble  error // of the latest request
	answered bool  // there was an answer, or a trouble
	holder   *driver.Leader
	count    uint64 // of holder
	metadata map[string]string
	since    time.Time // of the own tenure with that count
	own      uint64
	shown    driver.State
	any      bool // shown was shown

	mu    sync.Mutex
	idle  bool          // the machine releases nothing
	moved chan struct{} // closed at each change of idle
}

var _ interface {
	driver.Elector
} = (*Elector)(nil)

// New returns a participant, which reads the record from then on. The caller keeps r, and
// closes it after the Elector.
func New(r Register, cfg Config) (*Elector, error) {
	e := &Elector{cfg: cfg, register: r, idle: true, moved: make(chan struct{})}
	if err := errors.Join(driver.CheckName(cfg.Name), driver.CheckID(cfg.ID)); err != nil {
		return nil, driver.Permanent(err)
	}
	if e.cfg.MaxLease == 0 {
		e.cfg.MaxLease = max(DefaultMaxLease, cfg.Lease)
	}
	if e.cfg.Lease == 0 {
		e.cfg.Lease = min(DefaultLease, e.cfg.MaxLease)
	}
	if e.cfg.Logger == nil {
		e.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch c := &e.cfg; {
	case c.Lease < MinLease || c.Lease > MaxLease:
		return nil, driver.Permanent(fmt.Errorf("a lease of %v; want %v to %v", c.Lease, MinLease, MaxLease))
	case c.Lease > c.MaxLease || c.MaxLease > MaxLease:
		return nil, driver.Permanent(fmt.Errorf("a lease of %v, and a longest one of %v; want the longest one of any participant, at most %v", c.Lease, c.MaxLease, MaxLease))
	}
	if _, err := fence.NewToken(cfg.Era, 1); err != nil {
		return nil, driver.Permanent(err)
	}
	e.times = lease.Config{Self: protocol.NodeID(cfg.ID), Duration: e.cfg.Lease, MaxDuration: e.cfg.MaxLease, Poll: cfg.Poll}
	m, err := lease.New(e.times)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	e.life, e.cancel = context.WithCancel(context.Background())
	e.run = runtime.New(runtime.Config{
		ID: protocol.NodeID(cfg.ID), Era: cfg.Era, Store: e, Log: e.cfg.Logger, Now: cfg.Now, Late: e.cfg.Lease / 4,
		Hooks: runtime.Hooks{Published: e.published, Reason: reason, Stand: e.stand},
	})
	if err := e.run.Boot(m, nil, nil); err != nil {
		return nil, err
	}
	e.run.Start()
	e.work.Go(e.run.Run)
	return e, nil
}

// reason is what a store's lease that has lapsed is called: there is no majority of voters.
func reason(r protocol.Reason) protocol.Reason {
	if r == protocol.Lapsed {
		return "expired"
	}
	return r
}

func (e *Elector) stand(c *runtime.Candidacy) error {
	e.metadata = c.Metadata
	return nil
}

// Campaign implements [driver.Elector].
func (e *Elector) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := driver.CheckMetadata(c.Metadata); err != nil {
		return nil, driver.Permanent(err)
	}
	if c.Priority != 0 {
		return nil, driver.Permanent(fmt.Errorf("%w: priorities; want 0", driver.ErrUnsupported))
	}
	c.Exclusive = true // elected and proven are one here
	m, err := e.run.Campaign(ctx, c)
	if err != nil {
		e.released(context.WithoutCancel(ctx)) // what was under way could still win
		return nil, err
	}
	return &mandate{m, e}, nil
}

// Watch implements [driver.Elector].
func (e *Elector) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return e.run.States().All(ctx)
}

// Limits implements [driver.Elector].
func (e *Elector) Limits() driver.Limits {
	drift := protocol.DefaultDrift()
	return driver.Limits{
		Lease: drift.Claim(e.cfg.Lease), MinLease: drift.Claim(MinLease), MaxLease: drift.Claim(MaxLease),
		Takeover: e.times.WorstTakeover(), Exclusive: true,
		Abilities: []driver.Ability{driver.AbilityConfirm, driver.AbilityMetadata},
		Assumes:   fmt.Sprintf("the rates of clocks are true within %d %%, and %s", drift.PPM/10_000, e.cfg.Assumes),
	}
}

// Close implements [driver.Elector]. It waits for a release that is under way.
func (e *Elector) Close() error {
	e.closing.Do(func() {
		e.released(context.Background())
		e.run.Stop()
		e.cancel()
		e.work.Wait()
		e.run.Close()
	})
	return nil
}

// released waits until the machine releases nothing: for three requests at most, of which
// the first may be unknown and the second may find that out.
func (e *Elector) released(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*e.times.RequestTimeout())
	defer cancel()
	for {
		e.mu.Lock()
		idle, moved := e.idle, e.moved
		e.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		case <-e.life.Done():
			return
		}
	}
}

// published shows observers what a step has changed.
func (e *Elector) published(*protocol.Input, *protocol.View) {
	v := e.run.View()
	e.mu.Lock()
	if idle := v.Role != protocol.Releasing; idle != e.idle {
		e.idle = idle
		close(e.moved)
		e.moved = make(chan struct{})
	}
	e.mu.Unlock()
	s := driver.State{}
	if v.Leader.ID != "" {
		s.Leader = &driver.Leader{ID: string(v.Leader.ID), Token: e.run.Token(v.Leader.Term)}
		if h := e.holder; h != nil && h.ID == s.Leader.ID && e.count == v.Leader.Term {
			s.Leader.Metadata, s.Leader.Since = h.Metadata, h.Since
		}
	}
	if e.trouble != nil {
		s.Stale, s.Cause = true, fmt.Errorf("%w: %w", driver.ErrUnreachable, e.trouble)
		if s.Leader == nil {
			s.Leader = e.shown.Leader // the last one that was known
		}
	}
	if v.Fault != "" {
		s.Cause = errors.New(v.Fault)
		e.run.Do(func() { e.run.Reject(driver.Permanent(s.Cause)) })
	}
	if !e.answered || e.any && same(&s, &e.shown) {
		return
	}
	e.shown, e.any = s, true
	e.run.States().Set(s)
}

// same reports whether two states show the same.
func same(a, b *driver.State) bool {
	if a.Stale != b.Stale || (a.Leader == nil) != (b.Leader == nil) {
		return false
	}
	return a.Leader == nil || a.Leader.Token == b.Leader.Token && a.Leader.ID == b.Leader.ID && a.Leader.Since.Equal(b.Leader.Since) &&
		maps.Equal(a.Leader.Metadata, b.Leader.Metadata)
}

// mandate is a victory. Its release returns when the record is free.
type mandate struct {
	*runtime.Mandate
	e *Elector
}

// Release implements [driver.Mandate].
func (m *mandate) Release(ctx context.Context) error {
	err := m.Mandate.Release(ctx)
	m.e.released(ctx)
	return err
}

// SetMetadata implements [driver.MetadataSetter]: the next renewal carries it, and is made
// at once.
func (m *mandate) SetMetadata(ctx context.Context, metadata map[string]string) error {
	if err := driver.CheckMetadata(metadata); err != nil {
		return err
	}
	if err := m.Over(); err != nil {
		return err
	}
	m.e.run.Call(func() {
		if m.e.run.Held() == m.Mandate {
			m.e.metadata = metadata
		}
	})
	err := m.Confirm(ctx)
	if err != nil && m.Over() == nil {
		return fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, err)
	}
	return err
}
