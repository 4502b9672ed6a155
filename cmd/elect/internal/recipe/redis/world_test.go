package redis

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// begin starts all electors, and waits until r1 is announced and all servers have their settings.
func (w *fakeWorld) begin() {
	w.t.Helper()
	for id := range w.electors {
		w.start(id)
	}
	w.wait("r1", 10*time.Second)
	w.pass(2 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, s := range w.servers {
		if want := w.electors["e1"].cfg.ToWrite; s.toWrite != want && os.Getenv("ELECT_MUTANT") == "" {
			w.t.Errorf("min-replicas-to-write of %s is %d; want %d", id, s.toWrite, want)
		}
	}
}

// A master whose process has ended is replaced at once; when it comes back it is demoted.
func TestDeadMaster(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		w.change(func() { w.servers["r3"].offset++ })
		w.servers["r1"].kill()
		if took := w.wait("r3", 10*time.Second); took > 500*time.Millisecond {
			t.Errorf("a failover took %v; want half a second at most", took)
		}
		w.pass(time.Second)
		w.servers["r1"].restart(true)
		w.pass(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range []string{"r1", "r2"} {
			if s := w.servers[id]; s.master || s.of.Host != "r3" {
				t.Errorf("%s: master %v, of %v; want a replica of r3", id, s.master, s.of)
			}
		}
	})
}

// A master that restarts at once without its data is not followed by replicas that have them.
func TestEmptyMaster(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		w.servers["r1"].kill()
		w.servers["r1"].restart(false)
		deadline := time.Now().Add(5 * time.Second)
		for w.masters()["e1"] == "r1" && time.Now().Before(deadline) {
			w.pass(10 * time.Millisecond)
		}
		w.pass(2 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		for id, s := range w.servers {
			if s.offset != 100 {
				t.Errorf("%s has lost the data: offset %d", id, s.offset)
			}
		}
		if w.servers["r1"].master {
			t.Error("r1 is still master")
		}
	})
}

// A silent master may still take writes for a time; no replica is promoted before that is over.
func TestSilentMasterIsOutlasted(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		began := time.Now()
		w.isolate("r1", true)
		deadline := time.Now().Add(30 * time.Second)
		for w.masters()["e1"] == "r1" && time.Now().Before(deadline) {
			w.pass(10 * time.Millisecond)
		}
		w.mu.Lock()
		var taken time.Time // the last replica
		for _, id := range []string{"r2", "r3"} {
			taken = later(taken, w.servers[id].taken[0])
		}
		// A look, a quarter of down-after, and the time to find both.
		if took := taken.Sub(began); took > 600*time.Millisecond {
			t.Errorf("the replicas were taken away after %v; want 600 ms at most", took)
		}
		for _, s := range w.servers {
			for _, at := range s.promoted {
				// What Redis may take to notice that its replicas are gone, and a tenth.
				if took := at.Sub(taken); took < 4400*time.Millisecond || took > 4500*time.Millisecond {
					t.Errorf("%s was promoted %v after the replicas were taken away; want 4.4 s", s.id, took)
				}
			}
		}
		n := len(w.servers["r2"].promoted) + len(w.servers["r3"].promoted)
		w.mu.Unlock()
		if n != 1 {
			t.Errorf("%d promotions; want one", n)
		}
		w.isolate("r1", false)
		w.pass(2 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.servers["r1"].master {
			t.Error("r1 came back, and is still master")
		}
	})
}

// A master with a replica that is not in servers may take writes for as long as it is cut off: nobody is promoted.
func TestOutsiders(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		w.change(func() { w.servers["r1"].outsiders = 1 })
		w.pass(2 * time.Second)
		w.isolate("r1", true)
		w.pass(20 * time.Second)
		w.mu.Lock()
		n := len(w.servers["r2"].promoted) + len(w.servers["r3"].promoted)
		w.mu.Unlock()
		if n != 0 {
			t.Error("a replica was promoted while r1 has another one, and takes writes")
		}
		w.change(func() { w.servers["r1"].outsiders = 0 })
		w.isolate("r1", false)
		w.pass(3 * time.Second)
		w.wait("r1", 0)
		w.change(func() { w.servers["r3"].waiting = true }) // which is no other one
		w.pass(2 * time.Second)
		w.isolate("r1", true)
		for deadline := time.Now().Add(10 * time.Second); w.masters()["e1"] == "r1"; w.pass(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no replica was promoted after the other one had gone")
			}
		}
	})
}

// A master at which somebody has undone min-replicas-to-write gets it back.
func TestSettingsAreUndone(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		w.change(func() { w.servers["r1"].toWrite = 0 })
		w.pass(2 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := w.servers["r1"].toWrite; n != 1 {
			t.Errorf("min-replicas-to-write of r1 is %d; want 1 again", n)
		}
	})
}

// A connection without a name takes no orders: the next acting elector could not close it.
func TestNamelessOrders(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.change(func() { w.servers["r2"].nameless = true })
		for id := range w.electors {
			w.start(id)
		}
		w.pass(5 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := w.servers["r2"].toWrite; n != 0 {
			t.Errorf("r2 has taken the order min-replicas-to-write %d over a connection without a name", n)
		}
		if n := w.servers["r3"].toWrite; n != 1 {
			t.Errorf("r3 has min-replicas-to-write %d; want 1", n)
		}
	})
}

// A decision that found no majority, and the next one, have different numbers.
func TestNumbersOfDecisions(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		e := w.electors[w.acting()].e
		kept := e.ledger.read().Accepted
		a := &actor{e: e, ctx: context.Background(), token: kept.Token, check: func() error { return nil }, number: kept.Number, allSet: true}
		w.change(func() {
			for id := range w.electors {
				for to := range w.electors {
					w.cut[[2]string{id, to}] = id != to
				}
			}
		})
		for _, p := range e.others {
			p.close()
		}
		d := kept
		d.Master = "r2"
		if err := a.decide(d); err == nil {
			t.Fatal("one of three is a majority")
		}
		lone := e.ledger.read().Accepted
		w.change(func() { clear(w.cut) })
		d.Master = "r3"
		if err := a.decide(d); err != nil {
			t.Fatal(err)
		}
		if next := e.ledger.read().Accepted; next.Number <= lone.Number {
			t.Errorf("the decision for %s has the number %d, and that for %s before it %d; want a greater one", next.Master, next.Number, lone.Master, lone.Number)
		}
	})
}

// A silent master is ended by the fence command; if that fails, it is outlasted. Nothing else is fenced.
func TestFenceCommand(t *testing.T) {
	for name, c := range map[string]struct {
		silent   []string
		code     string
		from, to time.Duration // until a replica is promoted; 0: none is
		toWrite  int
	}{
		"succeeds":            {[]string{"r1"}, "0", time.Second, 1500 * time.Millisecond, 1},
		"fails":               {[]string{"r1"}, "1", 4400 * time.Millisecond, 6500 * time.Millisecond, 1},
		"too many are silent": {[]string{"r1", "r2"}, "0", 4400 * time.Millisecond, 6500 * time.Millisecond, 1},
		"fails, and too many": {[]string{"r1", "r2"}, "1", 0, 0, 1},
		"all are silent":      {[]string{"r1", "r2", "r3"}, "0", 0, 0, 1},
		"a replica is silent": {[]string{"r2"}, "0", 0, 0, 1},
		"no replicas needed":  {[]string{"r1", "r2"}, "0", time.Second, 2500 * time.Millisecond, 0},
		"is missing":          {[]string{"r1"}, "127", 4400 * time.Millisecond, 6500 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			told := filepath.Join(t.TempDir(), "told")
			inWorld(t, func(w *fakeWorld) {
				for _, e := range w.electors {
					e.cfg.ToWrite = c.toWrite
					e.cfg.Fence = FenceEntry{Run: `echo "$ELECT_NAME $ELECT_SERVER $ELECT_SERVER_ADDRESS" >>` + told + "; exit " + c.code, Limit: 10 * time.Second}
				}
				w.begin()
				began := time.Now()
				for _, id := range c.silent {
					w.isolate(id, true)
				}
				w.pass(12 * time.Second)
				w.mu.Lock()
				defer w.mu.Unlock()
				var promoted []time.Time
				for _, s := range w.servers {
					promoted = append(promoted, s.promoted...)
				}
				switch {
				case c.to == 0 && len(promoted) > 0:
					t.Errorf("promoted after %v; want nobody promoted", promoted[0].Sub(began))
				case c.to > 0 && (len(promoted) != 1 || promoted[0].Sub(began) < c.from || promoted[0].Sub(began) > c.to):
					t.Errorf("promoted at %v, cut off at %v; want one after %v to %v", promoted, began, c.from, c.to)
				}
			})
			text, err := os.ReadFile(told)
			if wanted := slices.Contains(c.silent, "r1") && len(c.silent) < 3; wanted == (err != nil) { // it helps nobody else
				t.Errorf("fenced: %q, %v; want that it is %v", text, err, wanted)
			}
			if all := strings.ReplaceAll(string(text), "mymaster r1 r1:6379\n", ""); all != "" {
				t.Errorf("fenced:\n%s\nwant r1 only", text)
			}
		})
	}
}

// An old master that has other settings than the configuration, because that was changed while it was cut off, is fenced
// by its own.
func TestFenceOfEarlierSettings(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		for _, e := range w.electors {
			e.cfg.MaxLag = 5
		}
		w.begin()
		w.isolate("r1", true)
		for id, e := range w.electors {
			w.end(id)
			e.cfg.MaxLag = 1
		}
		for id := range w.electors {
			w.start(id)
		}
		w.pass(20 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		r2, r3 := w.servers["r2"], w.servers["r3"]
		promoted := append(r2.promoted, r3.promoted...)
		if taken := later(r2.taken[0], r3.taken[0]); len(promoted) != 1 || promoted[0].Sub(taken) < 7700*time.Millisecond {
			t.Errorf("promoted at %v, taken away at %v; want 7.7 s between", promoted, taken)
		}
	})
}

// A replica whose synchronization was broken off is not promoted, though it shows the history of the master.
func TestPartOfTheData(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		w.change(func() { w.servers["r2"].syncing, w.servers["r2"].offset = true, 999 })
		w.pass(time.Second)
		w.servers["r1"].kill()
		w.change(func() { w.servers["r2"].syncing = false }) // it was broken off
		w.wait("r3", 10*time.Second)
	})
}

// Answers that take long lengthen the fence, as the timer is late that counts replicas.
func TestSlowMaster(t *testing.T) {
	w := &watcher{changed: func() {}}
	answers := []any{simple("PONG"), "hz:10\r\n", "role:master\r\n", ""}
	for range 50 {
		w.answered(time.Now().Add(-150*time.Millisecond), answers)
	}
	s := w.sight()
	if b := s.behind(); b < 2900*time.Millisecond || b > 3500*time.Millisecond {
		t.Errorf("with commands of 300 ms the timer may be %v late; want 3 s", b)
	}
	if b := (&Sight{}).behind(); b != time.Second {
		t.Errorf("of a server that was never seen it is %v; want 1 s", b)
	}
}

// A master that is late, and not down, gets its replicas back.
func TestLateMaster(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		for range 3 {
			w.isolate("r1", true)
			w.pass(480 * time.Millisecond)
			w.isolate("r1", false)
			w.pass(5 * time.Second)
		}
		w.wait("r1", 0)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range []string{"r2", "r3"} {
			// The second time this takes longer than the master is silent.
			if s := w.servers[id]; len(s.taken) != 1 || s.of != w.servers["r1"].at || len(s.promoted) > 0 {
				t.Errorf("%s: taken away %d times, promoted %d times, of %v; want once, and a replica of r1 again", id, len(s.taken), len(s.promoted), s.of)
			}
		}
	})
}

// An elector that is alone with the master closes the links of its replicas, and no other elector does.
func TestDesertedElector(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		alone := "e1"
		if w.acting() == alone {
			alone = "e2"
		}
		unlinked := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.servers["r1"].unlinked
		}
		cut := func(ids ...string) {
			w.change(func() {
				for _, id := range ids {
					w.cut[[2]string{alone, id}] = true
				}
			})
		}
		cut("r2", "r3")
		w.pass(3 * time.Second)
		if n := unlinked(); n != 0 {
			t.Errorf("links were closed %d times by an elector that hears of an acting one", n)
		}
		w.electors[alone].elector.Cut(true)
		for id := range w.electors {
			if id != alone {
				w.end(id)
			}
		}
		w.pass(3 * time.Second)
		if n := unlinked(); n != 1 {
			t.Errorf("links were closed %d times; want once", n)
		}
	})
}

// While two of three servers are silent they may be a master with its replica: nobody is promoted.
func TestMinorityWaits(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		w.isolate("r1", true)
		w.isolate("r2", true)
		w.pass(20 * time.Second)
		w.mu.Lock()
		n := len(w.servers["r3"].promoted)
		w.mu.Unlock()
		if n != 0 {
			t.Error("r3 was promoted, while r1 and r2 may take writes together")
		}
		w.isolate("r2", false)
		for w.masters()["e1"] == "r1" {
			w.pass(10 * time.Millisecond)
		}
	})
}

// One elector that does not reach the master is not enough; if it acts it gives way.
func TestQuorum(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		acting := w.acting()
		w.change(func() { w.cut[[2]string{acting, "r1"}] = true })
		w.pass(8 * time.Second)
		for id, m := range w.masters() {
			if m != "r1" {
				t.Errorf("%s tells clients %q; want r1, which two electors see", id, m)
			}
		}
		// It is of no use, and another one acts.
		for deadline := time.Now().Add(20 * time.Second); w.acting() == acting || w.acting() == ""; w.pass(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s, which does not reach the master, still acts", acting)
			}
		}
	})
}

// An acting elector that has not seen the last decision learns it from a majority.
func TestDecisionIsLearnt(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		late := "e1"
		if w.acting() == late {
			late = "e2"
		}
		w.end(late)
		w.servers["r1"].kill()
		for w.masters()[w.acting()] == "r1" {
			w.pass(10 * time.Millisecond)
		}
		next := w.masters()[w.acting()]
		w.servers["r1"].restart(true)
		w.pass(2 * time.Second)
		// Now only the late one can act: the others never stand again before it.
		for id, e := range w.electors {
			if e.stop != nil {
				w.end(id)
			}
		}
		w.start(late)
		w.pass(3 * time.Second) // it leads, alone, and finds no majority
		if m := w.acting(); m != late && m != "" {
			t.Fatalf("%s acts; want %s", m, late)
		}
		for id := range w.electors {
			if id != late {
				w.start(id)
			}
		}
		w.wait(next, 30*time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if s := w.servers[next]; !s.master || w.servers["r1"].master {
			t.Errorf("%s was decided, and is not the only master", next)
		}
	})
}

// The connection of an older acting elector is closed before a newer one orders anything.
func TestOlderOrdersAreCutOff(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		old := w.electors[w.acting()]
		old.e.mu.Lock()
		a := old.e.actor
		old.e.mu.Unlock()
		if _, err := a.query("r2", []string{"PING"}); err != nil {
			t.Fatal(err)
		}
		// It loses its lease, but does not notice on this connection: as if it were stopped between Check and an order.
		old.elector.Cut(true)
		for w.acting() == old.id || w.acting() == "" {
			w.pass(10 * time.Millisecond)
		}
		w.pass(3 * time.Second)
		w.servers["r1"].kill() // the newer one orders something everywhere
		w.pass(5 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range w.servers["r2"].conns {
			if _, name, _ := strings.Cut(name, " "); strings.HasPrefix(name, ordersName) && strings.TrimPrefix(name, ordersName) == a.token.String() {
				t.Errorf("the older acting elector is still connected as %s", name)
			}
		}
	})
}

// An elector that hears of no acting one is silent about a master that it does not see.
func TestSilentElector(t *testing.T) {
	inWorld(t, func(w *fakeWorld) {
		w.begin()
		alone := "e1"
		if w.acting() == alone {
			alone = "e2"
		}
		w.change(func() {
			for _, to := range []string{"e1", "e2", "e3", "r1", "r2", "r3"} {
				w.cut[[2]string{alone, to}] = true
				w.cut[[2]string{to, alone}] = true
			}
		})
		// Connections that exist are cut by their servers only; those of electors end here.
		w.end(alone)
		w.start(alone)
		w.pass(10 * time.Second)
		if m := w.masters(); m[alone] != "" {
			t.Errorf("it tells clients %q; want nothing", m[alone])
		}
	})
}

// A ledger keeps its promises over a restart, and a write that fails changes nothing.
func TestLedger(t *testing.T) {
	dir := t.TempDir()
	l, err := openLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openLedger(dir); err == nil {
		t.Error("two electors use one directory")
	}
	d := Decision{Token: 7, Number: 1, Master: "r1"}
	for _, step := range []struct {
		what string
		err  error
		ok   bool
	}{
		{"promise 5", second(l.promise(5)), true},
		{"promise 5 again", second(l.promise(5)), true},
		{"promise 4", second(l.promise(4)), false},
		{"accept 7.1", l.accept(d), true},
		{"accept 6.1", l.accept(Decision{Token: 6, Number: 1, Master: "r2"}), false},
		{"promise 6", second(l.promise(6)), false},
		{"accept 7.2", l.accept(Decision{Token: 7, Number: 2, Master: "r2"}), true},
		{"accept 7.1 again", l.accept(d), false},
		{"accept another 7.2", l.accept(Decision{Token: 7, Number: 2, Master: "r3"}), false},
		{"announce 7.2", second(l.announce(Decision{Token: 7, Number: 2, Master: "r2"})), true},
		{"announce 7.1", second(l.announce(d)), false},
	} {
		if (step.err == nil) != step.ok {
			t.Errorf("%s: %v", step.what, step.err)
		}
	}
	before := l.read()
	l.write = func(string, []byte) error { return os.ErrPermission }
	if err := l.accept(Decision{Token: 8, Number: 1, Master: "r3"}); err == nil || l.read() != before {
		t.Errorf("a write has failed: %v, %+v", err, l.read())
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if l, err = openLedger(dir); err != nil || l.read() != before {
		t.Fatalf("after a restart: %v, %+v; want %+v", err, l.read(), before)
	}
	_ = l.close()
	writeFile(t, filepath.Join(dir, ledgerName), "{")
	if _, err := openLedger(dir); err == nil {
		t.Error("a ledger that cannot be read was taken for an empty one")
	}
}

func second[T any](_ T, err error) error { return err }

// The schema that is shipped is that of the decoder.
func TestSchemaIsShipped(t *testing.T) {
	const path = "../../../../../deploy/recipe/redis.schema.json"
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, Schema()) {
		t.Errorf("%s is not what elect recipe redis schema prints (%v); want: elect recipe redis schema >deploy/recipe/redis.schema.json", path, err)
	}
}
