package group

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/link"
)

// TestSlowEvents: an OnEvent that takes its time delays no end of a key: all contexts end before the claim
// does. It takes a second for all keys, as 10 µs do for 100,000.
func TestSlowEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 20_000
		w := newWorld(t)
		w.member("m1", nil)
		var held, late atomic.Int64
		p := w.member("m2", func(c *Config) {
			c.Keys, c.Observer = Range(keys), true
			c.OnEvent = func(Event) { <-time.After(50 * time.Microsecond) }
		})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			_ = p.Run(ctx, func(ctx context.Context, s *Shard) error {
				held.Add(1)
				<-ctx.Done()
				if s.t.epoch.remaining(w.now()) == 0 {
					late.Add(1)
				}
				held.Add(-1)
				return nil
			})
		})
		w.until("all keys to be led", time.Minute, func() bool { return held.Load() == keys })
		w.net.sever("m2", true)
		w.until("their end", 5*time.Second, func() bool { return held.Load() == 0 })
		if n := late.Load(); n > 0 {
			t.Errorf("the contexts of %d of %d keys ended after the claim; want none", n, keys)
		}
		cancel()
		run.Wait()
	})
}

// TestEventsHang: a Group whose OnEvent hangs leads all the same, and can be closed.
func TestEventsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		hang := make(chan struct{})
		p := w.member("m1", func(c *Config) { c.Keys, c.OnEvent = Range(8), func(Event) { <-hang } })
		p.run(h)
		w.until("all keys to be led", 30*time.Second, func() bool { return h.total() == 8 })
		began := time.Now()
		if err := p.Close(); err == nil || !strings.Contains(err.Error(), "has not returned; want") {
			t.Errorf("Close: %v; want what hangs", err)
		}
		if took := time.Since(began); took > 2*closeTime {
			t.Errorf("Close took %v; want at most %v", took, 2*closeTime)
		}
		close(hang)
	})
}

// blocks is a log that blocks.
type blocks struct {
	slog.Handler
	until chan struct{}
}

func (b *blocks) Enabled(context.Context, slog.Level) bool { return true }

func (b *blocks) Handle(context.Context, slog.Record) error {
	<-b.until
	return nil
}

// TestLogHangs: a member whose Logger hangs can be closed.
func TestLogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.member("m1", nil)
		log := &blocks{until: make(chan struct{})}
		p := w.member("m2", func(c *Config) { c.Observer, c.Logger = true, slog.New(log) }) // it logs how connections end
		w.net.sever("m2", true)
		<-time.After(time.Second)
		began := time.Now()
		if err := p.Close(); err == nil || !strings.Contains(err.Error(), "has not returned; want") {
			t.Errorf("Close: %v; want what hangs", err)
		}
		if took := time.Since(began); took > 3*closeTime {
			t.Errorf("Close took %v; want at most %v", took, 3*closeTime)
		}
		close(log.until)
	})
}

// TestCloseWhileItLeaves: Close takes no longer because another goroutine leaves.
func TestCloseWhileItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.member("m1", func(c *Config) { c.Keys = Range(1) })
		goOn, ran := make(chan struct{}), make(chan error)
		go func() {
			ran <- p.Run(t.Context(), func(context.Context, *Shard) error {
				<-goOn
				return nil
			})
		}()
		w.until("the key", 10*time.Second, func() bool { return p.Counts().Starts == 1 })
		left := make(chan error)
		go func() { left <- p.Leave(t.Context(), 0) }()
		synctest.Wait()
		began := time.Now()
		if err := p.Close(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != closeTime {
			t.Errorf("Close while it leaves: %v after %v; want an error after %v", err, time.Since(began), closeTime)
		}
		close(goOn)
		<-ran
		if err := <-left; err != nil || p.Close() != nil {
			t.Errorf("Leave: %v, and Close after it: %v", err, p.Close())
		}
	})
}

// TestAttachedEvents: events say which coordinator a member has joined and lost, and why.
func TestAttachedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.member("m1", nil)
		w.until("a coordinator", 10*time.Second, func() bool { return coordinates(first) == first })
		p := w.member("m2", func(c *Config) { c.Observer = true })
		attached := func() (all []Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.DeleteFunc(slices.Clone(p.event), func(e Event) bool { return e.Kind != EventAttached && e.Kind != EventDetached })
		}
		w.until("m2 to join", 10*time.Second, func() bool { return len(attached()) == 1 })
		w.member("m3", nil)
		first.crash()
		w.until("m2 to join m3", 10*time.Second, func() bool { return len(attached()) == 3 })
		for i, e := range attached() {
			kind, id := EventAttached, "m1"
			switch i {
			case 1:
				kind = EventDetached
			case 2:
				id = "m3"
			}
			if e.Kind != kind || e.Member != id || (e.Err != nil) != (kind == EventDetached) || (e.Token > 1) != (id == "m3") {
				t.Errorf("event %d is %+v; want %s of %s", i+1, e, kind, id)
			}
		}
	})
}

// TestDetachedOnce: whatever comes first, another coordinator, the end of a connection or that of the member, each
// coordinator that was joined is told to be lost, once.
func TestDetachedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.member("m1", nil)
		w.until("m1 to join itself", 10*time.Second, func() bool { return p.member.calls.call(t.Context(), p.gone, "ping", request{}, nil) == nil })
		other, _ := link.Pair()
		p.member.put(arrival{do: func() { p.member.attach(&connection{link: other, name: "m2"}) }})
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range p.event {
			if e.Kind == EventAttached || e.Kind == EventDetached {
				all = append(all, string(e.Kind)+" "+e.Member)
				if (e.Err != nil) != (e.Kind == EventDetached) {
					t.Errorf("%s: %v; want an error for a detachment", e.Kind, e.Err)
				}
			}
		}
		if want := []string{"attached m1", "detached m1", "attached m2", "detached m2"}; !slices.Equal(all, want) {
			t.Errorf("%q; want %q", all, want)
		}
	})
}

// TestEndedOnce: the end of a key is one event, however many reasons there are for it.
func TestEndedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.member("m1", nil)
		m, err := p.Elector("nightly").Campaign(t.Context(), driver.Candidacy{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Elector("nightly").(driver.Resigner).Resign(t.Context(), m.Token()); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() { closed <- p.Close() }()
		<-time.After(time.Second)
		if err := m.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		n := 0
		for _, e := range p.event {
			if e.Kind == EventEnded {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d events say that the key has ended; want 1", n)
		}
	})
}

// TestEventsOfOneKey: the end of a key is told before its work returns for it, and that before the key begins again.
func TestEventsOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 200
		w := newWorld(t)
		p := w.member("m1", func(c *Config) { c.Keys = Range(keys) })
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			_ = p.Run(ctx, func(ctx context.Context, s *Shard) error {
				for s.Key() == "0" && s.Check() == nil { // it learns by itself that its claim has ended
					<-time.After(10 * time.Millisecond)
				}
				var returns <-chan time.Time
				if s.Key() == "1" { // by itself, while the loop does not know that the claim has ended
					returns = time.After(3 * time.Second)
				}
				select {
				case <-ctx.Done():
				case <-returns:
				}
				return nil
			})
		})
		w.until("all keys to be led", time.Minute, func() bool { return p.Counts().Starts >= keys })
		p.gate.shut(true)
		<-time.After(5 * time.Second)
		p.gate.shut(false)
		w.until("all keys to be led again", time.Minute, func() bool { return p.Counts().Starts >= 2*keys })
		for _, key := range p.shards {
			if err := p.member.call(ctx, "resign", request{Key: key}, nil); err != nil {
				t.Error(err)
			}
		}
		w.until("all keys to be led once more", time.Minute, func() bool { return p.Counts().Starts >= 3*keys })
		cancel()
		run.Wait()
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		last := map[string]Event{}
		for _, e := range p.event {
			was, ok := last[e.Key], false
			switch e.Kind {
			case EventBegan:
				ok = was.Kind == "" || was.Kind == EventReleased
			case EventEnded:
				ok = was.Kind == EventBegan && was.Token == e.Token
			case EventReleased:
				ok = (was.Kind == EventEnded || was.Kind == EventBegan && e.Key == "1") && was.Token == e.Token
			default:
				continue
			}
			if !ok {
				t.Errorf("%s: %s of token %v comes after %s of %v", e.Key, e.Kind, e.Token, was.Kind, was.Token)
			}
			last[e.Key] = e
		}
	})
}
