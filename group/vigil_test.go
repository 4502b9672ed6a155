package group

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/placement"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/store/memory"
)

// coordinates returns the one member that coordinates, or nil.
func coordinates(all ...*part) (c *part) {
	for _, p := range all {
		if p.Measure().Coordinates {
			if c != nil {
				return nil
			}
			c = p
		}
	}
	return c
}

// lines counts the lines of a log with a text, in the message or in an attribute.
type lines struct {
	slog.Handler
	text string
	n    atomic.Int32
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	all := r.Message
	r.Attrs(func(a slog.Attr) bool { all += " " + a.String(); return true })
	if strings.Contains(all, l.text) {
		l.n.Add(1)
	}
	return nil
}

// hang has the loop of the coordinator hang, until the test ends at the latest.
func (p *part) hang() (goOn func()) {
	block := make(chan struct{})
	goOn = sync.OnceFunc(func() { close(block) })
	p.w.t.Cleanup(goOn)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coordinator.put(arrival{do: func() { <-block }})
	return goOn
}

// TestLoopHangs: a coordinator whose loop hangs, while its election goes on, is replaced. It stands again when the loop
// goes on.
func TestLoopHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 30
		w, h := newWorld(t), newHolding(t)
		said := &lines{text: "the loop of this coordinator hangs"}
		log := func(c *Config) { c.Keys, c.Logger = Range(keys), slog.New(said) }
		a := w.member("m1", log)
		w.until("a coordinator", 10*time.Second, func() bool { return coordinates(a) == a })
		b, c := w.member("m2", log), w.member("m3", log)
		for _, p := range []*part{a, b, c} {
			p.run(h)
		}
		w.until("all keys to be led", 30*time.Second, func() bool { return h.total() == keys })
		<-time.After(10 * time.Second)
		if said.n.Load() > 0 {
			t.Fatal("a loop that does not hang is said to hang")
		}
		goOn := a.hang()
		w.until("another coordinator", 3*time.Second, func() bool { n := coordinates(b, c); return n != nil && !a.Measure().Coordinates })
		w.until("all keys to be led again", 5*time.Second, func() bool { return h.total() == keys && h.count()["m1"] > 0 })
		if n := said.n.Load(); n != 1 {
			t.Errorf("%d lines say it; want 1", n)
		}
		if _, err := a.Status(t.Context()); err != nil {
			t.Errorf("it is a member no more: %v", err)
		}
		for _, p := range []*part{b, c} {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		<-time.After(10 * time.Second)
		if a.Measure().Coordinates {
			t.Error("it coordinates again beside a loop that hangs")
		}
		goOn()
		w.until("it to stand again", 10*time.Second, func() bool { return coordinates(a) == a && h.count()["m1"] == keys })
	})
}

// TestCloseOfHung: a Group whose loop as coordinator hangs for ever can be closed.
func TestCloseOfHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", nil)
		w.until("a coordinator", 10*time.Second, func() bool { return coordinates(a) == a })
		goOn := a.hang()
		began := time.Now()
		if err := a.Close(); err == nil || !strings.Contains(err.Error(), "has not returned; want") {
			t.Errorf("Close: %v; want what is wrong", err)
		}
		if took := time.Since(began); took > 3*closeTime {
			t.Errorf("Close took %v", took)
		}
		goOn()
	})
}

// TestLook: a process that stood still between two looks has not hung for that time.
func TestLook(t *testing.T) {
	var p pulse
	var l look
	for range 100 {
		if l.hangs(&p) {
			t.Fatal("what is idle hangs")
		}
	}
	p.begin()
	for i := range hang * looks {
		if l.hangs(&p) {
			t.Fatalf("it hangs after %d looks", i+1)
		}
	}
	if !l.hangs(&p) {
		t.Error("it does not hang")
	}
	for range 100 {
		if p.next(); l.hangs(&p) {
			t.Fatal("what goes on hangs")
		}
	}
	p.end()
	p.begin()
	if l.hangs(&p) {
		t.Error("another thing hangs")
	}
}

// hanging is a Placer that can hang.
type hanging struct {
	placement.Placer
	on *atomic.Pointer[chan struct{}]
}

func (h *hanging) Plan(now time.Time) ([]placement.Move, time.Time) {
	if c := h.on.Load(); c != nil {
		<-*c
	}
	return h.Placer.Plan(now)
}

func hangs(on *atomic.Pointer[chan struct{}]) func(*Config) {
	return func(c *Config) {
		c.Keys = Range(30)
		c.Placement = func() (placement.Placer, error) {
			p, err := eager()
			return &hanging{p, on}, err
		}
	}
}

// TestPlacementHangs: a coordinator whose Placer hangs gives way to one whose Placer does not. No key is interrupted.
func TestPlacementHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		var one, none atomic.Pointer[chan struct{}]
		a := w.member("m1", hangs(&one))
		w.until("a coordinator", 10*time.Second, func() bool { return coordinates(a) == a })
		b, c := w.member("m2", hangs(&none)), w.member("m3", hangs(&none))
		a.run(h)
		b.run(h)
		c.run(h)
		w.until("all keys to be led", 30*time.Second, func() bool { return h.total() == 30 && h.count()["m3"] == 10 })
		block := make(chan struct{})
		one.Store(&block)
		begun := h.begun
		c.crash()
		w.until("the keys of the dead to be led by others", 10*time.Second, func() bool { n := h.count(); return n["m1"]+n["m2"] == 30 })
		if n := coordinates(a, b); n != b {
			t.Error("the coordinator whose placement hangs is the coordinator")
		}
		if h.begun != begun+10 {
			t.Errorf("%d keys began; want the 10 of the dead", h.begun-begun)
		}
		close(block)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.ContainsFunc(a.event, func(e Event) bool {
			return e.Kind == EventStoodDown && strings.Contains(e.Err.Error(), "the placement of this coordinator has not returned for 2s")
		}) {
			t.Error("no event says why")
		}
	})
}

// TestAllPlacementsHang: where the Placer hangs at every member there is a coordinator that moves nothing, and all keep
// what they hold.
func TestAllPlacementsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		var on atomic.Pointer[chan struct{}]
		said := &lines{text: "it gives its term up"}
		var all []*part
		for i := range 3 {
			p := w.member(name(i+1), func(c *Config) {
				hangs(&on)(c)
				c.Logger = slog.New(said)
			})
			p.run(h)
			all = append(all, p)
			w.until("m1 to coordinate", 10*time.Second, func() bool { return coordinates(all...) == all[0] })
		}
		w.until("all keys to be led", 30*time.Second, func() bool { return h.total() == 30 && h.count()["m3"] == 10 })
		block := make(chan struct{})
		on.Store(&block)
		begun := h.begun
		all[2].crash()
		<-time.After(time.Minute)
		if n := h.total(); h.begun != begun || n != 20 {
			t.Errorf("%d of 20 keys are held, %d began; want 20 that were never interrupted", n, h.begun-begun)
		}
		if coordinates(all[:2]...) == nil {
			t.Error("nobody coordinates")
		}
		if n := said.n.Load(); n > 2 {
			t.Errorf("%d terms were given up; want one of each at most", n)
		}
		on.Store(nil)
		close(block)
		w.until("the keys of the dead to be led by others", 10*time.Second, func() bool { return h.total() == 30 })
	})
}

// denied is a back end that denies all for a while.
type denied struct {
	driver.Elector
	on atomic.Bool
}

var errDenied = driver.Permanent(errors.New("permission denied"))

func (d *denied) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if d.on.Load() {
		return nil, errDenied
	}
	return d.Elector.Campaign(ctx, c)
}

func (d *denied) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	if d.on.Load() {
		return func(yield func(driver.State, error) bool) { yield(driver.State{}, errDenied) }
	}
	return d.Elector.Watch(ctx)
}

// TestDenied: a permanent error of the coordinator's election is tried again. A caller meanwhile gets the error.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := &denied{}
		d.on.Store(true)
		w.place = func(e *memory.Elector) driver.Elector { d.Elector = e; return d }
		a := w.member("m1", nil)
		<-time.After(5 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Status(ctx); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("Status: %v; want why there is no coordinator", err)
		}
		d.on.Store(false)
		w.until("a coordinator that it follows", lastRetry+5*time.Second, func() bool { return a.Measure().Coordinates && a.Measure().Attached })
	})
}

// TestNoPlacement: a member whose Config.Placement fails stands again, and does not keep others from it.
func TestNoPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var fails atomic.Bool
		fails.Store(true)
		a := w.member("m1", func(c *Config) {
			c.Placement = func() (placement.Placer, error) {
				if fails.Load() {
					return nil, errors.New("no plan today")
				}
				return eager()
			}
		})
		<-time.After(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Status(ctx); err == nil || !strings.Contains(err.Error(), "no plan today") {
			t.Errorf("Status: %v; want why there is no coordinator", err)
		}
		fails.Store(false)
		w.until("a coordinator", lastRetry+5*time.Second, func() bool { return coordinates(a) == a })
	})
}

// TestPlacementHangsStill: a coordinator whose Placer hangs, and goes on because an earlier one does, gives way when that
// one has returned.
func TestPlacementHangsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var on [2]atomic.Pointer[chan struct{}]
		var goOn [2]func()
		for i := range on {
			block := make(chan struct{})
			on[i].Store(&block)
			goOn[i] = sync.OnceFunc(func() { close(block) })
			defer goOn[i]()
		}
		terms := 0
		said := &lines{text: "it goes on, and no key is given to anybody"}
		a := w.member("m1", func(c *Config) {
			c.Logger = slog.New(said)
			c.Placement = func() (placement.Placer, error) {
				p, err := eager()
				terms++
				return &hanging{p, &on[min(terms, len(on))-1]}, err
			}
		})
		w.until("a coordinator", 10*time.Second, func() bool { return coordinates(a) == a })
		w.until("its term to be given up", 10*time.Second, func() bool { return coordinates(a) == nil })
		w.until("another term", 10*time.Second, func() bool { return coordinates(a) == a })
		b := w.member("m2", nil)
		<-time.After(30 * time.Second)
		if n := said.n.Load(); coordinates(a, b) != a || n != 1 {
			t.Fatalf("it does not go on beside another Placer that hangs, or %d lines say that", n)
		}
		goOn[0]()
		w.until("the other one to coordinate", 10*time.Second, func() bool { return coordinates(a, b) == b })
	})
}

// slowPlacer needs long for each key.
type slowPlacer struct {
	placement.Placer
	each time.Duration
}

func (s *slowPlacer) SetKey(k placement.Key) error {
	<-time.After(s.each)
	return s.Placer.SetKey(k)
}

// TestPlacementIsSlow: a coordinator whose Placer does not return from being told many keys gives way, and does not tell
// it the rest.
func TestPlacementIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all [2]*part
		for i := range all {
			all[i] = w.member(name(i+1), func(c *Config) {
				c.Keys = Range(1000)
				if i == 0 {
					c.Placement = func() (placement.Placer, error) {
						p, err := eager()
						return &slowPlacer{p, 100 * time.Millisecond}, err
					}
				}
			})
			go func() { _ = all[i].Serve(t.Context(), func(*Shard) {}, func(*Shard) {}) }()
			w.until("a coordinator", 10*time.Second, func() bool { return coordinates(all[0]) != nil })
		}
		w.until("the other one to coordinate", 10*time.Second, func() bool { return coordinates(all[1]) != nil })
		w.until("all keys to be led", 10*time.Second, func() bool { return all[0].Measure().Keys+all[1].Measure().Keys == 1000 })
		w.until("the Placer of the ended term to be told no more", time.Second, func() bool { return all[0].stuck.Load() == 0 })
	})
}

// TestOrdersOfAHungPlacer: what a Placer that hangs is to be told takes no more memory than all keys do.
func TestOrdersOfAHungPlacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 2 * many
		w := newWorld(t)
		var on atomic.Pointer[chan struct{}]
		a := w.member("m1", func(c *Config) {
			hangs(&on)(c)
			c.Keys = Range(keys)
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = a.Serve(ctx, func(*Shard) {}, func(*Shard) {}) }()
		w.until("all keys to be led", 30*time.Second, func() bool { return a.Measure().Keys == keys })
		block := make(chan struct{})
		on.Store(&block)
		goOn := sync.OnceFunc(func() {
			on.Store(nil)
			close(block)
		})
		defer goOn()
		a.Group.mu.Lock()
		c := a.coordinator
		a.Group.mu.Unlock()
		for range 50 {
			c.put(arrival{do: func() {
				c.machine.Keys(func(ks *machine.KeyState) bool { c.plan.dirty(ks.Key); return true })
			}})
			synctest.Wait()
			c.plan.mu.Lock()
			n := c.plan.waits + len(c.plan.keys)
			c.plan.mu.Unlock()
			if n > 4*keys {
				t.Fatalf("%d changes of %d keys wait", n, keys)
			}
		}
		goOn()
		w.until("that all was told", 10*time.Second, func() bool {
			c.plan.mu.Lock()
			defer c.plan.mu.Unlock()
			return c.plan.waits+len(c.plan.keys) == 0
		})
	})
}

// premature is a back end whose leader is not proven exclusive.
type premature struct{ driver.Elector }

type unproven struct{ driver.Mandate }

func (u unproven) Check() error { return driver.ErrNotExclusive }

func (p premature) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	m, err := p.Elector.Campaign(ctx, c)
	if err != nil {
		return nil, err
	}
	return unproven{m}, nil
}

// TestNonExclusive: a member does not coordinate in a term that is not proven exclusive, and says what is wrong.
func TestNonExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.place = func(e *memory.Elector) driver.Elector { return premature{e} }
		w.elect.NonExclusive = true
		a := w.member("m1", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Status(ctx); err == nil || !strings.Contains(err.Error(), "want elect.Config.NonExclusive false") {
			t.Errorf("Status: %v; want why there is no coordinator", err)
		}
	})
}
