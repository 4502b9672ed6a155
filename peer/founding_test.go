package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// TestFoundingNeedsAll: while a voter is missing no voter votes, and the missing one is named. When it has come, a
// campaign that has waited goes on.
func TestFoundingNeedsAll(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		n := v.open("n1")
		v.open("n2")
		waits := campaign(t.Context(), n)
		s := sees(t, n, "for whom it waits", func(s driver.State) bool { return s.Cause != nil })
		if s.Leader != nil || s.Stale || !strings.Contains(s.Cause.Error(), "needs all its voters: waiting for n3") {
			t.Errorf("while one is missing it shows %+v", s)
		}
		<-time.After(time.Minute)
		if n.founded() {
			t.Error("it is founded without one of the voters")
		}
		v.open("n3")
		o := within(t, waits, "a victory when all are there")
		if o.err != nil {
			t.Fatal(o.err)
		}
		release(t, o.m)
	})
}

// TestFoundingInterrupted: nodes that crash during the founding go on with their pins, in whatever order they return.
func TestFoundingInterrupted(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		one := v.open("n1")
		two := v.open("n2")
		<-time.After(time.Second)
		_, _ = one.Close(), two.Close()
		three := v.open("n3")
		<-time.After(time.Second)
		v.open("n2")
		<-time.After(time.Second)
		if three.founded() {
			t.Error("it is founded before all have pinned it")
		}
		one = v.open("n1")
		<-time.After(time.Second)
		// The node that is founded last meets others that were founded long before.
		release(t, win(t, one))
	})
}

// TestFoundingLate: a node that missed the end of the founding is founded by the welcomes of the others, and only with
// all of them.
func TestFoundingLate(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.openAll()
		// It never booted: it has its pins, and no ballot.
		fresh := &Node{dir: v.node(t, "n3").dir, facts: facts{
			cfg: v.config("n3"), dialect: quorumDialect{}, plan: Plan{Voters: 3, Quorum: 2}, log: slog.New(slog.DiscardHandler),
		}}
		fresh.prepare()
		other := v.node(t, "n1")
		ms := other.membership.Load()
		newer := *ms
		newer.ConfigTerm = 7
		fresh.founding.welcomes["n1"] = &newer
		if got := fresh.founding.met(); got != nil {
			t.Errorf("founded by the welcome of one: %+v", got)
		}
		fresh.founding.welcomes["n2"] = nil
		if got := fresh.founding.met(); got == nil || got.ConfigTerm != 7 {
			t.Errorf("with all welcomes it boots with %+v; want the newest membership", got)
		}
		wrong := newer
		wrong.Voters = append([]protocol.Voter{}, newer.Voters...)
		wrong.Voters[1].Dir[0]++
		fresh.founding.welcomes["n1"] = &wrong
		if got := fresh.founding.met(); got != nil {
			t.Errorf("it boots with a membership that its pins contradict: %+v", got)
		}
		refusedFor(t, fresh.refusals.hopeless(), "another founding")
	})
}

// TestRestart: after the founding a majority is enough to start.
func TestRestart(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[2])
		token := m.Token()
		release(t, m)
		before := nodes[0].run.Incarnation()
		for _, n := range nodes {
			_ = n.Close()
		}
		one := v.open("n1")
		v.open("n2")
		m = win(t, one)
		if m.Token() <= token {
			t.Errorf("token %v after %v", m.Token(), token)
		}
		if got := one.run.Incarnation(); got != before+1 {
			t.Errorf("incarnation %d after %d", got, before)
		}
		release(t, m)
	})
}

// TestWipedDisk: a voter that has forgotten its votes is refused, says why, and
// the others go on.
func TestWipedDisk(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		_ = nodes[1].Close()
		if err := os.RemoveAll(nodes[1].at.String()); err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		cfg := v.config("n2")
		cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		wiped, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience())
		defer cancel()
		_, err = wiped.Campaign(ctx, driver.Candidacy{Exclusive: true})
		refusedFor(t, err, "knows n2 by the data directory", "was wiped", "(n3 refuses it too)", "never a backup of it", "higher era")
		for _, once := range []string{"was wiped", "higher era"} {
			if got := strings.Count(err.Error(), once); got != 1 {
				t.Errorf("the error says %q %d times; want once: %v", once, got, err)
			}
		}
		_, err = wiped.Campaign(ctx, driver.Candidacy{Exclusive: true})
		refusedFor(t, err, "was wiped")
		<-time.After(10 * time.Second) // refused again and again
		_ = wiped.Close()
		if got := strings.Count(logged.String(), "this node is refused"); got != 2 {
			t.Errorf("it was logged %d times that it is refused; want once for each of the two others:\n%s", got, &logged)
		}
		if wiped.founded() {
			t.Error("the wiped node is founded")
		}
		if err := m.Check(); err != nil {
			t.Errorf("the leader is disturbed: %v", err)
		}
		release(t, m)
	})
}

// TestStrangers: a node with another configuration is refused with the difference, and the nodes that agree go on.
func TestStrangers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*setup)
		says   []string
	}{
		{"voters", func(c *setup) { c.Voters = append(c.Voters, Peer{"n4", "127.0.0.1:4"}) }, []string{"n1 knows n3 by the data directory", "(n2 refuses it too)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
				nodes := v.openAll()
				_ = nodes[2].Close()
				if err := os.RemoveAll(nodes[2].at.String()); err != nil {
					t.Fatal(err)
				}
				cfg := v.config("n3")
				c.change(&cfg)
				n, err := open(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
				_, err = n.Campaign(t.Context(), driver.Candidacy{})
				refusedFor(t, err, c.says...)
				release(t, win(t, nodes[0]))
			})
		})
	}
}

// TestOneStrangerHarmsNobody: a single voter that refuses is no reason to give
// up, with a majority left.
func TestOneStrangerHarmsNobody(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		nodes[0].run.Call(func() {
			nodes[0].founding.refused("n3", &wire.Refusal{Code: wire.CodeCluster, Says: "another cluster", Final: true})
		})
		release(t, win(t, nodes[0]))
		nodes[0].run.Call(func() {
			nodes[0].founding.refused("n2", &wire.Refusal{Code: wire.CodeVoters, Says: "and here too", Final: true})
		})
		_, err := nodes[0].Campaign(t.Context(), driver.Candidacy{})
		refusedFor(t, err, "another cluster", "; ", "and here too")
		nodes[0].run.Call(func() { nodes[0].founding.welcomed("n2", &wire.Welcome{}) })
		release(t, win(t, nodes[0]))
	})
}

// entrant is a node that enters an election, and what it says of itself.
type entrant struct {
	wire.Enter
	ID protocol.NodeID
}

func (e entrant) at(n *Node, caller wire.Caller) (*wire.Welcome, *wire.Refusal) {
	return n.founding.admit(e.ID, &e.Enter, caller)
}

func TestAdmit(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.obs = names("o", 1)
		nodes := v.openAll()
		n := nodes[0]
		good := entrant{wire.Enter{Election: "job", Dir: nodes[1].self.Dir, Voters: v.all}, "n2"}
		for _, c := range []struct {
			code   wire.Code
			caller wire.Caller
			change func(*entrant)
		}{
			{"", wire.Node, func(*entrant) {}},
			{"", wire.WitnessOf, func(h *entrant) { h.Voters = nil }},
			{"", wire.Node, func(h *entrant) { h.ID, h.Dir = "o1", protocol.DirID{9} }},
			{wire.CodeIdentity, wire.Node, func(h *entrant) { h.ID = "n1" }},
			{wire.CodeIdentity, wire.WitnessOf, func(h *entrant) { h.ID = "n1" }},
			{wire.CodeUnknown, wire.Node, func(h *entrant) { h.ID = "n9" }},
			{"", wire.Node, func(h *entrant) { h.Voters = h.Voters[:2] }}, // its URL is old
			{wire.CodeEra, wire.Node, func(h *entrant) { h.Era = 1 }},
			{"", wire.WitnessOf, func(h *entrant) { h.Era = 1 }},
			{wire.CodeProtocol, wire.Node, func(h *entrant) { h.Protocol = "raft" }},
			{wire.CodeDirectory, wire.Node, func(h *entrant) { h.Dir[3]++ }},
			{wire.CodeDirectory, wire.WitnessOf, func(h *entrant) { h.Dir[3]++ }},
		} {
			h := good
			c.change(&h)
			w, r := h.at(n, c.caller)
			switch {
			case c.code == "" && (w == nil || r != nil):
				t.Errorf("%s %+v is refused: %+v", c.caller, h, r)
			case c.code != "" && (w != nil || r == nil || r.Code != c.code || r.Final == (c.code == wire.CodeEra) || r.Says == ""):
				t.Errorf("%s %+v: %+v, %+v; want it refused for %s", c.caller, h, w, r, c.code)
			}
		}
	})
}

// TestEraRaised: it is raised at one node after the other; tokens rise all the
// while, nodes of two eras do not elect together, and none goes back.
func TestEraRaised(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[2])
		token := m.Token()
		release(t, m)
		reopen := func(id protocol.NodeID, era uint64) (*Node, error) {
			cfg := v.config(id)
			cfg.Era = era
			n, err := open(t.Context(), cfg)
			if err == nil {
				t.Cleanup(func() { _ = n.Close() })
			}
			return n, err
		}
		_ = nodes[0].Close()
		one, err := reopen("n1", 2)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := one.Campaign(ctx, driver.Candidacy{Exclusive: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v; want the one node of the new era to win nothing", err)
		}
		m = win(t, nodes[2]) // with n2, in the old era
		if m.Token() <= token || m.Token().Era() != 0 {
			t.Errorf("token %v after %v; want a greater one of era 0", m.Token(), token)
		}
		token = m.Token()
		release(t, m)
		_ = nodes[1].Close()
		if _, err := reopen("n2", 2); err != nil {
			t.Fatal(err)
		}
		m = win(t, one)
		if m.Token() <= token || m.Token().Era() != 2 {
			t.Errorf("token %v after %v; want one of era 2", m.Token(), token)
		}
		release(t, m)
		_ = one.Close()
		_, err = reopen("n1", 1)
		refusedFor(t, err, "era=2 or more")
	})
}

// TestOtherTimes: voters with different promises elect all the same, and each warns once.
func TestOtherTimes(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		var logged bytes.Buffer
		var nodes []*Node
		for i, id := range v.all {
			cfg := v.config(id)
			if i == 0 {
				cfg.Profile = "fast"
				cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			}
			n, err := open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = n.Close() })
			nodes = append(nodes, n)
		}
		release(t, win(t, nodes[1]))
		for _, n := range nodes {
			_ = n.Close()
		}
		if got := strings.Count(logged.String(), "another voter has other times"); got != 2 || !strings.Contains(logged.String(), "promise=1s own=200ms") {
			t.Errorf("it was told %d times; want once of each of the two others:\n%s", got, &logged)
		}
	})
}

// TestOtherTimesWithoutLease: there it is not the longest time that matters.
func TestOtherTimesWithoutLease(t *testing.T) {
	var logged bytes.Buffer
	f := &founding{promises: map[protocol.NodeID]time.Duration{}, membership: &membership{facts: &facts{
		dialect: &classic{name: "raft"}, plan: Plan{Protocol: "raft", Promise: 150 * time.Millisecond}, log: slog.New(slog.NewTextHandler(&logged, nil)),
	}}}
	for _, promise := range []time.Duration{150 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond} {
		f.compare("n3", promise)
	}
	text := logged.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, "a leader's heartbeat interval") || strings.Contains(text, "takeover") || !strings.Contains(text, "promise=10ms own=150ms") {
		t.Errorf("it was told:\n%s\nwant one line, of what comes of a shorter time", text)
	}
}

// TestFoundingDiskFails: what cannot be pinned is not welcomed.
func TestFoundingDiskFails(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, v *fakeCluster) {
		n := v.open("n1")
		_ = n.dir.Close()
		if w, r := n.founding.admit("n2", &wire.Enter{Election: "job", Dir: protocol.DirID{1}, Voters: v.all}, wire.Node); w != nil || r == nil || r.Final {
			t.Errorf("a voter whose directory cannot be pinned: %+v, %+v; want it refused for now", w, r)
		}
	})
}

// TestObserverIsTold: an observer takes the membership from a voter, and needs no pin. It learns of the leader from
// heartbeats.
func TestObserverIsTold(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.obs = names("o", 1)
		o := v.open("o1")
		s := sees(t, o, "that nothing is known", func(driver.State) bool { return true })
		if !s.Stale || !errors.Is(s.Cause, driver.ErrUnreachable) {
			t.Errorf("alone it shows %+v", s)
		}
		for _, id := range v.all {
			v.open(id)
		}
		<-time.After(time.Second)
		m := win(t, v.node(t, "n2"))
		sees(t, o, "the leader", leads(m))
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		o = v.open("o1")
		sees(t, o, "the leader after a restart", leads(m))
		release(t, m)
	})
}
