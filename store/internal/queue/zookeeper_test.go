package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	machine "github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/queue"
)

// lag is how old the states are that a session reads, unless it has seen newer ones. In that time a candidate that has
// lost the answer to its Enter scans, which must not hide the entry from it.
const lag = 300 * time.Millisecond

// client is the way of a participant to a store in ZooKeeper's dialect, by a server that lags behind.
type client struct {
	*line
	life    context.Context // ended with the participant
	end     context.CancelFunc
	work    sync.WaitGroup
	session atomic.Uint64 // the latest
	entered atomic.Int64  // how often an Enter was carried out
	twice   bool          // the next Enter is carried out twice
}

var _ queue.Syncer = (*client)(nil)

// saw notes that the client has seen what it has written, unless the answer was lost.
func (c *client) saw(session uint64, err error) error {
	if err == nil {
		_ = c.store.do(func() error {
			if x := c.store.sessions[session]; x != nil {
				x.seen = c.store.revision
			}
			return nil
		})
	}
	return err
}

// view is the state that a session reads. The lock is held.
func (s *store) view(session uint64) (*content, error) {
	x := s.sessions[session]
	if x == nil {
		return nil, queue.ErrGone
	}
	i := len(s.past) - 1
	for i > 0 && s.past[i].revision > x.seen && time.Since(s.past[i].at) < s.lag {
		i--
	}
	x.seen = s.past[i].revision
	return &s.past[i].content, nil
}

// Open opens a session. If an answer is lost, the client connects again. It keeps the session alive.
func (c *client) Open(ctx context.Context, ttl time.Duration) (uint64, time.Duration, error) {
	if err := c.Pass(ctx); err != nil {
		return 0, 0, err
	}
	id := c.store.open(ttl)
	c.session.Store(id)
	c.work.Go(func() {
		for alive := true; alive; {
			select {
			case <-time.After(ttl / 3):
			case <-c.life.Done():
				return
			}
			if c.Pass(c.life) != nil {
				return
			}
			_ = c.store.do(func() error {
				x := c.store.sessions[id]
				if alive = x != nil; alive {
					x.end.Reset(ttl)
				}
				return nil
			})
		}
	})
	return id, ttl, c.Pass(ctx)
}

func (c *client) Enter(ctx context.Context, id uint64, text string) (e queue.Entry, err error) {
	err = c.ask(ctx, false, func(s *store) error {
		if s.sessions[id] == nil {
			return queue.ErrGone
		}
		if c.twice {
			c.twice = false
			s.enter(id, text)
		}
		c.entered.Add(1)
		e = s.enter(id, text)
		return nil
	})
	return e, c.saw(id, err)
}

func (c *client) Sync(ctx context.Context, id uint64) error {
	return c.saw(id, c.ask(ctx, false, func(s *store) error {
		if s.sessions[id] == nil {
			return queue.ErrGone
		}
		s.commit()
		return nil
	}))
}

func (c *client) List(ctx context.Context, own queue.Entry) (out queue.Listing, err error) {
	if own.Session == 0 {
		return c.line.List(ctx, own)
	}
	err = c.ask(ctx, false, func(s *store) error {
		v, err := s.view(own.Session)
		if err == nil {
			out = v.list(own)
		}
		return err
	})
	return out, err
}

func (c *client) Verify(ctx context.Context, own queue.Entry) (queue.Listing, error) {
	l, err := c.List(ctx, own)
	if err == nil && !slices.ContainsFunc(l.Entries, func(e queue.Entry) bool { return e.Order == own.Order }) {
		err = queue.ErrGone
	}
	return l, err
}

func (c *client) Touch(ctx context.Context, own queue.Entry) (out queue.Listing, err error) {
	err = c.ask(ctx, c.marked.Load(), func(s *store) error {
		if e := s.find(own.Order); e == nil || e.Session != own.Session {
			return queue.ErrGone
		}
		s.commit()
		out = queue.Listing{Entries: []queue.Entry{own}, Wish: s.wish}
		return nil
	})
	return out, c.saw(own.Session, err)
}

func (c *client) WatchTouch(context.Context, uint64, func(queue.Touch)) error {
	return driver.ErrUnsupported
}

func (c *client) Change(ctx context.Context, own queue.Entry, ch queue.Change) error {
	return c.saw(own.Session, c.line.Change(ctx, own, ch))
}

func (c *client) Watch(ctx context.Context, e queue.Entry, after uint64) error {
	if e.Order == 0 {
		return c.line.Watch(ctx, e, after)
	}
	for {
		var now *entry
		if err := c.store.do(func() error {
			v, err := c.store.view(c.session.Load())
			if err == nil {
				now = v.find(e.Order)
			}
			return err
		}); err != nil {
			return err
		}
		if now == nil || now.Text != e.Text {
			return c.Pass(ctx)
		}
		select {
		case <-time.After(lag / 4):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// openZooKeeper is open in ZooKeeper's dialect. Nothing is subtracted from a claim for the servers, so requests may take
// longer.
func openZooKeeper(t testing.TB, s *store, era uint64, name, id string) (electtest.Participant, *client) {
	t.Helper()
	c := &client{line: &line{store: s}}
	c.life, c.end = context.WithCancel(context.Background())
	e, err := queue.New(c, queue.Config{
		Config:  drive.Config{Name: name, ID: id, Era: era, Now: storetest.Now, Source: source},
		Machine: machine.Config{Dialect: machine.ZooKeeper, TTL: 4 * time.Second, Hold: 2 * time.Second, MaxHold: 2 * time.Second, KeepAliveEvery: 950 * time.Millisecond},
		Assumes: "a test",
	})
	if err != nil {
		t.Fatal(err)
	}
	e.AtClose(func() error { c.end(); c.work.Wait(); return nil })
	return electtest.Participant{Elector: e, Cut: c.Cut, Lose: c.Lose, Delay: c.Delay}, c
}

func TestZooKeeperConformance(t *testing.T) {
	conforms(t, func(t testing.TB, s *store, era uint64, name, id string) electtest.Participant {
		p, _ := openZooKeeper(t, s, era, name, id)
		return p
	})
}

// TestZooKeeperAgreement: the store of these tests is the one that the machines are simulated with.
func TestZooKeeperAgreement(t *testing.T) {
	agrees(t, storetest.ZooKeeper(), func(t testing.TB, s *store, era uint64, name, id string) electtest.Participant {
		p, _ := openZooKeeper(t, s, era, name, id)
		return p
	})
}

// TestLostAnswers loses the answer to each request of a candidacy in its turn. One entry is made, its order is the
// token, and the next candidate leads without waiting for a session, or for a hold.
func TestLostAnswers(t *testing.T) {
	for lost := 1; ; lost++ {
		n := 0
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			p, c := openZooKeeper(t, s, 0, "e", "p")
			q, _ := openZooKeeper(t, s, 0, "e", "q")
			defer closed(t, q)
			defer closed(t, p)
			c.asked = func() {
				if n++; n == lost {
					c.Lose(1)
				}
			}
			m, _ := win(t, p)
			time.Sleep(3 * time.Second)
			if err := m.Check(); err != nil {
				t.Errorf("request %d: %v; want it to lead on", lost, err)
			}
			_ = s.do(func() error {
				if entries := s.entries; c.entered.Load() != 1 || len(entries) != 1 || entries[0].Order != uint64(m.Token()) {
					t.Errorf("request %d: %d entries were made, there are %+v, and the token is %v; want one entry with that order", lost, c.entered.Load(), entries, m.Token())
				}
				return nil
			})
			if err := m.(driver.MetadataSetter).SetMetadata(t.Context(), map[string]string{"a": "b"}); err != nil && !errors.Is(err, storetest.ErrLost) {
				t.Errorf("request %d: %v; want that its entry is known", lost, err)
			}
			release(t, m)
			next, took := win(t, q)
			if took > time.Second || next.Token() <= m.Token() {
				t.Errorf("request %d: the next one leads after %v, with token %v after %v; want a second at most", lost, took, next.Token(), m.Token())
			}
			release(t, next)
		})
		if t.Failed() || n < lost {
			if lost < 8 {
				t.Errorf("%d requests; want those to enter, list, touch, list, mark, touch, leave and close at least", n)
			}
			return
		}
	}
}

// TestTwoEntries: of two entries of one candidacy, as a client makes that repeats a request, the later one is deleted.
func TestTwoEntries(t *testing.T) {
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprint(answered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				p, c := openZooKeeper(t, s, 0, "e", "p")
				defer closed(t, p)
				if c.twice = true; !answered {
					c.Lose(1)
				}
				m, _ := win(t, p)
				_ = s.do(func() error {
					if len(s.entries) != 1 || s.entries[0].Order != uint64(m.Token()) || m.Token() != 1 {
						t.Errorf("entries %+v, and token %v; want the first of two", s.entries, m.Token())
					}
					return nil
				})
				release(t, m)
			})
		})
	}
}
