//go:build linux

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
)

// The times of the elections under test.
const (
	promise = 500 * time.Millisecond

	// patient is how long anything may take, on a busy computer.
	patient = 30 * time.Second
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	t.Cleanup(cancel)
	return ctx
}

// rig is a cluster under test, and its events.
type rig struct {
	*Cluster
	t *testing.T

	mu     sync.Mutex
	events []judge.Event
}

// kinds are all kinds.
func kinds() []Kind { return []Kind{Command, Library, Guarded} }

func kind(i int) Kind { return kinds()[i%3] }

// TestCluster runs clusters of real processes, all of the same programs.
func TestCluster(t *testing.T) {
	long.Test(t, "it breaks a cluster of real processes")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	programs, err := Build(ctx, t.TempDir(), "chaos")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		alone bool // others would notice what it does to the computer
		run   func(*testing.T, Programs)
	}{
		{"starve", true, starve}, {"starve without groups", true, starveWithout}, {"sweep", true, sweeps},
		{"parts of a command", false, func(t *testing.T, p Programs) { parts(t, p, Command) }},
		{"parts of a library", false, func(t *testing.T, p Programs) { parts(t, p, Library) }},
		{"parts of a guarded", false, func(t *testing.T, p Programs) { parts(t, p, Guarded) }},
		{"twins", false, twins}, {"restarts", false, restarts}, {"joins", false, joins}, {"usage", false, usages},
		{"file", false, files}, {"namespaces", false, namespaces}, {"skew", false, skewed}, {"close", false, closes}, {"refusals", false, refusals},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.alone {
				t.Parallel()
			}
			test.run(t, programs)
		})
	}
}

// newRig makes a cluster, which is closed at the end of the test. If that fails, the output of its
// nodes is shown.
func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s := &rig{t: t}
	cfg.Promise = cmp.Or(cfg.Promise, promise)
	cfg.Heartbeat = cfg.Promise / 10
	cfg.Observe = func(e judge.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}
	var err error
	if s.Cluster, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			s.logs()
		}
	})
	return s
}

// peers is a rig of that many nodes on a network of proxies.
func newPeers(t *testing.T, cfg Config) *rig {
	t.Helper()
	cfg.Dir = t.TempDir()
	n, err := network.NewProxies(cfg.Dir, max(cfg.Voters, cfg.Size))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg.Network = n
	return newRig(t, cfg)
}

func (s *rig) logs() {
	all, _ := filepath.Glob(filepath.Join(s.cfg.Dir, "log", "*"))
	for _, path := range all {
		text, _ := os.ReadFile(path)
		s.t.Logf("%s:\n%s", filepath.Base(path), text[max(0, len(text)-3000):])
	}
}

// start starts all nodes and waits for calm.
func (s *rig) start() Leader {
	s.t.Helper()
	for i := range s.cfg.Voters {
		s.must(s.Start(i))
	}
	return s.calm()
}

func (s *rig) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *rig) calm() Leader {
	s.t.Helper()
	l, err := s.Calm(within(s.t))
	s.must(err)
	return l
}

func (s *rig) after(l Leader) Leader {
	s.t.Helper()
	next, err := s.After(within(s.t), l.Token)
	s.must(err)
	return next
}

// lead makes node i lead. On a busy computer the leader may change meanwhile for another reason;
// then it tries again.
func (s *rig) lead(i int) Leader {
	s.t.Helper()
	ctx := within(s.t)
	for {
		l, err := s.Calm(ctx)
		s.must(err)
		if l.Node == i {
			return l
		}
		if _, err := s.Operator(ctx, "transfer", "--to", s.ID(i)); err != nil {
			s.t.Log(err)
		}
	}
}

// operate runs elect until it succeeds.
func (s *rig) operate(args ...string) {
	s.t.Helper()
	for ctx := within(s.t); ; {
		_, err := s.Operator(ctx, args...)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatal(err)
		}
		s.t.Log(err)
	}
}

// gone waits until a process has ended, or its id belongs to another one.
func (s *rig) gone(pid int) {
	s.t.Helper()
	ctx := within(s.t)
	for {
		p := hold(pid)
		if p == nil {
			return
		}
		env, err := environ(pid)
		ours := err == nil && value(env, clusterEnv) == s.mark
		p.ended(5 * time.Millisecond)
		p.close()
		if !ours {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("process %d has not ended: %s", pid, s.Census())
		}
	}
}

// again waits until node i has another process than old.
func (s *rig) again(i, old int) {
	s.t.Helper()
	ctx := within(s.t)
	for s.Pid(i) == 0 || s.Pid(i) == old {
		select {
		case <-time.After(glance):
		case <-ctx.Done():
			s.t.Fatalf("%s is not started again: %s", s.ID(i), s.Census())
		}
	}
}

// told counts the events of a node.
func (s *rig) told(kind judge.Kind, node int) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == kind && e.Node == node {
			n++
		}
	}
	return n
}

// parts kills and freezes each part of a node of that kind while it leads.
func parts(t *testing.T, programs Programs, kind Kind) {
	s := newPeers(t, Config{Programs: programs, Voters: 3, Kind: func(i int) Kind { return kinds()[(int(kind)+i)%3] }})
	s.start()
	const i = 0
	for _, part := range []Part{Node, Keeper, Child, Voter, Family} {
		t.Run(fmt.Sprint("kill ", part), func(t *testing.T) {
			s.t = t
			l := s.lead(i)
			if kind == Library && (part == Keeper || part == Child) {
				if err := s.Kill(i, part); !errors.Is(err, ErrNone) {
					t.Errorf("%v; want %v", err, ErrNone)
				}
				return
			}
			starts := s.told(judge.Start, i)
			err := s.Kill(i, part)
			for ctx := within(t); errors.Is(err, ErrNone) && ctx.Err() == nil; { // it leads no more
				l = s.lead(i)
				err = s.Kill(i, part)
			}
			s.must(err)
			next := s.after(l)
			var victim int
			switch {
			case part == Keeper:
				victim = l.Pids.Keeper
			case part == Child || part == Voter && kind == Guarded:
				victim = l.Pids.Child
			default:
				victim = l.Pids.Node
			}
			s.gone(victim)
			now := s.calm()
			if again := s.told(judge.Start, i) > starts; again != (now.Node == i && now.Pids.Node != l.Pids.Node || s.Pid(i) != l.Pids.Node) {
				t.Errorf("started again: %v; it was process %d and is %d", again, l.Pids.Node, s.Pid(i))
			}
			t.Logf("%s led, then %s", s.ID(l.Node), s.ID(next.Node))
		})
	}
	t.Run("freeze voter", func(t *testing.T) {
		s.t = t
		l := s.lead(i)
		s.must(s.Stop(i, Voter))
		if !s.Frozen(i) {
			t.Error("it is not frozen")
		}
		next := s.after(l)
		if next.Node == i {
			t.Errorf("%s leads, which is frozen", s.ID(i))
		}
		// The keeper has killed the process of a guarded node, so it has ended, or has been
		// replaced by now.
		if err := s.Cont(i, Voter); kind != Guarded || !errors.Is(err, ErrNone) {
			s.must(err)
		}
		s.calm()
		if s.Frozen(i) {
			t.Error("it is frozen yet")
		}
	})
	t.Run("freeze family", func(t *testing.T) {
		s.t = t
		l := s.lead(i)
		s.must(s.Stop(i, Family))
		all, err := s.grasp(i, Family)
		s.must(err)
		for _, p := range all {
			if !p.still() {
				t.Errorf("not frozen: %s", p.describe())
			}
		}
		if want := map[Kind]int{Command: 4, Library: 1, Guarded: 4}[kind]; len(all) < want {
			t.Errorf("%d processes; want at least %d", len(all), want)
		}
		closeAll(all)
		next := s.after(l)
		if next.Node == i {
			t.Errorf("%s leads, which is frozen", s.ID(i))
		}
		s.must(s.Cont(i, Family))
		s.calm()
	})
	if kind == Command {
		t.Run("freeze keeper", func(t *testing.T) {
			s.t = t
			s.lead(i)
			s.must(s.Stop(i, Keeper)) // its node continues it
			s.calm()
			if s.Frozen(i) {
				t.Error("it counts as frozen")
			}
			s.must(s.Cont(i, Keeper))
			s.calm()
		})
	}
	// A guarded node may end before, which is enough.
	stops, conts := s.told(judge.Stop, i), s.told(judge.Cont, i)
	if thaws := s.told(judge.Thaw, i); thaws < conts {
		t.Errorf("%d times continued, and %d times said so before it was done", conts, thaws)
	}
	if want := map[Kind]int{Command: 2, Library: 2, Guarded: 2}[kind]; stops != want || conts != want && (kind != Guarded || conts != want-1) {
		t.Errorf("%d times stopped, %d times continued; want %d", stops, conts, want)
	}
}

// restarts tests nodes that stay down, are held, and are upgraded.
func restarts(t *testing.T, programs Programs) {
	next := Programs{Elect: filepath.Join(t.TempDir(), "elect"), Worker: programs.Worker}
	if err := os.Link(programs.Elect, next.Elect); err != nil {
		t.Fatal(err)
	}
	s := newPeers(t, Config{Programs: programs, Next: &next, Voters: 3})
	l := s.start()
	i := (l.Node + 1) % 3

	s.Hold(i)
	pid := s.Pid(i)
	s.must(s.Kill(i, Family))
	s.gone(pid)
	if l := s.calm(); s.Up(i) || l.Node == i {
		t.Errorf("%s is up, or leads: it is held", s.ID(i))
	}
	s.must(s.Release(i))
	if s.calm(); !s.Up(i) {
		t.Errorf("%s is not up", s.ID(i))
	}

	pid = s.Pid(i)
	s.must(s.Down(i))
	if s.Up(i) {
		t.Errorf("%s is up", s.ID(i))
	}
	s.gone(pid)
	s.must(s.Upgrade(i, true))
	s.must(s.Start(i))
	s.calm()
	if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.Pid(i))); !strings.HasPrefix(string(args), next.Elect+"\x00") {
		t.Errorf("%s runs %q; want %s", s.ID(i), args, next.Elect)
	}
	s.must(s.Upgrade(i, false))
	pid = s.Pid(i)
	s.must(s.Kill(i, Node))
	s.again(i, pid)
	s.calm()
	if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.Pid(i))); !strings.HasPrefix(string(args), programs.Elect+"\x00") {
		t.Errorf("%s runs %q; want %s", s.ID(i), args, programs.Elect)
	}
	if starts, ends := s.told(judge.Start, i), s.told(judge.End, i); starts != 4 || ends != 3 {
		t.Errorf("%d starts and %d ends were told; want 4 and 3", starts, ends)
	}
	if len(s.Flight(i)) == 0 {
		t.Error("there is no flight recorder")
	}

	// All at once, as in a power failure.
	for i := range 3 {
		s.Hold(i)
	}
	for i := range 3 {
		s.must(s.Kill(i, Family))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if l, err := s.Leader(ctx); err == nil {
		t.Errorf("%s leads: all are dead", s.ID(l.Node))
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for i := range 3 {
		s.must(s.Release(i))
	}
	s.calm()
}

// twins tests second processes with the id of a node.
func twins(t *testing.T, programs Programs) {
	// Long enough that a busy computer, on which ten processes start, deposes no leader.
	s := newPeers(t, Config{Programs: programs, Voters: 3, Kind: kind, Promise: 20 * promise})
	l := s.start()
	type twin struct {
		*Twin
		elsewhere bool
	}
	var all []twin
	for i := range kinds() {
		for _, elsewhere := range []bool{false, true} {
			one, err := s.Twin(i, elsewhere)
			s.must(err)
			all = append(all, twin{one, elsewhere})
		}
	}
	for _, one := range all {
		words, err := one.Refused(within(t))
		if err != nil {
			t.Errorf("elsewhere: %v: %v", one.elsewhere, err)
		}
		if want := map[bool]string{false: "exit status 69", true: "two processes use one id"}[one.elsewhere]; !strings.Contains(words, want) {
			t.Errorf("%s, elsewhere: %v, says %q; want %q", one.name, one.elsewhere, words, want)
		}
	}
	if now := s.calm(); now.Token != l.Token {
		t.Errorf("%s leads with token %d; want %d: the twins have disturbed it", s.ID(now.Node), now.Token, l.Token)
	}
	// The first process dies, and its twin remains.
	i := (l.Node + 1) % 3
	s.Hold(i)
	s.must(s.Kill(i, Family))
	one := all[2*i+1]
	if words, err := one.Wait(within(t)); err != nil || !strings.Contains(words, "exit status 69") {
		t.Errorf("%v %q: want that the others know it by another directory", err, words)
	}
	s.must(s.Release(i))
	s.calm()
	for _, one := range all {
		s.must(one.End())
	}
}

// joins adds and removes a fourth node.
func joins(t *testing.T, programs Programs) {
	s := newPeers(t, Config{Programs: programs, Voters: 3, Size: 4, Promise: 2 * promise})
	s.start()
	s.must(s.Start(3))
	s.calm() // without it
	s.operate("member", "add", s.ID(3)+"@"+s.Addr(3))
	s.calm()
	s.lead(3)
	m, err := s.Members(within(t))
	s.must(err)
	if m.Leader != 3 || len(m.Membership.Voters) != 4 || slices.Contains(m.Nodes, nil) {
		t.Errorf("%+v", m)
	}
	if _, err := s.Operator(within(t), "transfer", "--to", "n9"); err == nil || !strings.Contains(err.Error(), "n9") {
		t.Errorf("%v; want that there is no n9", err)
	}
	s.lead(0)
	s.operate("member", "remove", s.ID(3))
	s.calm()
}

// usages measures each kind of node.
func usages(t *testing.T, programs Programs) {
	s := newPeers(t, Config{Programs: programs, Voters: 3, Kind: kind})
	s.start()
	for i, kind := range kinds() {
		u, err := s.Usage(i)
		s.must(err)
		if u.Pid == 0 || u.FDs < 5 || u.FDs > 200 || u.Threads < 2 || u.Threads > 100 || u.RSS < 1<<20 || u.RSS > 1<<30 {
			t.Errorf("%v: %+v", kind, u)
		}
		if (u.Goroutines > 5) == (kind == Command) {
			t.Errorf("%v has %d goroutines", kind, u.Goroutines)
		}
		t.Logf("%v: %+v", kind, u)
	}
}

// files tests candidates of all kinds on one computer, and kills the leader.
func files(t *testing.T, programs Programs) {
	s := newRig(t, Config{Programs: programs, Election: File, Voters: 5, Kind: kind})
	l := s.start()
	led := map[int]bool{}
	for round := range 10 {
		part := []Part{Node, Keeper, Child, Voter, Family}[round%5]
		led[l.Node] = true
		if err := s.Kill(l.Node, part); errors.Is(err, ErrNone) && s.cfg.kind(l.Node) == Library {
			s.must(s.Kill(l.Node, Node))
		} else {
			s.must(err)
		}
		l = s.after(l)
		s.calm()
	}
	if len(led) < 2 {
		t.Errorf("only %v have led", led)
	}
	if _, err := s.Twin(0, false); err == nil {
		t.Error("there is a twin in a file election")
	}
	// The leader dies while its keeper is frozen. Both are in one process group without a
	// controlling process then, so the kernel continues the stopped ones.
	for s.cfg.kind(l.Node) != Command {
		s.must(s.Kill(l.Node, Node))
		l = s.after(l)
	}
	s.must(s.Stop(l.Node, Node))
	s.must(s.Stop(l.Node, Keeper))
	if !stopped(l.Pids.Keeper) {
		t.Errorf("process %d, a keeper, goes on, and its node is frozen", l.Pids.Keeper)
	}
	s.must(s.Kill(l.Node, Node))
	s.after(l)
	s.calm()
}
