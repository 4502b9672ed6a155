package group

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/group/internal/wire"
	machine "github.com/electd/elect/internal/protocol/group"
)

// candidacy is a Campaign that waits.
type candidacy struct {
	metadata []byte
	result   chan *tenure // has room for one
}

// elector is this member's part in one named election.
type elector struct {
	g    *Group
	key  machine.Key
	err  error // of the name
	stop func() error

	mu     sync.Mutex
	closed bool
	gone   chan struct{} // closed by Close; nil before it is needed
	held   *tenure
}

// Elector is this member's part in the election called name, which is a key of the group that is not in [Config].Keys.
// A bad name is an error of Campaign. Close leaves the Group as it is.
func (g *Group) Elector(name string) driver.Elector {
	e := &elector{g: g, key: machine.Key(name)}
	if err := driver.CheckName(name); err != nil {
		e.err = driver.Permanent(err)
	} else if g.isShard(e.key) {
		e.err = driver.Permanent(fmt.Errorf("%q is one of group.Config.Keys, whose leaders Run has; want another name", name))
	}
	return e
}

// As implements [driver.Aser]: it sets a **Group.
func (e *elector) As(target any) bool {
	g, ok := target.(**Group)
	if ok {
		*g = e.g
	}
	return ok
}

// end returns the channel that is closed by Close.
func (e *elector) end() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone == nil {
		e.gone = make(chan struct{})
		if e.closed {
			close(e.gone)
		}
	}
	return e.gone
}

// Campaign implements [driver.Elector].
func (e *elector) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if e.err != nil {
		return nil, e.err
	}
	if err := driver.CheckPriority(c.Priority); err != nil {
		return nil, driver.Permanent(err)
	}
	if err := driver.CheckMetadata(c.Metadata); err != nil {
		return nil, driver.Permanent(err)
	}
	end := e.end()
	if c.Priority == driver.NeverLead {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-end:
		case <-e.g.gone:
		}
		return nil, driver.ErrClosed
	}
	w := &candidacy{metadata: encode(c.Metadata), result: make(chan *tenure, 1)}
	want := machine.Want{Key: e.key, Priority: c.Priority}
	for {
		select { // what is over is not begun
		case <-end:
			return nil, driver.ErrClosed
		default:
		}
		if err := e.g.member.stand(want, w); err != nil {
			return nil, err
		}
		select {
		case t := <-w.result:
			if m := e.won(t); m != nil {
				return m, nil
			}
			continue
		case <-ctx.Done():
		case <-end:
		case <-e.g.gone:
		}
		e.g.member.withdraw(want, w)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, driver.ErrClosed
	}
}

// won returns the mandate of a victory, or nil if it was lost before its caller had it, or came too late.
func (e *elector) won(t *tenure) driver.Mandate {
	m := &mandate{t, e}
	t.context(context.Background())
	e.mu.Lock()
	closed := e.closed
	e.held = t
	e.mu.Unlock()
	if closed || t.check() != nil {
		e.g.member.returns(t, false)
		return nil
	}
	return m
}

// stand begins a candidacy.
func (m *member) stand(w machine.Want, c *candidacy) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.leaving {
		return driver.ErrClosed
	}
	if m.slots[w.Key] != nil {
		return fmt.Errorf("another campaign of this member for %q waits; want one at a time", w.Key)
	}
	if n := len(m.g.shards) + len(m.slots) + m.named; n >= MaxKeys {
		return fmt.Errorf("%d keys are wanted by this member; want at most %d", n, MaxKeys)
	}
	m.slots[w.Key] = c
	m.choices = append(m.choices, choice{want: w})
	m.ring()
	return nil
}

// withdraw ends a candidacy, in any state.
func (m *member) withdraw(w machine.Want, c *candidacy) {
	m.mu.Lock()
	waits := m.slots[w.Key] == c
	if waits {
		delete(m.slots, w.Key)
		m.choices = append(m.choices, choice{w, true})
		m.ring()
	}
	m.mu.Unlock()
	if !waits { // it has won, or is just winning, and its caller did not see it
		t := <-c.result
		t.lose(driver.ErrClosed)
		m.returns(t, false)
	}
}

func encode(metadata map[string]string) []byte {
	if len(metadata) == 0 {
		return nil
	}
	b, _ := json.Marshal(metadata) // it never fails for strings
	return b
}

// Watch implements [driver.Elector].
func (e *elector) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		if e.err != nil {
			yield(driver.State{}, e.err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		end := e.end()
		go func() {
			defer cancel()
			select {
			case <-end:
			case <-e.g.gone:
			case <-ctx.Done():
			}
		}()
		select {
		case <-end:
			return
		default:
		}
		states, done, err := e.g.member.watch.follow(e.key)
		if err != nil {
			yield(driver.State{}, err)
			return
		}
		defer done()
		for s, err := range states.All(ctx) {
			if !yield(s, err) {
				return
			}
		}
	}
}

// Limits implements [driver.Elector].
func (e *elector) Limits() driver.Limits { return e.g.limits }

// Close implements [driver.Elector].
func (e *elector) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	held := e.held
	if e.gone == nil {
		e.gone = make(chan struct{})
	}
	close(e.gone)
	e.mu.Unlock()
	if held != nil {
		held.lose(driver.ErrClosed)
	}
	if e.stop != nil {
		return e.stop()
	}
	return nil
}

// Resign implements [driver.Resigner].
func (e *elector) Resign(ctx context.Context, token fence.Token) error {
	if e.err != nil {
		return e.err
	}
	return e.ask(ctx, "resign", request{Key: string(e.key), Token: token})
}

// Transfer implements [driver.Transferrer].
func (e *elector) Transfer(ctx context.Context, token fence.Token, to string) error {
	if e.err != nil {
		return e.err
	}
	return e.ask(ctx, "move", request{Key: string(e.key), Token: token, To: to})
}

func (e *elector) ask(ctx context.Context, method string, q request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end := e.end()
	go func() {
		select {
		case <-end:
			cancel(driver.ErrClosed)
		case <-ctx.Done():
		}
	}()
	return e.g.member.call(ctx, method, q, nil)
}

// Measure implements [driver.Measurer].
func (e *elector) Measure() driver.Measurements { return e.g.measure() }

// mandate is one victory in a named election.
type mandate struct {
	*tenure
	e *elector
}

func (m *mandate) Token() fence.Token                { return m.fence() }
func (m *mandate) Context() context.Context          { return m.context(context.Background()) }
func (m *mandate) Check() error                      { return m.check() }
func (m *mandate) Remaining() (time.Duration, bool)  { return m.remaining(), true }
func (m *mandate) Release(ctx context.Context) error { m.release(driver.ErrResigned); return nil }

// Testament implements [driver.Attestable]. It is that of the whole process: a coordinator believes a witness about a
// process, when no work of it is left, and about nothing less.
func (m *mandate) Testament() driver.Testament { return m.m.g.witnessed.testament(m.tenure) }

func (m *mandate) release(why error) {
	m.lose(why)
	m.m.returns(m.tenure, false)
}

// eligible is how long Eligible asks the coordinator.
const eligible = time.Second

// Eligible implements [driver.MandateTransferrer]. The coordinator knows the candidates: it is asked, for a second at
// most.
func (m *mandate) Eligible(to string) error {
	if to == m.e.g.id {
		return fmt.Errorf("%w: %s leads already", driver.ErrIneligible, to)
	}
	ctx, cancel := context.WithTimeout(context.Background(), eligible)
	defer cancel()
	if err := m.m.call(ctx, "eligible", request{Key: string(m.key), Token: m.fence(), To: to}, nil); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrIneligible, err)
	}
	return nil
}

// Transfer implements [driver.MandateTransferrer]. The coordinator reserves the key before it is given up.
func (m *mandate) Transfer(ctx context.Context, to string) error {
	err := m.m.call(ctx, "move", request{Key: string(m.key), Token: m.fence(), To: to}, nil)
	m.release(driver.ErrResigned)
	return err
}

// SetMetadata implements [driver.MetadataSetter].
func (m *mandate) SetMetadata(ctx context.Context, metadata map[string]string) error {
	if why := m.over.Load(); why != nil {
		return *why
	}
	if err := driver.CheckMetadata(metadata); err != nil {
		return err
	}
	b := encode(metadata)
	m.mu.Lock()
	m.more().metadata = b
	m.mu.Unlock()
	e := m.announcement()
	return m.m.call(ctx, "announce", announcement{Key: e.Key, Tenure: e.Token.Tenure, N: e.Token.N, Since: e.Since, Metadata: b}, nil)
}

// announcement is what observers see of the leader of a named election.
func (t *tenure) announcement() wire.Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return wire.Entry{Key: string(t.key), Token: t.token, Since: t.more().since, Metadata: t.more().metadata}
}
