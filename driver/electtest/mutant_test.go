package electtest_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/store/memory"
)

// mutant is a back end with one error.
type mutant struct {
	fails string // the case that must notice
	says  string // what it must report, as a regular expression

	participant func(*participant) // changes hooks of a fresh participant
	suite       func(*world, *electtest.Config)
	store       func(*world)
}

// world is the store of one case, and the memory of a mutant.
type world struct {
	of    testing.TB
	store *memory.Store
	base  fence.Token // to subtract from tokens

	mu     sync.Mutex
	winner driver.Mandate // the last
}

func (w *world) won(m driver.Mandate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.winner = m
}

func (w *world) last() driver.Mandate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.winner
}

// run runs the suite on the mutant.
func (m mutant) run(t *testing.T) {
	w := &world{}
	open := func(t testing.TB, name, id string) electtest.Participant {
		if w.of != t {
			*w = world{of: t, store: memory.NewStore(0)}
		}
		if m.store != nil {
			m.store(w)
		}
		e, err := w.store.New(name, id, memory.Config{Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		p := newParticipant(w, e)
		if m.participant != nil {
			m.participant(p)
		}
		p.Elector = p
		return p.Participant
	}
	cfg := electtest.Config{
		Bubble:   true,
		Restart:  func(testing.TB) { w.store.Restart() },
		Recreate: func(testing.TB) { w.store.Recreate() },
	}
	if m.suite != nil {
		m.suite(w, &cfg)
	}
	electtest.Run(t, open, cfg)
}

// participant is an elector whose every method is a hook. By default each does what the in-memory
// elector does.
type participant struct {
	electtest.Participant // what the suite gets; its Elector is this participant
	world                 *world
	inner                 *memory.Elector

	campaign func(context.Context, driver.Candidacy) (driver.Mandate, error)
	observe  func(context.Context) iter.Seq2[driver.State, error]
	resign   func(context.Context, fence.Token) error
	appoint  func(context.Context, fence.Token, string) error
	limits   func() driver.Limits
	end      func() error
	mandate  func(*mandate) driver.Mandate // wraps a mandate
}

func newParticipant(w *world, e *memory.Elector) *participant {
	return &participant{
		Participant: electtest.Participant{
			Freeze: e.Freeze, Cut: e.Cut, Crash: e.Crash, Lose: e.LoseAnswers, Delay: e.DelayAnswer,
		},
		world: w, inner: e,
		campaign: e.Campaign, observe: e.Watch, resign: e.Resign, appoint: e.Transfer, limits: e.Limits, end: e.Close,
		mandate: func(m *mandate) driver.Mandate { return m },
	}
}

func (p *participant) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	m, err := p.campaign(ctx, c)
	if err != nil {
		return nil, err
	}
	p.world.won(m)
	return p.mandate(newMandate(m)), nil
}

func (p *participant) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return p.observe(ctx)
}
func (p *participant) Resign(ctx context.Context, t fence.Token) error { return p.resign(ctx, t) }
func (p *participant) Transfer(ctx context.Context, t fence.Token, to string) error {
	return p.appoint(ctx, t, to)
}
func (p *participant) Limits() driver.Limits { return p.limits() }
func (p *participant) Close() error          { return p.end() }

// mandate likewise consists of hooks.
type mandate struct {
	inner driver.Mandate

	token     func() fence.Token
	context   func() context.Context
	remaining func() (time.Duration, bool)
	check     func() error
	release   func(context.Context) error
	confirm   func(context.Context) error
	eligible  func(string) error
	transfer  func(context.Context, string) error
	publish   func(context.Context, map[string]string) error
}

func newMandate(m driver.Mandate) *mandate {
	return &mandate{
		inner: m,
		token: m.Token, context: m.Context, remaining: m.Remaining, check: m.Check, release: m.Release,
		confirm: m.(driver.Confirmer).Confirm, eligible: m.(driver.MandateTransferrer).Eligible, transfer: m.(driver.MandateTransferrer).Transfer,
		publish: m.(driver.MetadataSetter).SetMetadata,
	}
}

func (m *mandate) Token() fence.Token                                { return m.token() }
func (m *mandate) Context() context.Context                          { return m.context() }
func (m *mandate) Remaining() (time.Duration, bool)                  { return m.remaining() }
func (m *mandate) Check() error                                      { return m.check() }
func (m *mandate) Release(ctx context.Context) error                 { return m.release(ctx) }
func (m *mandate) Confirm(ctx context.Context) error                 { return m.confirm(ctx) }
func (m *mandate) Eligible(to string) error                          { return m.eligible(to) }
func (m *mandate) Transfer(ctx context.Context, target string) error { return m.transfer(ctx, target) }
func (m *mandate) SetMetadata(ctx context.Context, to map[string]string) error {
	return m.publish(ctx, to)
}
