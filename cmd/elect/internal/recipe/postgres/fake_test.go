package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// lab is a cluster of nodes above servers of the model, in one bubble. Its lock guards the servers and faults.
type lab struct {
	t     *testing.T
	store *memory.Store
	log   *slog.Logger

	mu       sync.Mutex
	servers  []*pg
	dbs      []*fake
	nodes    []*Node
	electors []*memory.Elector
	keeps    []*memoryKeeper
	stops    []func()
	cut      map[[2]int]bool
	modest   bool         // the election cannot hand over to a node by name
	deaf     map[int]bool // no other server reaches this one, and its node they do
	n        int
	acked    []row
	ctx      context.Context
}

type memoryKeeper struct {
	mu sync.Mutex
	of saved
}

func (k *memoryKeeper) load() (saved, error) { k.mu.Lock(); defer k.mu.Unlock(); return k.of, nil }
func (k *memoryKeeper) save(s saved) error   { k.mu.Lock(); defer k.mu.Unlock(); k.of = s; return nil }

// link is a node as another one reaches it.
type link struct {
	l        *lab
	from, to int
}

func (k link) reach() (*Node, error) {
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	if k.l.cut[[2]int{k.from, k.to}] || k.l.stops[k.to] == nil {
		return nil, errors.New("it does not answer")
	}
	return k.l.nodes[k.to], nil
}

func (k link) status(ctx context.Context, confirm bool) (Status, error) {
	n, err := k.reach()
	if err != nil {
		return Status{}, err
	}
	return n.state(ctx, confirm), nil
}

func (k link) prepare(ctx context.Context, token uint64) (answer, error) {
	n, err := k.reach()
	if err != nil {
		return answer{}, err
	}
	return n.promise(ctx, token)
}

// newLab starts a cluster without data.
func newLab(t *testing.T, size int) *lab {
	t.Helper()
	l := &lab{t: t, store: memory.NewStore(0), cut: map[[2]int]bool{}, deaf: map[int]bool{}, log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return a }}))}
	ctx, cancel := context.WithCancel(t.Context())
	l.ctx = ctx
	var entries []NodeEntry
	for i := range size {
		entries = append(entries, NodeEntry{ID: fmt.Sprintf("n%d", i+1)})
		l.servers = append(l.servers, &pg{from: -1, weak: -1})
		l.keeps = append(l.keeps, &memoryKeeper{})
		l.dbs = append(l.dbs, &fake{l: l, i: i, done: make(chan struct{})})
		close(l.dbs[i].done)
	}
	l.nodes, l.stops, l.electors = make([]*Node, size), make([]func(), size), make([]*memory.Elector, size)
	for i := range size {
		l.start(i, entries)
	}
	ended := make(chan struct{})
	go func() { // replication
		defer close(ended)
		for ctx.Err() == nil {
			l.mu.Lock()
			for j, s := range l.servers {
				if s.from >= 0 && (l.cut[[2]int{j, s.from}] || l.deaf[s.from]) {
					s.stream = false
					continue
				}
				flow(l.servers, j, true)
			}
			l.mu.Unlock()
			pause(ctx, 2*time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		for i := range l.nodes {
			l.stop(i)
		}
		cancel()
		<-ended
	})
	return l
}

// start starts the process of a node.
func (l *lab) start(i int, entries []NodeEntry) {
	l.t.Helper()
	s := &Settings{Name: "test", ID: entries[i].ID, Nodes: entries, Confirm: len(entries) / 2, MaxLag: 1024, Patience: 10 * time.Second, Grace: 10 * time.Second, Probe: ProbeEntry{Every: time.Second, Limit: 3 * time.Second, Failures: 3}}
	others := map[string]remote{}
	for j, e := range entries {
		if j != i {
			others[e.ID] = link{l, i, j}
		}
	}
	n, err := newNode(s, l.dbs[i], l.keeps[i], others, l.log.With("node", s.ID))
	if err != nil {
		l.t.Fatal(err)
	}
	elector, err := l.store.New("test", s.ID, memory.Config{})
	if err != nil {
		l.t.Fatal(err)
	}
	var place driver.Elector = elector
	if l.modest {
		place = modest{elector}
	}
	if n.election, err = elect.New(place, elect.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	ended := make(chan struct{})
	l.mu.Lock()
	l.nodes[i], l.electors[i] = n, elector
	l.stops[i] = func() { cancel(); <-ended; _ = n.election.Close() }
	l.mu.Unlock()
	go func() {
		defer close(ended)
		if err := n.run(ctx); ctx.Err() == nil {
			l.t.Errorf("%s: %v", s.ID, err)
		}
	}()
}

// modest is an elector that cannot hand over by name.
type modest struct{ driver.Elector }

func (m modest) Limits() driver.Limits {
	l := m.Elector.Limits()
	l.Abilities = slices.DeleteFunc(slices.Clone(l.Abilities), func(a driver.Ability) bool { return a == driver.AbilityTransfer })
	return l
}

func (m modest) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	of, err := m.Elector.Campaign(ctx, c)
	if err != nil {
		return nil, err
	}
	return struct{ driver.Mandate }{of}, nil
}

// stop ends the process of a node in order.
func (l *lab) stop(i int) {
	l.mu.Lock()
	stop := l.stops[i]
	l.stops[i] = nil
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// crash kills the server of a node.
func (l *lab) crash(i int) {
	_ = l.dbs[i].with("crash", func(s *pg) error { l.dbs[i].end(s); return nil })
}

// primary waits for a node that serves, other than those of not.
func (l *lab) primary(not ...int) int {
	l.t.Helper()
	for range 6000 {
		for i, n := range l.nodes {
			if !slices.Contains(not, i) && n.isPrimary() == nil {
				return i
			}
		}
		pause(l.ctx, 10*time.Millisecond)
	}
	l.t.Fatalf("no primary\n%s", l.state())
	return -1
}

func (l *lab) state() string {
	var b strings.Builder
	for i, n := range l.nodes {
		fmt.Fprintf(&b, "%+v\n%+v\n%v\n", n.state(l.ctx, false), n.record(), l.dbs[i].ops)
	}
	return b.String()
}

// settled waits until all others stream and are whole.
func (l *lab) settled(primary int) {
	l.t.Helper()
	ok := func(i int) bool {
		r := l.nodes[i].record()
		return i == primary || l.nodes[i].isReplica() == nil && r.Followed == l.nodes[primary].record().Followed
	}
	for range 12000 {
		all := true
		for i := range l.nodes {
			all = all && ok(i)
		}
		if all {
			return
		}
		pause(l.ctx, 10*time.Millisecond)
	}
	l.t.Fatalf("the replicas do not stream\n%s", l.state())
}

// verify requires that a primary has all that was acknowledged.
func (l *lab) verify(primary int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.acked {
		if !slices.Contains(l.servers[primary].log, e) {
			l.t.Errorf("the entry %v was acknowledged, and %s does not have it", e, l.nodes[primary].s.ID)
		}
	}
}

func (l *lab) write(i, rows int) {
	l.t.Helper()
	for range rows {
		if err := l.dbs[i].write(l.ctx); err != nil {
			l.t.Fatal(err)
		}
	}
}

func inBubble(t *testing.T, size int, test func(t *testing.T, l *lab, primary int)) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, size)
		p := l.primary()
		l.settled(p)
		l.write(p, 10)
		test(t, l, p)
	})
}

func TestFounding(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		inits := 0
		for _, db := range l.dbs {
			for _, op := range db.ops {
				if op == "init" {
					inits++
				}
			}
		}
		if inits != 1 {
			t.Errorf("%d clusters were made; want one", inits)
		}
		pause(l.ctx, 5*time.Second)
		if l.nodes[p].record().Founding {
			t.Error("it is still founding; want the end of that, as all have a copy")
		}
	})
}

func TestServerCrash(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		begun := time.Now()
		l.crash(p)
		next := l.primary(p)
		t.Logf("%s after %v", l.nodes[next].s.ID, time.Since(begun))
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v; want less than 1s", took)
		}
		l.verify(next)
		l.settled(next)
	})
}

func TestShutdown(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		l.stop(p)
		next := l.primary(p)
		l.verify(next)
		l.write(next, 5)
		entries := l.nodes[p].s.Nodes
		l.start(p, entries)
		l.settled(next)
		if slices.Contains(l.dbs[p].ops, "rewind") || slices.Contains(l.dbs[p].ops, "rebuild") {
			t.Errorf("%v; want that it follows without a copy", l.dbs[p].ops)
		}
	})
}

func TestCutOff(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		l.isolate(p)
		next := l.primary(p)
		if l.writes(p) {
			t.Error("the old primary runs; want it stopped before its lease ended")
		}
		l.verify(next)
		l.write(next, 5)
		l.heal(p)
		l.settled(next)
		if !slices.Contains(l.dbs[p].ops, "rewind") {
			t.Errorf("%v; want a rewind, as its WAL has diverged", l.dbs[p].ops)
		}
	})
}

func TestRewindFails(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		l.mu.Lock()
		l.dbs[p].broken = true
		l.mu.Unlock()
		l.isolate(p)
		next := l.primary(p)
		l.heal(p)
		l.settled(next)
		if !slices.Contains(l.dbs[p].ops, "rebuild") {
			t.Errorf("%v; want a rebuild after the rewind", l.dbs[p].ops)
		}
	})
}

// A server that does not start is copied anew, unless the reason is not in its data.
func TestRefusesToStart(t *testing.T) {
	for _, c := range []struct {
		err    error
		copies bool
	}{{errors.New("no valid checkpoint"), true}, {fmt.Errorf("no such parameter: %w", server.ErrElsewhere), false}} {
		inBubble(t, 3, func(t *testing.T, l *lab, p int) {
			i := (p + 1) % 3
			l.mu.Lock()
			l.dbs[i].refuses, l.dbs[i].ops = c.err, nil
			l.mu.Unlock()
			l.crash(i)
			pause(l.ctx, 3*stuckTime)
			l.mu.Lock()
			copied := slices.Contains(l.dbs[i].ops, "rebuild")
			l.dbs[i].refuses = nil
			l.mu.Unlock()
			if copied != c.copies {
				t.Errorf("%v: copied: %v; want %v", c.err, copied, c.copies)
			}
			l.settled(p)
		})
	}
}

func TestSwitchover(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		to := (p + 1) % 3
		begun := time.Now()
		if err := l.nodes[p].handOver(l.ctx, l.nodes[to].s.ID); err != nil {
			t.Fatal(err)
		}
		if next := l.primary(p); next != to {
			t.Fatalf("%s is the primary; want %s", l.nodes[next].s.ID, l.nodes[to].s.ID)
		}
		t.Logf("it took %v", time.Since(begun))
		l.verify(to)
		l.settled(to)
		if slices.Contains(l.dbs[p].ops, "rewind") || slices.Contains(l.dbs[p].ops, "rebuild") {
			t.Errorf("%v; want that it follows without a copy", l.dbs[p].ops)
		}
		if err := l.nodes[p].handOver(l.ctx, ""); err == nil {
			t.Error("a replica has handed over; want an error")
		}
		if err := l.nodes[to].handOver(l.ctx, "n9"); err == nil || !strings.Contains(err.Error(), "want one of the others") {
			t.Errorf("%v; want that n9 is refused", err)
		}
	})
}

// Where the election cannot hand over by name, the primary ends in order, and rests while others stand.
func TestSwitchoverWithoutTransfer(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, _ int) {
		l.modest = true
		entries := l.nodes[0].s.Nodes
		for i := range l.nodes {
			l.stop(i)
		}
		for i := range l.nodes {
			l.start(i, entries)
		}
		p := l.primary()
		l.settled(p)
		if err := l.nodes[p].handOver(l.ctx, l.nodes[(p+1)%3].s.ID); err == nil || !strings.Contains(err.Error(), "want a switchover to any") {
			t.Errorf("to a node by name: %v; want that it is refused", err)
		}
		l.dbs[p].ends = 8 * time.Second // less than grace
		before := len(l.dbs[p].ops)
		if err := l.nodes[p].handOver(l.ctx, ""); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		next := l.primary(p)
		if took := time.Since(begun) - l.dbs[p].ends; took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		l.verify(next)
		l.settled(next)
		if ops := l.dbs[p].ops[before:]; slices.Contains(ops, "rewind") || slices.Contains(ops, "rebuild") {
			t.Errorf("%v; want that it follows without a copy", ops)
		}
	})
}

func TestLostState(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		i := (p + 1) % 3
		l.stop(i)
		l.keeps[i].of = saved{}
		l.start(i, l.nodes[p].s.Nodes)
		l.settled(p)
		if !slices.Contains(l.dbs[i].ops, "rebuild") {
			t.Errorf("%v; want a rebuild, as nobody knows of what its data is", l.dbs[i].ops)
		}
	})
}

func TestIllPrimary(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		_ = l.dbs[p].with("", func(*pg) error { l.dbs[p].probe = errors.New("no space left on device"); return nil })
		next := l.primary(p)
		l.verify(next)
	})
}

// TestFrozenPrimary: a postmaster that is stopped by a signal for a moment is left alone, and one that stays so gives way.
func TestFrozenPrimary(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		freeze := func(on bool) { _ = l.dbs[p].with("", func(*pg) error { l.dbs[p].frozen = on; return nil }) }
		freeze(true)
		pause(l.ctx, frozenTime-glanceTime-time.Millisecond) // it counts from the look before the stop
		freeze(false)
		pause(l.ctx, 5*time.Second)
		if l.nodes[p].isPrimary() != nil {
			t.Fatal("it gave way after a moment; want it to stay")
		}
		begun := time.Now()
		freeze(true)
		next := l.primary(p)
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("it took %v; want less than 2s", took)
		}
		freeze(false)
		l.verify(next)
		l.settled(next)
	})
}

func TestPause(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		for _, n := range l.nodes {
			if err := n.pause(true); err != nil {
				t.Fatal(err)
			}
		}
		pause(l.ctx, 2*time.Second)
		if l.nodes[p].isPrimary() != nil {
			t.Error("the primary has demoted; want it to stay")
		}
		l.crash(p)
		pause(l.ctx, time.Minute)
		for i, n := range l.nodes {
			if n.isPrimary() == nil {
				t.Errorf("%s was promoted; want nobody", l.nodes[i].s.ID)
			}
			if err := n.pause(false); err != nil {
				t.Fatal(err)
			}
		}
		l.verify(l.primary())
	})
}

// TestCount restarts a node that would count otherwise than the others have: it could be promoted alone, without what the
// other two have acknowledged.
func TestCount(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		i := (p + 1) % 3
		l.stop(i)
		l.write(p, 5)
		for _, change := range []func(*Settings){func(s *Settings) { s.Confirm = 2 }, func(s *Settings) { s.Nodes = s.Nodes[:2] }} {
			s := *l.nodes[i].s
			change(&s)
			_, err := newNode(&s, l.dbs[i], l.keeps[i], l.nodes[i].others, l.log)
			if err == nil || !strings.Contains(err.Error(), "was made with 1 of n1, n2, n3; want that") {
				t.Errorf("%v; want that a node which counts otherwise does not start", err)
			}
		}
		l.start(i, l.nodes[p].s.Nodes)
		l.settled(p)
	})
}

// TestStranger has a node of another cluster win the election, as two clusters with one name at one place do.
func TestStranger(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		n := l.nodes[(p+1)%3]
		n.mu.Lock()
		n.leader = "m1"
		n.mu.Unlock()
		if _, err := n.turn(l.ctx); err == nil || !strings.Contains(err.Error(), `"m1" leads, and is none of nodes`) {
			t.Errorf("%v; want that the leader is none of nodes", err)
		}
	})
}

// TestTwoAway has too few nodes for a promotion: nobody is promoted, until one more answers.
func TestTwoAway(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		a, b := (p+1)%3, (p+2)%3
		l.stop(a)
		l.stop(p)
		pause(l.ctx, time.Minute)
		if l.nodes[b].isPrimary() == nil {
			t.Error("one of three nodes was promoted; want it to wait")
		}
		l.start(a, l.nodes[b].s.Nodes)
		next := l.primary(p)
		l.verify(next)
	})
}

// isolate cuts a primary off, and writes what nobody confirms.
func (l *lab) isolate(p int) {
	l.mu.Lock()
	for i := range l.nodes {
		l.cut[[2]int{i, p}], l.cut[[2]int{p, i}] = true, true
	}
	l.mu.Unlock()
	l.electors[p].Cut(true)
	go func() { _ = l.dbs[p].write(l.ctx) }()
}

// heal ends that.
func (l *lab) heal(p int) {
	l.mu.Lock()
	clear(l.cut)
	l.mu.Unlock()
	l.electors[p].Cut(false)
}

// writes reports whether a server runs as a primary.
func (l *lab) writes(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers[i].up && l.servers[i].primary
}

// follows reports whether a server has another one to stream from.
func (l *lab) follows(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers[i].from >= 0 || l.servers[i].stream
}

// TestPromise is what keeps an older primary from getting anything confirmed.
func TestPromise(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *lab, p int) {
		next, token := (p+1)%3, l.nodes[p].record().Followed
		a, err := l.nodes[next].promise(l.ctx, token+1)
		if err != nil || !a.Whole {
			t.Fatalf("%+v, %v; want the answer of a whole node", a, err)
		}
		if l.follows(next) {
			t.Error("it streams after it has promised; want it detached")
		}
		if _, err := l.nodes[next].promise(l.ctx, token); err == nil {
			t.Error("it has answered an older leader; want a refusal")
		}
		l.stop(next)
		l.start(next, l.nodes[p].s.Nodes)
		if _, err := l.nodes[next].promise(l.ctx, token); err == nil {
			t.Error("it has answered an older leader after a restart; want a refusal")
		}
		pause(l.ctx, 10*time.Second)
		if l.follows(next) {
			t.Error("it streams from the older leader again; want it to wait for a newer one")
		}
	})
}
