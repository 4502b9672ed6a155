package group

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/link"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// TestRunEndsInAPause: a key whose work has returned by itself is not wanted again when Run is ending.
func TestRunEndsInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", func(c *Config) { c.Keys = Range(2) })
		ctx, cancel := context.WithCancel(t.Context())
		var paused, other atomic.Bool
		done := make(chan error, 1)
		go func() {
			done <- a.Run(ctx, func(ctx context.Context, s *Shard) error {
				if s.Key() == "0" && !paused.Swap(true) {
					return nil
				}
				other.Store(s.Key() == "1" || other.Load())
				<-ctx.Done()
				<-time.After(3 * again) // it joins slowly
				return nil
			})
		}()
		w.until("the work of both keys", 10*time.Second, func() bool { return paused.Load() && other.Load() })
		cancel()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("Run has not returned a minute after the end of its context")
		}
	})
}

// TestWithdrawnAsItWins: a candidacy that is withdrawn while the loop hands it its victory gives that back.
func TestWithdrawnAsItWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newWorld(t).member("m1", func(c *Config) { c.Observer = true }).Group.member
		c := &candidacy{result: make(chan *tenure, 1)}
		go m.withdraw(machine.Want{Key: "x"}, c) // the loop has taken it from the slots
		synctest.Wait()
		won := &tenure{m: m, key: "x", token: machine.Token{Tenure: 1, N: 1}, epoch: m.epoch}
		c.result <- won
		synctest.Wait()
		if !won.returned() {
			t.Error("the victory of a candidacy that was withdrawn is kept: nobody leads, and nobody else can")
		}
	})
}

// TestTwoElectorsOfOneName: what one of them gives up or does not want any more is not the other's.
func TestTwoElectorsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g := newWorld(t).member("m1", nil)
		one, two := g.Elector("x"), g.Elector("x")
		m, err := one.Campaign(ctx, driver.Candidacy{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if _, err := two.Campaign(short, driver.Candidacy{Exclusive: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if err := m.Check(); err != nil {
			t.Errorf("the mandate of one after the other's candidacy was withdrawn: %v", err)
		}
		won := make(chan error, 1)
		go func() {
			_, err := two.Campaign(ctx, driver.Candidacy{Exclusive: true})
			won <- err
		}()
		synctest.Wait()
		if err := m.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-won; err != nil {
			t.Errorf("the campaign of the other after the release: %v", err)
		}
	})
}

// TestLinkIsReplaced: what waits for an answer over a connection that was replaced before its end was seen is told so,
// and what comes from it late does not count.
func TestLinkIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newWorld(t).member("m1", func(c *Config) { c.Observer = true }).Group.member
		greet := func(n machine.Conn, l *link.Conn, tenure uint64) {
			m.put(arrival{from: &connection{conn: n, link: l}, packet: wire.Packet{Message: &machine.Message{Type: machine.Greet, Tenure: tenure, Promise: time.Second}}})
			synctest.Wait()
		}
		old, _ := link.Pair()
		now, _ := link.Pair()
		greet(1, old, 7)
		states, done, err := m.watch.follow("x")
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		asked := make(chan error, 1)
		go func() { asked <- m.call(context.Background(), "status", request{}, nil) }()
		synctest.Wait()
		greet(2, now, 8)
		greet(3, old, 7) // of a coordinator that is none any more
		m.mu.Lock()
		if m.attached != now {
			t.Error("the greeting of an older coordinator replaces the connection with the one of now")
		}
		m.mu.Unlock()
		for _, say := range []struct {
			from *link.Conn
			who  string
		}{{now, "new"}, {old, "old"}} {
			m.put(arrival{from: &connection{conn: 1, link: say.from}, packet: wire.Packet{Side: &wire.Side{Kind: wire.States, Entries: []wire.Entry{{Key: "x", Member: say.who, Token: machine.Token{Tenure: 8, N: 1}}}}}})
		}
		m.put(arrival{from: &connection{conn: 1, link: old}, closed: true})
		synctest.Wait()
		if s, _, _, _ := states.Get(); s.Leader == nil || s.Leader.ID != "new" {
			t.Errorf("the last state is %+v; want the leader that the coordinator of now says", s)
		}
		select {
		case err := <-asked:
			if !errors.Is(err, driver.ErrUnreachable) {
				t.Error(err)
			}
		default:
			t.Error("a request waits for ever for the answer of a connection that has ended")
			m.calls.detached(nil)
		}
	})
}

// TestMoveInCover: a move that the coordinator cannot make yet is not said to be made.
func TestMoveInCover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		var all []*part
		for i := range 4 {
			all = append(all, w.member(name(i+1), func(c *Config) { c.Keys, c.Promise, c.Cover = Range(8), 3*time.Second, 20*time.Second }))
			all[i].run(h)
			w.until("a member more", 30*time.Second, func() bool { return len(h.count()) == i+1 && h.total() == 8 })
		}
		all[0].crash()
		all[3].crash()
		asks := all[1]
		w.until("a coordinator that waits", 10*time.Second, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			s, err := asks.Status(ctx)
			return err == nil && s.Covering && len(s.Members) == 2
		})
		h.mu.Lock()
		var key, to string
		for k, id := range h.by {
			if id == "m2" || id == "m3" {
				key, to = k, map[string]string{"m2": "m3", "m3": "m2"}[id]
			}
		}
		h.mu.Unlock()
		if err := asks.Move(t.Context(), key, to); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("a move in cover: %v; want an error that matches ErrUnreachable", err)
		}
	})
}

// TestBadLoad: a key whose cost is no number is placed as every other.
func TestBadLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := w.member("m1", func(c *Config) { c.Keys = Range(1) })
		var begun atomic.Int64
		go func() {
			_ = a.Run(ctx, func(ctx context.Context, s *Shard) error {
				zero := 0.0
				s.Load(zero / zero)
				if begun.Add(1) < 3 {
					<-time.After(time.Second)
					return nil
				}
				<-ctx.Done()
				return nil
			})
		}()
		w.until("the key to be held again", time.Minute, func() bool { return begun.Load() == 3 })
	})
}

// TestNoLoad: a key that costs nothing is not placed as one whose cost nobody has told.
func TestNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		a := w.member("m1", func(c *Config) { c.Keys = Range(1) })
		a.run(h)
		w.until("the key", time.Minute, func() bool { return h.total() == 1 })
		h.shards["0"].Load(0)
		var load float64
		w.until("its load", time.Second, func() bool {
			got := make(chan float64)
			a.mu.Lock()
			a.coordinator.put(arrival{do: func() { got <- a.coordinator.loads["0"] }})
			a.mu.Unlock()
			load = <-got
			return load != 0
		})
		if load > 0.001 {
			t.Errorf("its load is %v; want a thousandth", load)
		}
	})
}

// TestStartsTooLate: work does not begin whose claim has ended since it was assigned, and the key is given up.
func TestStartsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newWorld(t).member("m1", func(c *Config) { c.Observer, c.Keys = true, Range(1) }).Group.member
		over := &epoch{session: m.epoch.session}
		over.view.Store(&machine.View{Session: over.session, Claim: protocol.Instant(1)})
		for what, s := range map[string]*server{
			"Run":   {work: func(context.Context, *Shard) error { t.Error("Run: work begins"); return nil }},
			"Serve": {begin: func(*Shard) { t.Error("Serve: work begins") }, end: func(*Shard) { t.Error("Serve: work ends that did not begin") }},
		} {
			s.m, s.guarded.g, s.ctx, s.wake = m, m.g, t.Context(), make(chan struct{}, 1)
			if done := make(chan struct{}); s.work == nil {
				go s.dispatch(done)
				defer close(done)
			}
			<-time.After(time.Second)
			late := &tenure{m: m, key: "0", token: machine.Token{Tenure: 1, N: 1}, epoch: over}
			s.start(late)
			synctest.Wait()
			if !late.returned() {
				t.Errorf("%s: the key is not given up", what)
			}
			s.active.Wait()
		}
	})
}

// TestServeLearnsWhatCheckHasSeen: a key whose Check has seen the end of the claim first is ended as every other.
func TestServeLearnsWhatCheckHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := w.member("m1", func(c *Config) { c.Keys = Range(1) })
		begun, ended := make(chan *Shard, 10), make(chan *Shard, 10)
		go func() { _ = a.Serve(ctx, func(s *Shard) { begun <- s }, func(s *Shard) { ended <- s }) }()
		s := <-begun
		view := s.t.epoch.view.Load()
		old := *view
		old.Claim = 1 // what Check has loaded before the loop renewed it
		s.t.epoch.view.Store(&old)
		err := s.Check()
		s.t.epoch.view.Store(view)
		if err == nil {
			t.Fatal("Check does not look at the claim")
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("a key whose Check fails for ever is kept")
		}
		<-begun
	})
}

// TestCutWithoutAWord: a member whose connection died without a word has its keys again soon after the network is there.
func TestCutWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		for i := range 2 {
			w.member(name(i+1), func(c *Config) { c.Keys = Range(2) }).run(h)
			w.until("a member more", 10*time.Second, func() bool { return len(h.count()) == i+1 && h.total() == 2 })
		}
		w.net.swallow("m2", true)
		w.until("m1 to have all keys", 10*time.Second, func() bool { return h.count()["m1"] == 2 })
		w.net.swallow("m2", false)
		w.until("m2 to have a key again", 10*time.Second, func() bool { return h.count()["m2"] == 1 })
	})
}

// TestAnotherGroupAtTheAddress: the listener of another group, of the same name, that has the address of a coordinator
// which is gone, is not taken for it: keys of two groups would be one member's.
func TestAnotherGroupAtTheAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := newWorld(t), newWorld(t)
		other.net = w.net
		there := other.member("m1", nil)
		w.member("m1", func(c *Config) { c.Advertise = there.addr })
		said := &lines{text: "is not the coordinator m1, but another process, of m1; want the one that the election shows"}
		m := w.member("m2", func(c *Config) { c.Observer, c.Logger = true, slog.New(said) })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if s, err := m.Status(ctx); err == nil {
			t.Errorf("m2 is a member of a group that it has not joined: %+v", s)
		}
		if said.n.Load() == 0 {
			t.Error("m2 does not say why")
		}
	})
}

// ask connects with a member as one who only asks.
func (w *world) ask(at *part) (nc net.Conn, send func(wire.Packet)) {
	nc, err := w.net.dial("client")(w.t.Context(), at.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	send = func(p wire.Packet) {
		if err := wire.Write(nc, &p); err != nil {
			w.t.Fatal(err)
		}
	}
	hello := *at.hello()
	hello.ID, hello.Control = "client", true
	send(wire.Packet{Hello: &hello})
	if _, err := wire.NewReader(nc).Next(); err != nil {
		w.t.Fatal(err)
	}
	return nc, send
}

// TestAsksWithoutACoordinator: a connection that asks something where no coordinator is does not stay for ever.
func TestAsksWithoutACoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.member("m1", func(c *Config) { c.Observer = true })
		nc, send := w.ask(m)
		send(wire.Packet{Side: &wire.Side{Kind: wire.Call, Call: 1, Method: "status", Body: []byte("{}")}})
		_ = nc.Close()
		w.until("the connection to be forgotten", time.Minute, func() bool {
			m.acceptor.mu.Lock()
			defer m.acceptor.mu.Unlock()
			return len(m.acceptor.all) == 0
		})
	})
}

// TestConnectsAsTheTermEnds: a connection that came in the turn in which a coordinator resigned ends with the others.
func TestConnectsAsTheTermEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.member("m1", nil)
		if _, err := m.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		c := m.coordinator
		m.mu.Unlock()
		m.gate.shut(true)
		c.put(arrival{do: func() {}}) // so that the loop is at the gate
		synctest.Wait()
		m.place.Cut(true)
		w.until("the end of the term", time.Minute, func() bool { return c.term.Check() != nil })
		c.put(arrival{do: func() { c.in = machine.Input{Kind: machine.Fire}; c.step() }})
		nc, _ := w.ask(m)
		synctest.Wait()
		m.gate.shut(false)
		if err := nc.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a minute after the end of the term: %v; want the end of the connection", err)
		}
	})
}

// TestMetadataOfNoLeader: a leader that the coordinator does not know is not told that its metadata is shown.
func TestMetadataOfNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", nil)
		won, err := a.Elector("nightly").Campaign(t.Context(), driver.Candidacy{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		m := won.(*mandate)
		if err := m.SetMetadata(t.Context(), map[string]string{"k": "v"}); err != nil {
			t.Error(err)
		}
		m.token.N++
		if err := m.SetMetadata(t.Context(), map[string]string{"k": "w"}); !errors.Is(err, driver.ErrUnknownOutcome) {
			t.Errorf("%v; want an unknown outcome", err)
		}
		m.token.N--
	})
}

// TestElectionIsNotSeen: a member that cannot observe the coordinator's election says why it has no coordinator.
func TestElectionIsNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.member("m1", nil)
		m := w.member("m2", func(c *Config) { c.Observer = true })
		m.place.Cut(true)
		w.net.sever("m2", true)
		<-time.After(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Status(ctx); err == nil || !strings.Contains(err.Error(), "election cannot be observed: ") {
			t.Errorf("Status: %v; want why there is no coordinator", err)
		}
	})
}

// TestUnannounced: who has won and has not announced itself to the coordinator yet is not said to be nobody, whether it
// was assigned its key or has told a new coordinator of it. Who knows the leader before it is told that this one has gone.
func TestUnannounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		promise := func(c *Config) { c.Promise, c.Observer = 3*time.Second, c.ID == "m2" } // more than the election's lease of a second
		first := w.member("m1", promise)
		w.until("a coordinator", 10*time.Second, func() bool { return first.Measure().Coordinates })
		b := w.member("m2", promise)
		next := w.member("m3", promise)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		win := func(p *part) driver.Mandate {
			m, err := p.Elector("k").Campaign(ctx, driver.Candidacy{Metadata: map[string]string{"at": p.id}})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		var mu sync.Mutex
		seen := map[string][]string{}
		watch := func(p *part) {
			for s, err := range p.Elector("k").Watch(ctx) {
				says := "nobody"
				if s.Leader != nil {
					says = s.Leader.Metadata["at"]
				}
				if s.Stale {
					says += ", as it was"
				}
				if err != nil {
					says = err.Error()
				}
				mu.Lock()
				seen[p.id] = slices.Compact(append(seen[p.id], says)) // what is so may be told again
				mu.Unlock()
			}
		}
		saw := func(want map[string][]string) {
			t.Helper()
			<-time.After(5 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if !reflect.DeepEqual(seen, want) {
				t.Errorf("observers saw %q; want %q", seen, want)
			}
			clear(seen)
		}
		m := win(next)
		go watch(next)
		saw(map[string][]string{"m3": {"m3"}})
		w.net.slower("m2", 20*time.Millisecond) // its announcement comes later than that it has won
		go func() {
			if err := m.Release(ctx); err != nil {
				t.Error(err)
			}
		}()
		win(b)
		go watch(first)
		if _, err := w.client("asks", Config{}).Lookup(ctx, "k"); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("lookup before the announcement: %v; want ErrUnreachable", err)
		}
		saw(map[string][]string{"m3": {"nobody", "m2"}, "m1": {"m2"}})
		first.crash()
		w.until("the next coordinator", 10*time.Second, func() bool { return next.Measure().Coordinates })
		saw(map[string][]string{"m3": {"m2, as it was", "m2"}})
	})
}
