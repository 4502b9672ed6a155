package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/placement"
)

// TestShards: keys are spread over the members that are there, each is held by one of them, and who joins or leaves
// moves no more than it has to.
func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		keys := func(c *Config) { c.Keys = Range(30) }
		a := w.member("m1", keys)
		stopA := a.run(h)
		w.until("all keys at m1", 10*time.Second, func() bool { return h.count()["m1"] == 30 })
		b, c := w.member("m2", keys), w.member("m3", keys)
		b.run(h)
		c.run(h)
		w.until("ten keys each", 10*time.Second, func() bool {
			n := h.count()
			return n["m1"] == 10 && n["m2"] == 10 && n["m3"] == 10
		})
		if h.begun > 30+30 { // 25 at best; a key that arrives while another member does may move on
			t.Errorf("work began %d times; want 30 and at most 30 moves", h.begun)
		}
		stopA()
		w.until("fifteen keys each", 10*time.Second, func() bool {
			n := h.count()
			return n["m2"] == 15 && n["m3"] == 15
		})
		for _, p := range []*part{a, b, c} {
			if n := p.Counts(); n.Lapsed+n.Overruns > 0 {
				t.Errorf("%s: %+v", p.id, n)
			}
		}
	})
}

// TestJoinsAtARate: a fourth member gets a quarter of the keys, which begin to move at the rate of the URL.
func TestJoinsAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		const keys, rate = 120, 10
		u, _ := url.Parse(fmt.Sprintf("group+memory:?group-rate=%d", rate))
		_, at, err := (&sharing{}).parse(driver.Target{URL: u})
		if err != nil {
			t.Fatal(err)
		}
		config := func(c *Config) { c.Keys, c.Placement = Range(keys), at.Placement }
		for i := range 3 {
			w.member(name(i+1), config).run(h)
		}
		<-time.After(time.Minute)
		if n := h.count(); n["m1"] != 40 || n["m2"] != 40 || n["m3"] != 40 {
			t.Fatalf("%v; want forty keys each", n)
		}
		before := h.begun
		w.member("m4", config).run(h)
		var first time.Time // when one has moved
		for n := 0; n < keys/4; n = h.count()["m4"] {
			if n > 0 && first.IsZero() {
				first = time.Now()
			}
			if since := time.Since(first); n > 0 && float64(n) > rate*(1+since.Seconds())+1 {
				t.Fatalf("%d keys have moved %v after the first", n, since)
			}
			if <-time.After(10 * time.Millisecond); time.Since(w.began) > 2*time.Minute {
				t.Fatalf("%v after a minute; want thirty keys each", h.count())
			}
		}
		if took := time.Since(first); took < 1900*time.Millisecond || took > 3*time.Second {
			t.Errorf("they moved within %v; want ten at once, and twenty in the 2 s after it", took)
		}
		<-time.After(time.Minute)
		if n := h.count(); h.begun-before != keys/4 || n["m4"] != keys/4 {
			t.Errorf("%d keys moved, and %v are held; want a quarter of %d with the fourth member", h.begun-before, n, keys)
		}
	})
}

// TestCoordinatorDies: members that live keep their keys, under their tokens, and those of the dead one are free when
// its promise is over.
func TestCoordinatorDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		keys := func(c *Config) { c.Keys, c.Promise = Range(30), 3*time.Second } // more than the election's lease of a second
		var all []*part
		for i := range 3 {
			all = append(all, w.member(name(i+1), keys))
			all[i].run(h)
			w.until("a member more", 10*time.Second, func() bool { return len(h.count()) == i+1 && h.total() == 30 })
		}
		w.until("ten keys each", 20*time.Second, func() bool {
			n := h.count()
			return n["m1"] == 10 && n["m2"] == 10 && n["m3"] == 10
		})
		began := h.begun
		all[0].crash()
		w.until("fifteen keys each", 30*time.Second, func() bool {
			n := h.count()
			return n["m2"] == 15 && n["m3"] == 15
		})
		if n := h.begun - began; n != 10 {
			t.Errorf("work began %d times; want it for the 10 keys of the dead member", n)
		}
		for _, p := range all[1:] {
			if n := p.Counts(); n.Lapsed+n.Overruns > 0 {
				t.Errorf("%s: %+v", p.id, n)
			}
		}
	})
}

// TestHandOver: state goes from one holder to the next by Move, Drain empties a member, and a member that leaves and
// says so comes back to its keys.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		keys := func(c *Config) { c.Keys = Range(4) }
		states := make(chan string, 100)
		work := func(id string) func(context.Context, *Shard) error {
			return func(ctx context.Context, s *Shard) error {
				if s.State() != nil {
					states <- id + " has " + string(s.State())
				}
				if err := s.HandOver(make([]byte, MaxState+1)); err == nil || !strings.Contains(err.Error(), "want at most") {
					t.Errorf("a state that is too large: %v", err)
				}
				<-ctx.Done()
				if _, ok := errors.AsType[*elect.LostError](context.Cause(ctx)); !ok || s.Check() == nil || s.Remaining() != 0 {
					t.Errorf("the end of %s is %v, Check returns %v", s.Key(), context.Cause(ctx), s.Check())
				}
				return s.HandOver([]byte(s.Key() + " of " + id))
			}
		}
		var runs sync.WaitGroup
		run := func(p *part) func() {
			ctx, stop := context.WithCancel(ctx)
			runs.Go(func() { _ = p.Run(ctx, work(p.id)) })
			return stop
		}
		a := w.member("m1", keys)
		defer run(a)()
		held := func(id string) (n int) {
			s, err := a.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range s.Members {
				if m.ID == id {
					n += m.Keys
				}
			}
			return n
		}
		w.until("all keys at m1", 10*time.Second, func() bool { return held("m1") == 4 })
		b := w.member("m2", keys)
		stopB := run(b)
		w.until("two keys each", 10*time.Second, func() bool { return held("m1") == 2 && held("m2") == 2 })
		for range 2 {
			if s := <-states; !strings.HasPrefix(s, "m2 has ") || !strings.HasSuffix(s, " of m1") {
				t.Error(s)
			}
		}
		if err := a.Move(ctx, "0", "nobody"); !errors.Is(err, elect.ErrIneligible) {
			t.Errorf("a move to nobody: %v", err)
		}
		if err := b.Drain(ctx, "m1", true); err != nil {
			t.Fatal(err)
		}
		w.until("m1 to be empty", 10*time.Second, func() bool { return held("m2") == 4 })
		if err := b.Drain(ctx, "m1", false); err != nil {
			t.Fatal(err)
		}
		w.until("two keys each again", 10*time.Second, func() bool { return held("m1") == 2 })
		l, err := a.Lookup(ctx, "0")
		if err != nil {
			t.Fatal(err)
		}
		to := map[string]string{"m1": "m2", "m2": "m1"}[l.ID]
		if err := b.Move(ctx, "0", to); err != nil {
			t.Fatal(err)
		}
		var now elect.Leader
		w.until("the move", 10*time.Second, func() bool { now, err = b.Lookup(ctx, "0"); return err == nil && now.Token > l.Token })
		if err := b.Move(ctx, "0", ""); err != nil {
			t.Fatal(err)
		}
		w.until("the move to any other", 10*time.Second, func() bool { n, err := b.Lookup(ctx, "0"); return err == nil && n.Token > now.Token })
		all, err := b.Keys(ctx)
		if i := slices.IndexFunc(all, func(k KeyStatus) bool { return k.Pinned }); err != nil || i >= 0 {
			t.Errorf("%+v, %v; want no key that is pinned", all, err)
		}
		const before = 2
		w.until("two keys each at rest", 10*time.Second, func() bool {
			s, err := a.Status(ctx)
			return err == nil && s.Moving == 0 && held("m1") == before && held("m2") == before
		})
		<-time.After(time.Second) // what placement still thinks of the move
		if err := b.Leave(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		stopB()
		<-time.After(10 * time.Second)
		if n := held("m1"); n != before {
			t.Errorf("m1 has %d keys, and %d before another member left that will be back", n, before)
		}
		defer run(w.member("m2", keys))()
		w.until("m2 to have its keys again", 10*time.Second, func() bool { return held("m1") == before && held("m2") == 4-before })
	})
}

// misfits are settings that do not fit those of right, and what a member with them is told.
var misfits = map[string]struct {
	change func(*Config)
	says   string
}{
	"another group":    {func(c *Config) { c.Name = "other" }, "want the same group.Config.Name"},
	"other keys":       {func(c *Config) { c.Keys = Range(7) }, "want the same group.Config.Keys"},
	"a longer promise": {func(c *Config) { c.Promise = 9 * time.Second }, "raise group.Config.Cover"},
	"a shorter cover":  {func(c *Config) { c.Promise = time.Second }, "want a cover of at least the promise"},
	"token bits":       {func(c *Config) { c.TokenBits = 8 }, "want the same"},
}

// right are the settings of the other members: the promise outlives the election's lease of a second.
func right(c *Config) { c.Keys, c.Promise = Range(6), 3*time.Second }

// misfit joins as a candidate whose settings do not fit.
func (w *world) misfit(id string, change func(*Config)) (p *part, refused chan error) {
	refused = make(chan error, 100)
	p = w.member(id, func(c *Config) {
		right(c)
		change(c)
		seen := c.OnEvent
		c.OnEvent = func(e Event) {
			seen(e)
			if e.Kind == EventRefused {
				refused <- e.Err
			}
		}
	})
	return p, refused
}

// coordinated is how often a member was the coordinator.
func (p *part) coordinated() (n int) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, e := range p.event {
		if e.Kind == EventCoordinates {
			n++
		}
	}
	return n
}

// TestRefused: a candidate that does not fit is told what would be right, and is not elected, even when the coordinator
// dies. No living member loses a key by it.
func TestRefused(t *testing.T) {
	for what, c := range misfits {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, h := newWorld(t), newHolding(t)
				a := w.member("m1", right)
				a.run(h)
				w.until("all keys at m1", 10*time.Second, func() bool { return h.count()["m1"] == 6 })
				m, refused := w.misfit("m2", c.change)
				m.run(h)
				b := w.member("m3", right)
				b.run(h)
				select {
				case err := <-refused:
					if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
						t.Errorf("%v; want a line with %q", err, c.says)
					}
				case <-time.After(10 * time.Second):
					t.Errorf("it is not refused; want a line with %q", c.says)
				}
				w.until("three keys each", 20*time.Second, func() bool { return h.count()["m1"] == 3 && h.count()["m3"] == 3 })
				<-time.After(10 * time.Second)
				began, tokens := h.begun, h.held("m3")
				b.place.Freeze(true) // the misfit is elected if it stands
				a.crash()
				<-time.After(1500 * time.Millisecond)
				b.place.Freeze(false)
				w.until("all keys at m3", 20*time.Second, func() bool { return h.count()["m3"] == 6 })
				w.until("m3 to refuse it, too", 5*time.Second, func() bool { return len(refused) == 1 })
				if h.begun != began+3 {
					t.Errorf("work began %d times when the coordinator had died; want it for its 3 keys", h.begun-began)
				}
				for k, token := range h.held("m3") {
					if was, ok := tokens[k]; ok && was != token {
						t.Errorf("%s has the token %v at m3, and had %v", k, token, was)
					}
				}
				if n := b.Counts(); m.coordinated() > 0 || n.Lapsed+n.Overruns > 0 {
					t.Errorf("the misfit coordinated %d times, and m3 %+v", m.coordinated(), n)
				}
			})
		})
	}
}

// TestShortCover: when the coordinator dies and the other member with keys is cut off, one with a shorter cover gives its
// keys to nobody while its claim lasts.
func TestShortCover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		a, b := w.member("m1", right), w.member("m3", right)
		a.run(h)
		b.run(h)
		m, _ := w.misfit("m2", func(c *Config) { c.Promise = time.Second })
		m.run(h)
		<-time.After(15 * time.Second)
		b.cut(true)
		a.crash()
		<-time.After(3 * time.Second) // work that begins beside that of m3 is an error
	})
}

// TestMisfitGivesWay: a misfit that nobody could refuse, because it is elected when it has just started and nobody leads,
// gives way to members that have keys.
func TestMisfitGivesWay(t *testing.T) {
	for what, c := range misfits {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, h := newWorld(t), newHolding(t)
				a := w.member("m1", right)
				w.until("a coordinator", 10*time.Second, func() bool { return a.coordinated() == 1 })
				b := w.member("m3", right)
				b.run(h)
				w.until("all keys at m3", 10*time.Second, func() bool { return h.count()["m3"] == 6 })
				<-time.After(5 * time.Second)
				b.place.Freeze(true)
				a.crash()
				<-time.After(1200 * time.Millisecond) // the lease has run out
				m, _ := w.misfit("m2", c.change)
				w.until("the misfit to coordinate", time.Second, func() bool { return m.coordinated() == 1 })
				b.place.Freeze(false)
				w.until("m3 to coordinate", time.Second, func() bool { return b.coordinated() == 1 })
				<-time.After(20 * time.Second)
				if n := b.Counts(); h.begun != 6 || n.Lapsed+n.Overruns > 0 || m.coordinated() != 1 {
					t.Errorf("work began %d times, m3 %+v, the misfit coordinated %d times; want 6, nothing lost, and once", h.begun, n, m.coordinated())
				}
			})
		})
	}
}

// TestMisfitAlone: if none but refused members are left, one of them coordinates after a while, and a group of their
// settings goes on.
func TestMisfitAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		a := w.member("m1", right)
		stop := a.run(h)
		w.until("all keys at m1", 10*time.Second, func() bool { return h.count()["m1"] == 6 })
		longer := func(c *Config) { c.Promise = 5 * time.Second }
		m, refused := w.misfit("m2", longer)
		m.run(h)
		w.until("a refusal", 10*time.Second, func() bool { return len(refused) > 0 })
		stop()
		if err := a.Leave(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(4 * time.Second)
		if m.coordinated() > 0 {
			t.Error("the refused member coordinates at once")
		}
		w.until("all keys at m2", 20*time.Second, func() bool { return h.count()["m2"] == 6 })
		b, _ := w.misfit("m1", longer)
		b.run(h)
		w.until("three keys each", 20*time.Second, func() bool { return h.count()["m1"] == 3 && h.count()["m2"] == 3 })
	})
}

// TestConfigRefused: what can never be right is refused by Join and by an election.
func TestConfigRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		a := w.member("m1", func(c *Config) { c.Keys = Range(4) })
		a.run(h)
		w.until("all keys at m1", 10*time.Second, func() bool { return h.count()["m1"] == 4 })
		for what, c := range map[string]struct {
			change func(*Config)
			says   string
		}{
			"a long key":  {func(c *Config) { c.Keys = List(strings.Repeat("x", 129)) }, "want 1 to 128 bytes"},
			"a key twice": {func(c *Config) { c.Keys = List("a", "a") }, "want each key once"},
			"a cover":     {func(c *Config) { c.Cover = time.Millisecond }, "a cover of 1ms; want at least the promise"},
			"a drain":     {func(c *Config) { c.Drain = time.Second }, "want more than the drain"},
		} {
			if _, err := w.join("m3", c.change); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", what, err)
			}
		}
		e, err := elect.New(a.Elector(strings.Repeat("x", 129)), elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Lead(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "want 1 to 128 bytes") {
			t.Errorf("a long name: %v", err)
		}
		if e, err = elect.New(a.Elector("0"), elect.Config{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Lead(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "want another name") {
			t.Errorf("an election with the name of a shard: %v", err)
		}
		if h.begun != 4 || h.count()["m1"] != 4 {
			t.Errorf("work began %d times, and m1 holds %d keys; want 4 and 4", h.begun, h.count()["m1"])
		}
	})
}

// TestBadPlacement: moves that name nobody are not carried out, and nobody loses a key.
func TestBadPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		wrong, said := &wrongPlacer{}, &lines{text: "it names nobody; want the id of a member key=0 to=nobody"}
		a := w.member("m1", func(c *Config) {
			c.Keys, c.Logger = Range(4), slog.New(said)
			c.Placement = func() (placement.Placer, error) {
				p, err := eager()
				wrong.Placer = p
				return wrong, err
			}
		})
		a.run(h)
		w.until("all keys at m1", 10*time.Second, func() bool { return h.count()["m1"] == 4 })
		wrong.wrong.Store(true)
		b := w.member("m2", func(c *Config) { c.Keys = Range(4) })
		b.run(h)
		<-time.After(5 * time.Second)
		if h.count()["m1"] != 4 || h.begun != 4 {
			t.Errorf("%v, begun %d", h.count(), h.begun)
		}
		if n := said.n.Load(); n != 1 {
			t.Errorf("it is said %d times that a move names nobody; want once", n)
		}

		// What is right beside it is carried out.
		wrong.beside.Store(true)
		term, err := elect.New(a.Elector("named"), elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := term.Campaign(ctx); err != nil {
			t.Errorf("a key that nobody holds, beside moves that name nobody: %v", err)
		}
	})
}

type wrongPlacer struct {
	placement.Placer
	wrong, beside atomic.Bool
}

func (p *wrongPlacer) Plan(now time.Time) ([]placement.Move, time.Time) {
	moves, next := p.Placer.Plan(now)
	bad := []placement.Move{{Key: "0", From: "m1", To: "nobody"}, {Key: "no key", To: "m2"}}
	switch {
	case p.beside.Load():
		moves = append(moves, append(bad, placement.Move{Key: "1", From: "m1"})...)
	case p.wrong.Load():
		moves = bad
	}
	return moves, next
}

// TestNoKeysToPlace: placement is told no key of a group that has none.
func TestNoKeysToPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &lines{text: "placement refuses what it is told"}
		w := newWorld(t)
		a := w.member("m1", func(c *Config) { c.Logger = slog.New(said) })
		w.until("a plan", 30*time.Second, func() bool { _, err := a.Plan(t.Context()); return err == nil })
		if n := said.n.Load(); n > 0 {
			t.Errorf("it is said %d times that placement refuses what it is told; want never", n)
		}
	})
}

// TestServe: call-backs instead of goroutines.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		a := w.member("m1", func(c *Config) { c.Keys = Range(100) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- a.Serve(ctx, func(s *Shard) { h.begin("m1", s) }, func(s *Shard) { h.end(s) })
		}()
		w.until("all keys at m1", 10*time.Second, func() bool { return h.count()["m1"] == 100 })
		if err := a.Run(ctx, nil); err == nil || !strings.Contains(err.Error(), "one at a time") {
			t.Errorf("a second Run: %v", err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || h.total() != 0 {
			t.Errorf("%v, and %d keys are held", err, h.total())
		}
	})
}

// told is a Placer that notes how many keys it knows when it is to plan.
type told struct {
	placement.Placer
	mu      sync.Mutex
	keys    map[string]bool
	planned []int
}

func (c *told) SetKey(k placement.Key) error {
	c.mu.Lock()
	c.keys[k.Name] = true
	c.mu.Unlock()
	return c.Placer.SetKey(k)
}

func (c *told) Plan(now time.Time) ([]placement.Move, time.Time) {
	c.mu.Lock()
	c.planned = append(c.planned, len(c.keys))
	c.mu.Unlock()
	return c.Placer.Plan(now)
}

// TestManyKeys: no plan is made of a part of what a turn has changed, though placement is told of it in pieces.
func TestManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 20 * piece
		w := newWorld(t)
		placer := &told{keys: map[string]bool{}}
		a := w.member("m1", func(c *Config) {
			c.Keys = Range(keys)
			c.Placement = func() (placement.Placer, error) {
				var err error
				placer.Placer, err = eager()
				return placer, err
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var served sync.WaitGroup
		var led atomic.Int64
		served.Go(func() { _ = a.Serve(ctx, func(*Shard) { led.Add(1) }, func(*Shard) {}) })
		w.until("all keys are led", 10*time.Second, func() bool { return led.Load() == keys })
		placer.mu.Lock()
		for _, n := range placer.planned {
			if n != 0 && n != keys {
				t.Errorf("a plan was made of %d keys; want all %d, or none", n, keys)
			}
		}
		placer.mu.Unlock()
		cancel()
		served.Wait()
	})
}

// TestNoConnection: a member says why it has no connection with the coordinator, once a minute.
func TestNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.member("m1", nil)
		w.net.sever("m2", true)
		said := &lines{text: "there is no connection with the coordinator"}
		a := w.member("m2", func(c *Config) { c.Observer, c.Logger = true, slog.New(said) })
		<-time.After(90 * time.Second)
		if n := said.n.Load(); n != 2 {
			t.Errorf("%d lines say it in 90 s; want 2", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Status(ctx); !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "no route") {
			t.Errorf("Status: %v; want why there is no connection", err)
		}
	})
}
