package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
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
	deaf     map[int]bool // no other server reaches this one, and its node they do
	n        int
	acked    []row
	ctx      context.Context
}

// fake is a database.
type fake struct {
	l      *lab
	i      int
	done   chan struct{}
	slow   time.Duration // of a copy
	probe  error
	frozen bool
	ops    []string
	broken bool // pg_rewind fails
	// refuses is why no standby starts.
	refuses error
	replay  time.Duration // of a promotion; below 0 its recovery hangs
	ticks   int           // of that
}

type memoryKeeper struct {
	mu sync.Mutex
	of saved
}

func (k *memoryKeeper) load() (saved, error) { k.mu.Lock(); defer k.mu.Unlock(); return k.of, nil }
func (k *memoryKeeper) save(s saved) error   { k.mu.Lock(); defer k.mu.Unlock(); k.of = s; return nil }

// with runs f on the server under the lock of the lab.
func (f *fake) with(op string, do func(s *pg) error) error {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if op != "" {
		f.ops = append(f.ops, op)
	}
	return do(f.l.servers[f.i])
}

func (f *fake) Empty() (empty bool, err error) {
	err = f.with("", func(s *pg) error { empty = s.system == 0; return nil })
	return empty, err
}

func (f *fake) Init(ctx context.Context) error {
	pause(ctx, time.Second)
	return f.with("init", func(s *pg) error {
		*s = pg{system: 77, path: []fork{{1, 0}}, files: map[uint32][]fork{}, from: -1, weak: -1, acks: map[int]uint64{}}
		return ctx.Err()
	})
}

func (f *fake) begin(s *pg) {
	if !s.up {
		f.done = make(chan struct{})
	}
	s.up = true
}

func (f *fake) end(s *pg) {
	if s.up {
		close(f.done)
	}
	s.up, s.stream = false, false
}

func (f *fake) StartPrimary(_ context.Context, token uint64) error {
	return f.with("start primary", func(s *pg) error {
		f.begin(s)
		s.primary, s.names = true, token
		return nil
	})
}

func (f *fake) to(s *pg, from *server.Upstream) {
	s.from, s.stream = -1, false
	if from == nil {
		return
	}
	i := slices.IndexFunc(f.l.nodes, func(n *Node) bool { return n.s.ID == from.ID })
	s.from, s.as = i, from.Token
	s.clean(f.l.servers[i].path)
}

func (f *fake) StartStandby(_ context.Context, from *server.Upstream) error {
	return f.with("start standby", func(s *pg) error {
		if f.refuses != nil {
			return f.refuses
		}
		f.begin(s)
		s.primary = false
		f.to(s, from)
		return nil
	})
}

func (f *fake) Running() (up bool) {
	_ = f.with("", func(s *pg) error { up = s.up; return nil })
	return up
}

func (f *fake) Done() <-chan struct{} {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.done
}

func (f *fake) Stop(_ context.Context, mode server.Mode) error {
	return f.with(fmt.Sprintf("stop %d", mode), func(s *pg) error {
		if s.up && s.primary && mode == server.Fast { // the replicas get all, and the checkpoint
			f.l.n++
			s.log = append(s.log, row{s.names, -f.l.n})
			for j, o := range f.l.servers {
				for o.stream && o.from == f.i && len(o.log) < len(s.log) {
					flow(f.l.servers, j, true)
				}
			}
		}
		f.end(s)
		return nil
	})
}

func (f *fake) Follow(_ context.Context, from server.Upstream) error {
	return f.with("follow", func(s *pg) error {
		if !s.up || s.primary {
			return errors.New("no standby runs")
		}
		f.to(s, &from)
		return nil
	})
}

func (f *fake) Detach(context.Context) (p server.Position, err error) {
	err = f.with("detach", func(s *pg) error {
		if s.up && s.primary {
			return errors.New("it is a primary")
		}
		s.from, s.stream = -1, false
		p = s.position()
		return nil
	})
	return p, err
}

func (f *fake) Position(context.Context) (p server.Position, err error) {
	err = f.with("", func(s *pg) error { p = s.position(); return nil })
	return p, err
}

func (f *fake) Promote(ctx context.Context, token uint64) (p server.Position, err error) {
	for begun := time.Now(); ctx.Err() == nil; pause(ctx, time.Second) {
		if f.with("", func(*pg) error {
			if f.replay >= 0 && time.Since(begun) >= f.replay {
				return errors.New("it has replayed all")
			}
			if f.replay > 0 || f.ticks == 0 {
				f.ticks++
			}
			return nil
		}) != nil {
			break
		}
	}
	err = f.with("promote", func(s *pg) error {
		f.ticks = 0
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !s.up || s.primary || s.from >= 0 {
			return errors.New("no standby of nobody runs")
		}
		s.promote(token)
		p = s.position()
		return nil
	})
	return p, err
}

func (f *fake) write(ctx context.Context) error {
	at := -1
	var token uint64
	err := f.with("", func(s *pg) error {
		if !s.up || !s.primary {
			return errors.New("not a primary")
		}
		f.l.n++
		token, at = s.names, len(s.log)
		s.log = append(s.log, row{s.names, f.l.n})
		return nil
	})
	for err == nil {
		ok := false
		err = f.with("", func(s *pg) error {
			if !s.up || !s.primary || s.names != token {
				return errors.New("the server has ended")
			}
			all := slices.Sorted(maps.Values(s.acks))
			k := f.l.nodes[f.i].s.Confirm
			if ok = len(all) >= k && all[len(all)-k] > uint64(at); ok {
				f.l.acked = append(f.l.acked, s.log[at])
			}
			return nil
		})
		if ok {
			return nil
		}
		if pause(ctx, 5*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return err
}

func (f *fake) Mark(ctx context.Context, _ uint64, _ string, _ uint32) error { return f.write(ctx) }

func (f *fake) Slots(context.Context, []string) error { return nil }

func (f *fake) Flushed(_ context.Context, id string) (lsn uint64, err error) {
	err = f.with("", func(s *pg) error {
		if !s.up {
			return errors.New("it does not run")
		}
		i := slices.IndexFunc(f.l.nodes, func(n *Node) bool { return n.s.ID == id })
		if o := f.l.servers[i]; o.stream && o.from == f.i {
			lsn = s.acks[i]
		}
		return nil
	})
	return lsn, err
}

func (f *fake) Checkpoint(context.Context) error { return nil }

func (f *fake) Rewind(_ context.Context, from server.Upstream, change func() error) error {
	if err := f.with("", func(*pg) error { _, err := f.source(from); return err }); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return f.with("rewind", func(s *pg) error {
		if f.broken {
			return errors.New("pg_rewind has failed")
		}
		return f.from(s, from)
	})
}

// source is the server that others copy from.
func (f *fake) source(from server.Upstream) (*pg, error) {
	i := slices.IndexFunc(f.l.nodes, func(n *Node) bool { return n.s.ID == from.ID })
	if o := f.l.servers[i]; o.up && !f.l.deaf[i] && !f.l.cut[[2]int{f.i, i}] {
		return o, nil
	}
	return nil, errors.New("the primary does not answer")
}

func (f *fake) from(s *pg, from server.Upstream) error {
	o, err := f.source(from)
	if err != nil {
		return err
	}
	s.copyOf(o)
	return nil
}

func (f *fake) Rebuild(ctx context.Context, from server.Upstream, replace func() error) error {
	pause(ctx, f.slow)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.with("", func(*pg) error { _, err := f.source(from); return err }); err != nil {
		return err
	}
	if err := replace(); err != nil {
		return err
	}
	return f.with("rebuild", func(s *pg) error { return f.from(s, from) })
}

func (f *fake) Reload(context.Context, server.Config) ([]string, error) { return nil, nil }

func (f *fake) Stopped() (stopped bool) {
	_ = f.with("", func(s *pg) error { stopped = f.frozen && s.up; return nil })
	return stopped
}

func (f *fake) Recovery() (ticks int) {
	_ = f.with("", func(*pg) error { ticks = f.ticks; return nil })
	return ticks
}

func (f *fake) Probe(ctx context.Context) (err error) {
	_ = f.with("", func(*pg) error { err = f.probe; return nil })
	return err
}

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
	if n.election, err = elect.New(elector, elect.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
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
