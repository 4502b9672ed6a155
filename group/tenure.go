package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/runtime"
)

// epoch is what the work of one session sees of the machine. It is never written again when the session is over.
type epoch struct {
	session machine.Session
	view    atomic.Pointer[machine.View]

	mu     sync.Mutex
	lapses map[time.Duration]chan struct{} // closed when the claim has no more than that left
}

// remaining is for how long the session's keys are proven.
func (e *epoch) remaining(now protocol.Reading) time.Duration {
	if v := e.view.Load(); v.Proven(now) {
		return v.Claim.Sub(now.Boot)
	}
	return 0
}

// lapse returns the channel that is closed when no more than that is left.
func (e *epoch) lapse(now func() protocol.Reading, left time.Duration) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.lapses[left]; c != nil {
		return c
	}
	if e.lapses == nil {
		e.lapses = map[time.Duration]chan struct{}{}
	}
	c := make(chan struct{})
	e.lapses[left] = c
	var look func()
	look = func() {
		if more := e.remaining(now()) - left; more > 0 {
			time.AfterFunc(clock.Timer(more), look)
			return
		}
		e.mu.Lock()
		delete(e.lapses, left)
		e.mu.Unlock()
		close(c)
	}
	time.AfterFunc(0, look)
	return c
}

// tenure is one leadership of one key by this member, from its assignment until its work has returned. There are many:
// what only some need is in another object.
type tenure struct {
	m     *member
	key   machine.Key
	token machine.Token
	epoch *epoch
	shard Shard // of this tenure, unless it is of a named election

	over atomic.Pointer[error] // why it has ended; set once

	mu   sync.Mutex
	gone bool   // its work has returned
	told bool   // its end is an event
	rest *extra // nil until it is needed

	begun  bool // of Serve: its call-back was called; owned by the goroutine of the call-backs
	named  bool // it is of a named election
	bare   bool // guarded by the lock of witnessed: no keeper has the work
	pinned bool // owned by the member's loop
}

// extra is what only some tenures need. The lock of the tenure guards it.
type extra struct {
	ctx    context.Context // nil until somebody asks for it
	cancel context.CancelCauseFunc
	state  []byte // of the last holder
	leaves []byte // for the next one

	// Of named elections.
	since    int64
	metadata []byte
}

// more returns the rest. The lock is held.
func (t *tenure) more() *extra {
	if t.rest == nil {
		t.rest = &extra{}
	}
	return t.rest
}

func (t *tenure) fence() fence.Token { return t.m.g.tokens.token(t.token) }

// shown is an error as the work sees it.
func (t *tenure) shown(err error) error {
	if t.shard.t == nil {
		return err
	}
	return lost(t.fence(), err)
}

// end is lose for work that has not asked for it: that is an event before the work can return for it.
func (t *tenure) end(why error) {
	t.mu.Lock()
	t.over.CompareAndSwap(nil, &why)
	if !t.told && !t.gone {
		t.told = true
		t.m.g.event(Event{Kind: EventEnded, Key: string(t.key), Token: t.fence(), Err: lost(t.fence(), *t.over.Load())})
	}
	t.mu.Unlock()
	t.lose(why)
}

// lose ends the tenure. The first reason stays. When it returns the context has ended.
func (t *tenure) lose(why error) {
	t.over.CompareAndSwap(nil, &why)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rest != nil && t.rest.cancel != nil {
		t.rest.cancel(t.shown(*t.over.Load()))
	}
}

// context is made when it is asked for: most of what a shard needs is its token and its Check.
func (t *tenure) context(parent context.Context) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.more()
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancelCause(parent)
		if why := t.over.Load(); why != nil {
			r.cancel(t.shown(*why))
		}
	}
	return r.ctx
}

// check is two loads and a reading of the clocks.
func (t *tenure) check() error {
	if why := t.over.Load(); why != nil {
		return t.shown(*why)
	}
	v, now := t.epoch.view.Load(), t.m.g.env.now()
	if v.Proven(now) {
		return nil
	}
	if now.Jumped(v.Read) {
		t.end(plain(protocol.ClockJump))
	} else {
		t.end(plain(machine.Unrenewed)) // for ever: a late answer does not prove it again
	}
	t.m.put(arrival{do: func() { t.m.stop(t) }}) // the loop may have had that answer, and know of no end
	return t.shown(*t.over.Load())
}

// remaining is for how long nobody else holds the key. After a resignation that goes on until the work has returned.
func (t *tenure) remaining() time.Duration {
	if why := t.over.Load(); why != nil && !errors.Is(*why, driver.ErrResigned) || t.returned() {
		return 0
	}
	return t.epoch.remaining(t.m.g.env.now())
}

// Lapse implements [driver.Lapser] of mandates: all keys of a session have one claim.
func (t *tenure) Lapse(left time.Duration) <-chan struct{} { return t.epoch.lapse(t.m.g.env.now, left) }

func (t *tenure) returned() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone
}

// finish says that the work has returned. It reports false if that was said before.
func (t *tenure) finish() (held machine.Held, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return held, false
	}
	t.gone = true
	held = machine.Held{Key: t.key, Token: t.token}
	if t.rest != nil {
		held.State = t.rest.leaves
	}
	return held, true
}

// plain is the end of a tenure in the words of package driver.
func plain(r protocol.Reason) error {
	switch r {
	case machine.Unrenewed:
		return fmt.Errorf("%w: no coordinator renewed this member in time", driver.ErrExpired)
	case machine.SessionOver:
		return fmt.Errorf("%w: the coordinator has given this member up", driver.ErrExpired)
	case machine.Revoked:
		return fmt.Errorf("%w: the coordinator takes the key back", driver.ErrResigned)
	case protocol.Withdrawn:
		return fmt.Errorf("%w: this member leaves, or does not want the key any more", driver.ErrClosed)
	}
	return &runtime.Ended{Reason: r}
}

// lost classifies a plain cause for a shard's work, as package elect does for its terms.
func lost(token fence.Token, cause error) *elect.LostError {
	reason := elect.ReasonSuperseded
	switch {
	case errors.Is(cause, driver.ErrResigned):
		reason = elect.ReasonResigned
	case errors.Is(cause, driver.ErrClosed):
		reason = elect.ReasonShutdown
	case errors.Is(cause, driver.ErrUnhealthy):
		reason = elect.ReasonUnhealthy
	case errors.Is(cause, driver.ErrUnreachable):
		reason = elect.ReasonStoreUnreachable
	case errors.Is(cause, driver.ErrExpired):
		reason = elect.ReasonExpired
	}
	return &elect.LostError{Reason: reason, Token: token, Err: cause}
}

// tokens makes tokens of keys of those of the coordinator's terms, in whose era they are. The coordinator's whole token
// is the tenure of the machines, so that it rises from era to era.
type tokens struct{ bits uint }

// check returns why a coordinator with that token cannot give tokens to keys.
func (t tokens) check(of fence.Token) error {
	if most := uint64(fence.MaxCount) >> t.bits; of.Count() > most {
		return fmt.Errorf("the count of the coordinator's token %v is %d, above %d, and leaves no room for the %d bits that count the assignments of a key; "+
			"want a smaller group.Config.TokenBits at all members, and a raised era, or a back end that counts terms", of, of.Count(), most, t.bits)
	}
	return nil
}

// token is that of a key.
func (t tokens) token(of machine.Token) fence.Token {
	term := fence.Token(of.Tenure)
	return fence.Token(term.Era()<<48 | term.Count()<<t.bits | of.N)
}
