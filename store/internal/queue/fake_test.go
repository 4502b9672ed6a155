package queue_test

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/driver/electtest"
	machine "github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/queue"
)

// store is a queue with sessions that end by its own clock.
type store struct {
	mu sync.Mutex
	content
	ids      uint64
	sessions map[uint64]*session
	changed  chan struct{} // closed at each change
	lag      time.Duration
	past     []past // the states of the last lag, the one before them, and the present one
}

type content struct {
	revision uint64
	entries  []entry
	mark     string
	touched  queue.Touch
	wish     string
}

// past is the content from some time on.
type past struct {
	content
	at time.Time
}

type session struct {
	ttl  time.Duration
	end  *time.Timer
	seen uint64 // the revision that its client has seen (ZooKeeper)
}

type entry struct {
	queue.Entry
	changed uint64
}

func newStore() *store {
	return &store{sessions: map[uint64]*session{}, changed: make(chan struct{}), lag: lag}
}

// do calls f, which may change the content.
func (s *store) do(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := f()
	if n := len(s.past); n == 0 || s.past[n-1].revision != s.revision {
		now := s.content
		now.entries = slices.Clone(now.entries)
		s.past = append(s.past, past{now, time.Now()})
	}
	for len(s.past) > 1 && time.Since(s.past[1].at) >= s.lag {
		s.past = s.past[1:]
	}
	return err
}

func (s *store) commit() uint64 {
	s.revision++
	close(s.changed)
	s.changed = make(chan struct{})
	return s.revision
}

// drop ends a session with its entries, of which there may be some without it.
func (s *store) drop(id uint64) {
	if x := s.sessions[id]; x != nil {
		x.end.Stop()
		delete(s.sessions, id)
	}
	s.entries = slices.DeleteFunc(s.entries, func(e entry) bool { return e.Session == id })
	s.commit()
}

// reset is what an operator does who restores the store from nothing.
func (s *store) reset() {
	_ = s.do(func() error {
		for id := range s.sessions {
			s.drop(id)
		}
		s.content, s.past = content{}, nil
		return nil
	})
}

func (c *content) find(order uint64) *entry {
	i := slices.IndexFunc(c.entries, func(e entry) bool { return e.Order == order })
	if i < 0 {
		return nil
	}
	return &c.entries[i]
}

// list is what [queue.Queue].List reads.
func (c *content) list(own queue.Entry) queue.Listing {
	out := queue.Listing{Mark: c.mark, Touch: c.touched, Wish: c.wish, Revision: c.revision}
	for i, e := range c.entries {
		if i == 0 || own.Session != 0 && e.Session == own.Session || e.Order == own.Order || i+1 < len(c.entries) && c.entries[i+1].Order == own.Order {
			out.Entries = append(out.Entries, e.Entry)
		}
	}
	return out
}

// open opens a session.
func (s *store) open(ttl time.Duration) (id uint64) {
	_ = s.do(func() error {
		s.ids++
		id = s.ids
		end := func() { _ = s.do(func() error { s.drop(id); return nil }) }
		s.sessions[id] = &session{ttl: ttl, end: time.AfterFunc(ttl, end)}
		return nil
	})
	return id
}

// enter makes an entry.
func (s *store) enter(id uint64, text string) queue.Entry {
	order := s.commit()
	e := queue.Entry{Order: order, Session: id, Text: text}
	s.entries = append(s.entries, entry{e, order})
	return e
}

// line is the way of one participant to the store.
type line struct {
	storetest.Way
	store  *store
	marked atomic.Bool // there is a mark, so a renewal extends a tenure
	asked  func()      // called for each request that has passed; nil: nothing is
}

// ask makes a request. holds: its answer extends a tenure, and may be late.
func (l *line) ask(ctx context.Context, holds bool, do func(s *store) error) error {
	if err := l.Pass(ctx); err != nil {
		return err
	}
	if l.asked != nil {
		l.asked()
	}
	err := l.store.do(func() error { return do(l.store) })
	if err := l.Back(ctx, holds); err != nil {
		return err
	}
	return err
}

func (l *line) Open(ctx context.Context, ttl time.Duration) (id uint64, granted time.Duration, err error) {
	if err := l.Pass(ctx); err != nil {
		return 0, 0, err
	}
	id = l.store.open(ttl)
	return id, ttl, l.Back(ctx, false)
}

func (l *line) KeepAlive(ctx context.Context, id uint64) (ttl time.Duration, err error) {
	err = l.ask(ctx, l.marked.Load(), func(s *store) error {
		x := s.sessions[id]
		if x == nil {
			return queue.ErrGone
		}
		x.end.Reset(x.ttl)
		ttl = x.ttl
		return nil
	})
	return ttl, err
}

func (l *line) Close(ctx context.Context, id uint64) error {
	return l.ask(ctx, false, func(s *store) error {
		if s.sessions[id] == nil {
			return queue.ErrGone
		}
		s.drop(id)
		return nil
	})
}

func (l *line) Enter(ctx context.Context, id uint64, text string) (e queue.Entry, err error) {
	err = l.ask(ctx, false, func(s *store) error {
		if s.sessions[id] == nil {
			return queue.ErrGone
		}
		if i := slices.IndexFunc(s.entries, func(e entry) bool { return e.Session == id }); i >= 0 {
			e = s.entries[i].Entry
			return nil
		}
		e = s.enter(id, text)
		return nil
	})
	return e, err
}

func (l *line) List(ctx context.Context, own queue.Entry) (out queue.Listing, err error) {
	err = l.ask(ctx, false, func(s *store) error { out = s.list(own); return nil })
	return out, err
}

func (l *line) Watch(ctx context.Context, e queue.Entry, after uint64) error {
	for {
		var changed chan struct{}
		_ = l.store.do(func() error {
			now := l.store.find(e.Order)
			if e.Order == 0 && l.store.revision <= after || now != nil && now.changed <= after {
				changed = l.store.changed
			}
			return nil
		})
		if changed == nil {
			return l.Pass(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *line) WatchTouch(ctx context.Context, after uint64, seen func(queue.Touch)) error {
	for {
		var now queue.Touch
		var changed chan struct{}
		_ = l.store.do(func() error { now, changed = l.store.touched, l.store.changed; return nil })
		if now.Revision > after {
			if err := l.Pass(ctx); err != nil {
				return err
			}
			after = now.Revision
			seen(now)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *line) Verify(ctx context.Context, own queue.Entry) (queue.Listing, error) {
	return l.look(ctx, own, false)
}

func (l *line) Touch(ctx context.Context, own queue.Entry) (queue.Listing, error) {
	return l.look(ctx, own, true)
}

func (l *line) look(ctx context.Context, own queue.Entry, touch bool) (out queue.Listing, err error) {
	err = l.ask(ctx, touch, func(s *store) error {
		if e := s.find(own.Order); e == nil || e.Session != own.Session {
			return queue.ErrGone
		}
		if touch {
			s.touched = queue.Touch{Order: own.Order, Revision: s.commit()}
		}
		out = queue.Listing{Entries: []queue.Entry{s.entries[0].Entry}, Wish: s.wish, Revision: s.revision}
		return nil
	})
	return out, err
}

func (l *line) Change(ctx context.Context, own queue.Entry, c queue.Change) error {
	return l.ask(ctx, c.Mark != "" && !c.Leave, func(s *store) error {
		e := s.find(own.Order)
		if e == nil {
			return queue.ErrGone
		}
		if c.Mark != "" {
			s.mark = c.Mark
			l.marked.Store(!c.Leave)
		}
		if c.Text != "" {
			e.Text, e.changed = c.Text, s.revision+1
		}
		if c.Wish != "" {
			s.wish, e.changed = c.Wish, s.revision+1
		}
		if c.Leave {
			s.entries = slices.DeleteFunc(s.entries, func(e entry) bool { return e.Order == own.Order })
		}
		s.commit()
		return nil
	})
}

// open returns a participant of the store. Its requests may take longer than half of a claim, so
// that a late answer can be the one that counts. The last renewal of the hold-off, at 1.8 s, is apart
// from the mark at 2 s, so that a late mark is not preceded by the end of its claim.
func open(t testing.TB, s *store, era uint64, name, id string) electtest.Participant {
	t.Helper()
	return holding(t, s, era, name, id, 2*time.Second)
}

// holding is open with that hold; 0: the servers are fixed.
func holding(t testing.TB, s *store, era uint64, name, id string, hold time.Duration) electtest.Participant {
	t.Helper()
	l := &line{store: s}
	e, err := queue.New(l, queue.Config{
		Config:  drive.Config{Name: name, ID: id, Era: era, Now: storetest.Now, Source: source},
		Machine: machine.Config{Dialect: machine.Etcd, TTL: 4 * time.Second, Hold: hold, MaxHold: 2 * time.Second, ServersFixed: hold == 0, KeepAliveEvery: 900 * time.Millisecond},
		Assumes: "a test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return electtest.Participant{Elector: e, Cut: l.Cut, Lose: l.Lose, Delay: l.Delay}
}

func TestConformance(t *testing.T) { conforms(t, open) }

// conforms runs the suite.
func conforms(t *testing.T, open func(t testing.TB, s *store, era uint64, name, id string) electtest.Participant) {
	var s *store
	var of testing.TB
	era := uint64(0)
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		if of != t {
			s, of, era = newStore(), t, 0
		}
		return open(t, s, era, name, id)
	}, electtest.Config{
		Bubble: true,
		Cannot: map[electtest.Fault]string{
			electtest.Freeze: "a goroutine cannot freeze another: see the conformance of processes in test/fencing/leases",
			electtest.Crash:  "as Freeze",
		},
		Restart:  func(testing.TB) {},
		Recreate: func(testing.TB) { s.reset(); era++ },
	})
}

// source is where a witness would find the store: a user, and several hosts.
var source = &url.URL{Scheme: "test", Opaque: "//a:1,b:2/path%20", RawQuery: "key=%2F&x=y", User: url.UserPassword("me", "se:cr/et")}
