package peer

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// nowhere is a listener that no node calls.
type nowhere struct{}

func (nowhere) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func TestAloneVoter(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		n := v.open("n1")
		var last fence.Token
		for range 3 {
			m := win(t, n)
			if m.Token() <= last {
				t.Errorf("token %v after %v", m.Token(), last)
			}
			last = m.Token()
			if left, bounded := m.Remaining(); !bounded || left <= 0 || left > n.Limits().Lease {
				t.Errorf("Remaining is %v, %v", left, bounded)
			}
			if err := m.(driver.Confirmer).Confirm(t.Context()); err != nil {
				t.Errorf("Confirm: %v", err)
			}
			release(t, m)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		n = v.open("n1")
		m := win(t, n)
		if m.Token() <= last {
			t.Errorf("token %v after %v and a restart", m.Token(), last)
		}
		release(t, m)
	})
}

func TestEra(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		cfg := v.config("n1")
		cfg.Era = 7
		n, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		m := win(t, n)
		if m.Token().Era() != 7 || m.Token().Count() != 1 {
			t.Errorf("token %v; want era 7 and count 1", m.Token())
		}
		if s := sees(t, n, "itself", leads(m)); s.Leader.ID != "n1" {
			t.Errorf("it sees %+v", s)
		}
		release(t, m)
	})
}

// TestThree: metadata and the time of the election reach all nodes, and after a release another leads at once.
func TestThree(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.obs = names("o", 2)
		nodes := v.openAll()
		before := time.Now()
		want := map[string]string{"address": "10.0.0.1:80", "text": "größe\n"}
		m, err := nodes[1].Campaign(t.Context(), driver.Candidacy{Exclusive: true, Metadata: want})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			s := sees(t, n, "the leader", leads(m))
			if s.Leader.ID != "n2" || !maps.Equal(s.Leader.Metadata, want) || s.Leader.Since.Before(before) || s.Leader.Since.After(time.Now()) {
				t.Errorf("%s sees %+v", n.cfg.ID, s.Leader)
			}
		}
		next := campaign(t.Context(), nodes[0])
		<-time.After(time.Second) // the leader has learnt who stands
		start := time.Now()
		release(t, m)
		o := within(t, next, "the next leader")
		if o.err != nil {
			t.Fatal(o.err)
		}
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Errorf("after a release it took %v until another was active", took)
		}
		if o.m.Token() <= m.Token() {
			t.Errorf("token %v after %v", o.m.Token(), m.Token())
		}
		release(t, o.m)
		for _, n := range nodes {
			sees(t, n, "that nobody leads", func(s driver.State) bool { return s.Leader == nil && !s.Stale })
		}
		<-time.After(time.Second)
		events, err := nodes[0].leaders.history()
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range events {
			told = append(told, e.Event+" "+string(e.Leader)+" "+e.Token.String()+" "+e.Reason)
		}
		if want := []string{"follows n2 1 ", "elected n1 2 ", "active n1 2 ", "lost n1 2 resigned: released"}; !slices.Equal(told, want) {
			t.Errorf("the history is %q; want %q", told, want)
		}
	})
}

func TestCutOffLeader(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		next := campaign(t.Context(), nodes[1])
		v.isolate("n1", true)
		start := time.Now()
		<-m.Context().Done()
		if took := time.Since(start); took > nodes[0].plan.Lease {
			t.Errorf("it was told after %v; the lease is %v", took, nodes[0].plan.Lease)
		}
		if cause := context.Cause(m.Context()); !errors.Is(cause, driver.ErrExpired) || m.Check() == nil {
			t.Errorf("it ended with %v, Check is %v", cause, m.Check())
		}
		o := within(t, next, "the next leader")
		if took := time.Since(start); took > nodes[0].plan.WorstTakeover {
			t.Errorf("another was active after %v; want within %v", took, nodes[0].plan.WorstTakeover)
		}
		s := sees(t, nodes[0], "that it is cut off", func(s driver.State) bool { return s.Stale })
		if s.Cause == nil || !errors.Is(s.Cause, driver.ErrUnreachable) || s.Leader == nil || s.Leader.Token != m.Token() {
			t.Errorf("cut off it sees %+v", s)
		}
		v.isolate("n1", false)
		if s := sees(t, nodes[0], "something fresh", func(s driver.State) bool { return !s.Stale }); !leads(o.m)(s) {
			t.Errorf("the first thing it sees afterwards is %+v; want the leader with token %v", s, o.m.Token())
		}
		release(t, m)
		release(t, o.m)
	})
}

// TestClockJump: a leader whose machine slept has lost its lease by its own
// Check, before anything else tells it.
func TestClockJump(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		v.sleeps("n1", 10*time.Millisecond)
		if left, _ := m.Remaining(); left != 0 {
			t.Errorf("Remaining is %v after a jump", left)
		}
		if err := m.Check(); !errors.Is(err, driver.ErrExpired) || !strings.Contains(err.Error(), "slept") {
			t.Errorf("Check is %v after a jump", err)
		}
		if m.Context().Err() == nil {
			t.Error("its context goes on")
		}
		<-time.After(5 * time.Second)
		if m.Check() == nil {
			t.Error("it was proven again")
		}
		if c := nodes[0].Status().Counters; c.ClockJumps != 1 {
			t.Errorf("%d jumps were counted; want 1", c.ClockJumps)
		}
		release(t, m)
		release(t, win(t, nodes[2]))
	})
}

// TestNotExclusive: a mandate that need not be exclusive begins with the election, while promises to the previous
// leader are live.
func TestNotExclusive(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		v.isolate("n1", true)
		_ = nodes[0].Close() // its connections do not tell
		v.isolate("n1", false)
		<-time.After(nodes[1].plan.Promise / 2)
		v.open("n1") // it has restarted, and owes what it may have promised
		n, err := nodes[1].Campaign(t.Context(), driver.Candidacy{})
		if err != nil {
			t.Fatal(err)
		}
		early := n.Check()
		if early != nil && !errors.Is(early, driver.ErrNotExclusive) {
			t.Errorf("Check of one that was elected is %v", early)
		}
		<-time.After(2 * nodes[1].plan.Promise)
		if err := n.Check(); err != nil {
			t.Errorf("Check is %v when all promises are over", err)
		}
		if n.Token() <= m.Token() {
			t.Errorf("token %v after %v", n.Token(), m.Token())
		}
		release(t, n)
	})
}

// TestResignHere: the work's context ends, and the lease goes on until Release.
func TestResignHere(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		if err := nodes[0].Resign(t.Context(), 0); !errors.Is(err, driver.ErrNoLeader) {
			t.Errorf("Resign without a leader: %v", err)
		}
		m := win(t, nodes[0])
		if err := nodes[0].Resign(t.Context(), m.Token()+1); !errors.Is(err, driver.ErrSuperseded) {
			t.Errorf("Resign of another token: %v", err)
		}
		next := campaign(t.Context(), nodes[1])
		if err := nodes[0].Resign(t.Context(), m.Token()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		if cause := context.Cause(m.Context()); !errors.Is(cause, driver.ErrResigned) {
			t.Errorf("the cause is %v", cause)
		}
		<-time.After(3 * nodes[0].plan.Promise)
		if left, _ := m.Remaining(); left <= 0 {
			t.Errorf("Remaining is %v while the work has not returned", left)
		}
		select {
		case o := <-next:
			t.Errorf("another leads before the work has returned: %+v", o)
		default:
		}
		release(t, m)
		if left, _ := m.Remaining(); left != 0 {
			t.Errorf("Remaining is %v after the release", left)
		}
		release(t, within(t, next, "the next").m)
	})
}

// TestResignOfTheNewest: a leader whose first heartbeat has not arrived yet.
func TestResignOfTheNewest(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.hop = 2 * time.Millisecond
		nodes := v.openAll()
		<-time.After(time.Second)
		won := campaign(t.Context(), nodes[0])
		s, err := nodes[2].relay.led(t.Context())
		if err != nil || s.Leader == nil || s.Leader.ID != "n1" {
			t.Errorf("asked while one is being elected it says %+v, %v", s, err)
		}
		o := within(t, won, "a victory")
		if o.err != nil {
			t.Fatal(o.err)
		}
		release(t, o.m)
	})
}

func TestCancelAndClose(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		ctx, cancel := context.WithCancelCause(t.Context())
		waits := campaign(ctx, nodes[1])
		other := campaign(t.Context(), nodes[2])
		<-time.After(time.Second)
		if _, err := nodes[1].Campaign(t.Context(), driver.Candidacy{}); err == nil || driver.IsPermanent(err) {
			t.Errorf("a second campaign beside the first: %v", err)
		}
		cancel(errGaveUp)
		if o := within(t, waits, "a cancelled campaign"); !errors.Is(o.err, errGaveUp) {
			t.Errorf("a cancelled campaign returned %v", o.err)
		}
		_ = nodes[2].Close()
		if o := within(t, other, "the campaign of a closed node"); !errors.Is(o.err, driver.ErrClosed) {
			t.Errorf("the campaign of a closed node returned %v", o.err)
		}
		release(t, m)
		<-time.After(5 * time.Second)
		for _, n := range nodes[:2] {
			if s, _ := n.run.States().Wait(t.Context()); s.Leader != nil {
				t.Errorf("%s sees the leader %+v, and nobody stands", n.cfg.ID, s.Leader)
			}
		}
		if _, err := nodes[2].Campaign(t.Context(), driver.Candidacy{}); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("a campaign after Close returned %v", err)
		}
		for range nodes[2].Watch(t.Context()) {
			t.Error("a closed node shows a state")
		}
		m = win(t, nodes[0])
		_ = nodes[0].Close()
		if m.Check() == nil || !errors.Is(context.Cause(m.Context()), driver.ErrClosed) {
			t.Errorf("after Close Check is %v, the cause %v", m.Check(), context.Cause(m.Context()))
		}
		if err := m.Release(t.Context()); err != nil {
			t.Errorf("Release after Close: %v", err)
		}
		if err := m.(driver.Confirmer).Confirm(t.Context()); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Confirm after Close: %v", err)
		}
	})
}

func TestObserverCannotLead(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		v.obs = names("o", 1)
		nodes := v.openAll()
		_, err := nodes[1].Campaign(t.Context(), driver.Candidacy{})
		refusedFor(t, err, "o1 is an observer", "n1")
	})
}

// TestDiskFails: a leader that cannot save gives up and says why; it goes on
// following, and leads again when it can.
func TestDiskFails(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		var fails atomic.Bool
		v.disk = func(id protocol.NodeID, save func([]byte) error) func([]byte) error {
			return func(data []byte) error {
				if id == "n1" && fails.Load() {
					return errors.New("no space left on device")
				}
				return save(data)
			}
		}
		nodes := v.openAll()
		n := nodes[0]
		fails.Store(true)
		// It cannot win: its own vote is never durable.
		waits := campaign(t.Context(), n)
		<-time.After(5 * time.Second)
		select {
		case o := <-waits:
			t.Fatalf("it won without a disk: %+v", o)
		default:
		}
		m := win(t, nodes[1])
		<-time.After(time.Second)
		if err := m.Check(); err != nil {
			t.Errorf("the others cannot lead while one disk fails: %v", err)
		}
		fails.Store(false)
		<-time.After(time.Second)
		release(t, m)
		o := within(t, waits, "a victory with the disk mended")
		if o.err != nil {
			t.Fatal(o.err)
		}
		release(t, o.m)
	})
}

// TestSavesAreBesideHeartbeats: a disk that hangs does not end a healthy term.
func TestSavesAreBesideHeartbeats(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		var hangs atomic.Bool
		heals, stuck := make(chan struct{}), make(chan protocol.NodeID, 3)
		v.disk = func(id protocol.NodeID, save func([]byte) error) func([]byte) error {
			return func(data []byte) error {
				if hangs.Load() {
					stuck <- id
					<-heals
				}
				return save(data)
			}
		}
		var mu sync.Mutex
		var all []*resaving
		v.change = func(cfg *setup) {
			cfg.machine = func(qc quorum.Config) (protocol.Machine, error) {
				m, err := quorum.New(qc)
				r := &resaving{Machine: m}
				mu.Lock()
				all = append(all, r)
				mu.Unlock()
				return r, err
			}
		}
		nodes := v.openAll()
		m := win(t, nodes[0])
		<-time.After(time.Second)
		hangs.Store(true)
		for _, machine := range all {
			machine.again.Store(true)
			<-stuck
		}
		<-time.After(5 * time.Second)
		if err := m.Check(); err != nil {
			t.Errorf("Check with disks that hang: %v", err)
		}
		hangs.Store(false)
		close(heals)
		release(t, m)
	})
}

// resaving is a machine that saves what it has saved last once more, when it is told to.
type resaving struct {
	protocol.Machine
	again atomic.Bool
	last  []byte
}

func (m *resaving) Step(in *protocol.Input, fx *protocol.Effects) {
	m.Machine.Step(in, fx)
	if n := len(fx.Saves); n > 0 {
		m.last = append(m.last[:0], fx.Saves[n-1].Data...)
	} else if m.again.CompareAndSwap(true, false) {
		fx.Save(1, func(dst []byte) []byte { return append(dst, m.last...) })
	}
}

// TestPause: a follower that did not run for long must not take its own pause
// for the leader's silence.
func TestPause(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		waits := campaign(t.Context(), nodes[1])
		<-time.After(time.Second)
		n := nodes[1]
		// The loop stands still, as the process would, and what arrives waits.
		n.run.Call(func() { <-time.After(3 * n.plan.Promise) })
		<-time.After(3 * n.plan.Promise)
		if err := m.Check(); err != nil {
			t.Errorf("the leader was replaced because a follower paused: %v", err)
		}
		if c := n.Status().Counters; c.Pauses != 1 || c.LongestPause < n.plan.Promise {
			t.Errorf("counted %d pauses, the longest of %v", c.Pauses, c.LongestPause)
		}
		release(t, m)
		release(t, within(t, waits, "the next").m)
	})
}

// TestResumedIsNotLate: a node that was paused by an operator was not stopped.
func TestResumedIsNotLate(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		campaign(t.Context(), nodes[1])
		campaign(t.Context(), nodes[2])
		<-time.After(5 * time.Second)
		for _, paused := range []bool{true, false} {
			for _, n := range nodes {
				if err := n.pausing.setPaused(t.Context(), paused, "this program"); err != nil {
					t.Fatal(err)
				}
			}
			if paused {
				release(t, m) // nobody leads
			}
			<-time.After(8 * time.Second)
		}
		for _, n := range nodes {
			if c := n.Status().Counters; c.Pauses != 0 {
				t.Errorf("%s: counted %d pauses, the longest of %v", n.cfg.ID, c.Pauses, c.LongestPause)
			}
		}
	})
}

// held is a machine whose steps something precedes, after the clock was read.
type held struct {
	*quorum.Machine
	before func(in *protocol.Input)
}

func (m held) Step(in *protocol.Input, fx *protocol.Effects) {
	m.before(in)
	m.Machine.Step(in, fx)
}

// TestLapseStays: a node is stopped while it holds an answer, until Check has said that the lease is over. Then the
// answer renews the lease, as it arrived in time, and the term stays over.
func TestLapseStays(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		var m driver.Mandate
		var armed, renewed atomic.Bool
		var seq uint64 // of the latest answer since it was armed; the loop's, as is stood
		stood := false
		before := func(in *protocol.Input) {
			n := v.node(t, "n1")
			switch answers := in.Kind == protocol.Receive && in.Message.Type == quorum.HeartbeatAck; {
			case !armed.Load() || renewed.Load():
			case stood:
				if seen := n.run.Seen(); !seen.Proven(n.run.Now()) {
					t.Error("the answer has not renewed the lease, and so this test shows nothing")
				}
				if err := m.Check(); !errors.Is(err, driver.ErrExpired) {
					t.Errorf("Check is %v once a late answer has renewed the lease", err)
				}
				renewed.Store(true)
			case answers && seq == 0:
				seq = in.Message.Seq
			case answers && in.Message.Seq > seq:
				left, _ := m.Remaining()
				<-time.After(left)
				if err := m.Check(); !errors.Is(err, driver.ErrExpired) {
					t.Errorf("Check is %v after the lease", err)
				}
				stood = true
			}
		}
		v.change = func(cfg *setup) {
			if cfg.ID == "n1" {
				cfg.machine = func(c quorum.Config) (protocol.Machine, error) {
					q, err := quorum.New(c)
					return held{q, before}, err
				}
			}
		}
		nodes := v.openAll()
		m = win(t, nodes[0])
		armed.Store(true)
		within(t, m.Context().Done(), "the end of the term")
		for range 100 {
			<-time.After(10 * time.Millisecond)
			if m.Check() == nil {
				t.Fatal("it is proven again")
			}
		}
		if !renewed.Load() {
			t.Error("no answer came after the lease")
		}
		release(t, m)
		release(t, win(t, nodes[0]))
	})
}

func TestTestament(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		w := m.(driver.Attestable).Testament()
		if !slices.Equal(w.Keep, nodes[0].dir.Locks()) || w.Keep[0].Name() != filepath.Join(nodes[0].at.String(), "lock") {
			t.Errorf("it keeps %v", w.Keep)
		}
		for _, says := range []string{`"id":"n1"`, `"n2":"127.0.0.1:2"`, `"n3"`, `"incarnation":`} {
			if !strings.Contains(string(w.Data), says) {
				t.Errorf("the testament does not say %s: %s", says, w.Data)
			}
		}
		release(t, m)
	})
	for _, bad := range []string{"", "{}", `{"version":2}`, `{"version":1,"id":"n1"}`} {
		if _, err := Witness(t.Context(), []byte(bad)); err == nil {
			t.Errorf("the testament %q is accepted", bad)
		}
	}
}

func TestInUse(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		v.open("n1")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := open(ctx, v.config("n1"))
		if err == nil || !strings.Contains(err.Error(), "uses it") {
			t.Errorf("a second node with the same directory: %v", err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		cfg := v.config("n7")
		_, err := open(t.Context(), cfg)
		refusedFor(t, err, `"n7" takes no part here`, "want one of n1, n2, n3")
		cfg = v.config("n1")
		cfg.Promise = time.Millisecond
		_, err = open(t.Context(), cfg)
		refusedFor(t, err, "cannot hold")
		n := v.openAll()[0]
		_ = n.Close()
		cfg = v.config("n1")
		cfg.Cluster = "other"
		_, err = open(t.Context(), cfg)
		refusedFor(t, err, "other")
		if err := os.WriteFile(filepath.Join(v.data, "n2", "elections", "job", "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
}
