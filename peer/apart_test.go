package peer

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// grown is an election that one voter has founded, and that has three now; n2 leads.
func grown(t *testing.T, v *fakeCluster) driver.Mandate {
	t.Helper()
	n1 := v.openAll()[0]
	m := win(t, n1)
	v.join("n2")
	v.add("n1", "n2")
	v.join("n3")
	v.add("n1", "n3")
	release(t, m)
	return win(t, v.node(t, "n2"))
}

// wiped opens a node again whose directory was lost.
func (v *fakeCluster) wiped(id protocol.NodeID) *Node {
	v.t.Helper()
	n := v.node(v.t, id)
	_ = n.Close()
	if err := os.RemoveAll(n.at.String()); err != nil {
		v.t.Fatal(err)
	}
	return v.open(id)
}

// TestFounderWiped: a founder of an election that has grown loses its disk, and its unit starts it as before. It hears
// of the others in time, and founds nothing.
func TestFounderWiped(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		m := grown(t, v)
		n1 := v.wiped("n1")
		o := within(t, campaign(t.Context(), n1), "an end of the campaign")
		refusedFor(t, o.err, "would found by its configuration", "n2 refuses this node", "join=true", "elect member replace")
		<-time.After(time.Minute)
		if n1.founded() {
			t.Error("it has founded a second election")
		}
		if err := m.Check(); err != nil {
			t.Errorf("the leader is disturbed: %v", err)
		}
		// What it was told to do helps.
		_ = n1.Close()
		if err := os.RemoveAll(n1.at.String()); err != nil {
			t.Fatal(err)
		}
		v.join("n1")
		v.changes("n2", memberRequest{Op: opReplace, ID: "n1", Addr: v.peer("n1").Addr})
		release(t, m)
		release(t, win(t, v.node(t, "n1")))
	})
}

// TestFounderWipedAlone: as long as it hears no other node it cannot know, and leads. When it does, its work ends, no
// node votes with it, and no later life of its directory begins. The others do not follow it, however great its term
// is.
func TestFounderWipedAlone(t *testing.T) {
	for _, lives := range []int{1, 12} {
		inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
			m := grown(t, v)
			v.isolate("n1", true)
			n1 := v.wiped("n1")
			for range lives - 1 {
				release(t, win(t, n1))
				_ = n1.Close()
				n1 = v.open("n1")
			}
			second := win(t, n1)
			term := n1.membership.Load().ConfigTerm
			if first := v.node(t, "n2").membership.Load().ConfigTerm; lives > 1 && term <= first {
				t.Fatalf("its term is %d, and that of the others %d; want it greater", term, first)
			}
			waits := campaign(t.Context(), v.node(t, "n3"))
			v.isolate("n1", false)
			select {
			case <-second.Context().Done():
			case <-time.After(time.Second):
				t.Fatal("it leads on when it can hear of the others")
			}
			if err := second.Check(); !errors.Is(err, driver.ErrSuperseded) || !strings.Contains(err.Error(), "a second time") {
				t.Errorf("its Check says %v", err)
			}
			if left, _ := second.Remaining(); left != 0 {
				t.Errorf("it has a lease of %v left", left)
			}
			release(t, second)
			o := within(t, campaign(t.Context(), n1), "the end of its campaign")
			refusedFor(t, o.err, "has founded its election a second time", "n2 refuses this node", "join=true", "elect member replace")
			if n1.Status().Leader != nil {
				t.Error("it shows a leader")
			}
			<-time.After(time.Minute)
			if err := m.Check(); err != nil {
				t.Errorf("the leader is disturbed: %v", err)
			}
			select {
			case o := <-waits:
				t.Errorf("n3 does not wait any more: %v", o.err)
			default:
			}
			v.isolate("n2", true) // and nobody elects with it
			<-time.After(30 * time.Second)
			select {
			case o := <-waits:
				t.Errorf("n3, alone, has won or given up: %v", o.err)
			default:
			}
			v.isolate("n2", false)
			_ = n1.Close()
			_, err := open(t.Context(), v.config("n1"))
			refusedFor(t, err, "has founded its election a second time", "join=true")
		})
	}
}

// TestTwoFoundersWiped: two of five found a second election, and hear of it from
// the three others.
func TestTwoFoundersWiped(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, v *fakeCluster) {
		m := win(t, v.openAll()[0])
		for _, id := range names("n", 5)[2:] {
			v.join(id)
			v.add("n1", id)
		}
		release(t, m)
		m = win(t, v.node(t, "n4"))
		_ = v.node(t, "n2").Close()
		n1 := v.wiped("n1")
		n2 := v.wiped("n2")
		for _, n := range []*Node{n1, n2} {
			o := within(t, campaign(t.Context(), n), "an end of the campaign")
			refusedFor(t, o.err, "refuses this node", "elect member replace")
		}
		<-time.After(time.Minute)
		if err := m.Check(); err != nil {
			t.Errorf("the leader is disturbed: %v", err)
		}
	})
}

// TestOneStrangerEndsNobody: a leader that others follow goes on, whatever a single node of another election says of
// it. So does one that was added later, whatever all say.
func TestOneStrangerEndsNobody(t *testing.T) {
	says := &wire.Refusal{Code: wire.CodeDirectory, Says: "another directory", Final: true}
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		nodes[0].run.Call(func() {
			nodes[0].founding.called("n9", protocol.ConfigID{Term: 99, Version: 9})
			nodes[0].founding.refused("n9", says)
			nodes[0].founding.refused("n2", says) // who has said no Hello with such a membership
		})
		<-time.After(time.Second)
		if err := m.Check(); err != nil {
			t.Errorf("it leads no more: %v", err)
		}
		release(t, m)
	})
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		m := grown(t, v)
		n := v.node(t, "n2")
		n.run.Call(func() {
			for _, by := range names("n", 9)[3:] {
				n.founding.called(by, protocol.ConfigID{Term: 99, Version: 9})
				n.founding.refused(by, says)
			}
		})
		<-time.After(time.Second)
		if err := m.Check(); err != nil {
			t.Errorf("it leads no more: %v", err)
		}
		release(t, m)
	})
}

// TestFounderWipedForReal: the same with real connections and real disks, first while
// the others are away, and then while they are there. A busy machine may let a lease
// expire; that nothing else ends a term is for the tests above to see, in fake time.
func TestFounderWipedForReal(t *testing.T) {
	long.Test(t, "it waits four times for a promise; the others of its name are in fake time")
	t.Parallel()
	c := newCluster(t, names("n", 1), nil, false).steady()
	c.startAll()
	m := win(t, c.node("n1"))
	client, err := newClient(c.config("visitor"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	later := map[protocol.NodeID]setup{}
	for _, id := range names("n", 3)[1:] {
		c.addrs[id] = harness.FreeAddr(t)
		cfg := c.config(id)
		cfg.Join = true
		cfg.Voters = append(cfg.Voters, Peer{string(id), c.addrs[id]})
		later[id] = cfg
	}
	start := func(id protocol.NodeID) *Node {
		n, err := open(t.Context(), later[id])
		if err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.nodes[id] = n
		c.mu.Unlock()
		return n
	}
	for _, id := range names("n", 3)[1:] {
		start(id)
		done, err := client.AddMember(t.Context(), Peer{string(id), c.addrs[id]}, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		few := slices.ContainsFunc(done.Warnings, func(s string) bool { return strings.Contains(s, "the URL lists 1 of ") })
		if !few {
			t.Errorf("%s was added by the URL of one: %q; want a word of it", id, done.Warnings)
		}
	}
	release(t, m)
	for _, id := range names("n", 3) {
		c.stop(id)
	}
	if err := os.RemoveAll(c.node("n1").at.String()); err != nil {
		t.Fatal(err)
	}
	n1 := c.start("n1")
	m = win(t, n1) // no node is there that knows better
	n2 := start("n2")
	start("n3")
	for err = nil; err == nil; m, err = n1.Campaign(t.Context(), driver.Candidacy{Exclusive: true}) {
		within(t, m.Context().Done(), "an end of the second election") // by the others, or because this machine was busy
		if err := m.Check(); !errors.Is(err, driver.ErrSuperseded) && !errors.Is(err, driver.ErrExpired) {
			t.Errorf("its Check says %v", err)
		}
		release(t, m)
	}
	refusedFor(t, err, "has founded its election a second time")
	c.stop("n1")
	_, err = open(t.Context(), c.config("n1"))
	refusedFor(t, err, "has founded its election a second time")
	m = win(t, n2)
	if err := os.RemoveAll(n1.at.String()); err != nil {
		t.Fatal(err)
	}
	n1 = c.start("n1")
	_, err = n1.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
	refusedFor(t, err, "would found by its configuration")
	if err := m.Check(); n1.founded() || err != nil && !errors.Is(err, driver.ErrExpired) {
		t.Errorf("founded: %v; the leader: %v", n1.founded(), err)
	}
	release(t, m)
}
