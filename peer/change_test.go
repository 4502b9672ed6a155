package peer

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// holdBack delays each second request to the new node, with which the leader waits until it is ready, until the
// returned function is called.
func (v *fakeCluster) holdBack(id protocol.NodeID) (letGo func()) {
	gate := make(chan struct{})
	var asked atomic.Int64
	v.change = func(c *setup) {
		dial := c.dialer
		c.dialer = func(ctx context.Context, to Peer) (conn, error) {
			if to.ID == string(id) && asked.Add(1) > 1 {
				<-gate
			}
			return dial(ctx, to)
		}
	}
	return func() { close(gate) }
}

type changed struct {
	done *MemberChange
	err  error
}

// begins begins a change, and waits until its first steps are done.
func (v *fakeCluster) begins(at protocol.NodeID, version uint64, q memberRequest) <-chan changed {
	c := make(chan changed, 1)
	go func() {
		_, done, err := v.asks(at, q)
		c <- changed{done, err}
	}()
	for v.node(v.t, at).membership.Load().Version < version {
		<-time.After(time.Millisecond)
	}
	<-time.After(2 * time.Second)
	return c
}

// TestChangeBetweenChanges: while the leader waits for a new voter, another node leads, changes something else, and
// gives leadership back. Its changes stay.
func TestChangeBetweenChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change memberRequest
		want   string
	}{
		{"removed", memberRequest{Op: opRemove, ID: "n3"}, "n1, n2, n4, n5, n6|"},
		{"observer", memberRequest{Op: opAdd, ID: "o71", Addr: "127.0.0.1:71", Observer: true}, "n1, n2, n3, n4, n5, n6|o71"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inCluster(t, 5, func(t *testing.T, v *fakeCluster) {
				letGo := v.holdBack("n6")
				nodes := v.openAll()
				m := win(t, nodes[0])
				v.join("n6")
				if c.change.Op == opAdd {
					v.join(c.change.ID)
				}
				first := v.begins("n1", 2, memberRequest{Op: opAdd, ID: "n6", Addr: v.peer("n6").Addr})
				release(t, m)
				m = win(t, nodes[1])
				v.changes("n2", c.change)
				release(t, m)
				m = win(t, nodes[0])
				letGo()
				want := []string{"n6 is an observer (membership 1.2)", "n6 is a voter (membership 3.4)"} // 2.3 is the other one's
				if r := <-first; r.err != nil || !r.done.Membership.Settled || !slices.Equal(r.done.Steps, want) {
					t.Errorf("the first change: %+v, %v; want the steps %q", r.done, r.err, want)
				}
				v.has(c.want, nodes[0], nodes[1], nodes[3])
				release(t, m)
			})
		})
	}
}

// TestChangeLosesLeader: a change that is partly done ends when leadership is lost, and says what was done: the next
// leader does not know it.
func TestChangeLosesLeader(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		letGo := v.holdBack("n3")
		nodes := v.openAll()
		m := win(t, nodes[0])
		_ = nodes[2].Close()
		if err := os.RemoveAll(nodes[2].at.String()); err != nil {
			t.Fatal(err)
		}
		v.join("n3")
		change := v.begins("n1", 3, memberRequest{Op: opReplace, ID: "n3"})
		release(t, m)
		m = win(t, nodes[1])
		letGo()
		r := <-change
		if !errors.Is(r.err, driver.ErrUnknownOutcome) || r.done != nil {
			t.Fatalf("%+v, %v; want that the outcome is unknown", r.done, r.err)
		}
		for _, s := range []string{"n1 does not lead any more", "is removed", "n3 is an observer", "repeat the command to go on from there"} {
			if !strings.Contains(r.err.Error(), s) {
				t.Errorf("the error does not say %q: %v", s, r.err)
			}
		}
		if done := v.changes("n2", memberRequest{Op: opReplace, ID: "n3"}); len(done.Steps) != 1 {
			t.Errorf("%q; want what was left", done.Steps)
		}
		v.has("n1, n2, n3|", nodes[0])
		release(t, m)
	})
}

// TestReplaceInterrupted: wherever a replacement was interrupted, the same command goes on from there. Repeated once
// more, it changes nothing.
func TestReplaceInterrupted(t *testing.T) {
	bare := memberRequest{Op: opReplace, ID: "n3"}
	for _, c := range []struct {
		name  string
		begin func(*fakeCluster) // what was done before
		holds string             // at the interruption
		again memberRequest
		steps int // that are left
	}{
		{"the old one is removed", func(v *fakeCluster) { v.changes("n1", memberRequest{Op: opRemove, ID: "n3"}) }, "n1, n2|", bare, 2},
		{"and the command has the address", func(v *fakeCluster) { v.changes("n1", memberRequest{Op: opRemove, ID: "n3"}) }, "n1, n2|",
			memberRequest{Op: opReplace, ID: "n3", Addr: "127.0.0.1:3"}, 2},
		{"the new one is an observer", func(v *fakeCluster) {
			_, err := v.node(v.t, "n1").changes.reconfigure(v.t.Context(), bare, func(step string) {
				if strings.Contains(step, "is an observer") {
					v.isolate("n3", true)
				}
			})
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "the observers n3: repeat the command") {
				v.t.Fatalf("%v; want it refused half-way", err)
			}
			v.isolate("n3", false)
		}, "n1, n2|n3", bare, 1},
		{"the operator has gone", func(v *fakeCluster) {
			ctx, gone := context.WithCancel(v.t.Context())
			_, err := v.node(v.t, "n1").changes.reconfigure(ctx, bare, func(string) { gone() })
			if err == nil {
				v.t.Fatal("the change has not ended with its operator")
			}
		}, "n1, n2|n3", bare, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
				nodes := v.openAll()
				m := win(t, nodes[0])
				_ = nodes[2].Close()
				if err := os.RemoveAll(nodes[2].at.String()); err != nil {
					t.Fatal(err)
				}
				fresh := v.join("n3")
				<-time.After(2 * time.Second)
				c.begin(v)
				v.has(c.holds, nodes[:2]...)
				if done := v.changes("n2", c.again); len(done.Steps) != c.steps || !strings.Contains(done.Steps[c.steps-1], "n3 is a voter") {
					t.Errorf("%q; want the %d steps that were left", done.Steps, c.steps)
				}
				v.has("n1, n2, n3|", nodes[0], nodes[1], fresh)
				if ms := nodes[1].membership.Load(); ms.Voters[2].Dir != fresh.self.Dir {
					t.Errorf("n2 knows n3 by %s; want %s", ms.Voters[2].Dir, fresh.self.Dir)
				}
				if done := v.changes("n2", c.again); done.Changed {
					t.Errorf("replaced twice: %q", done.Steps)
				}
				if err := m.Check(); err != nil {
					t.Errorf("the leader is disturbed: %v", err)
				}
				release(t, m)
			})
		})
	}
}

// TestReplaceObserver: a node that is an observer by its own URL was never half of a replacement. It is refused, and
// nothing changes.
func TestReplaceObserver(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.obs = []protocol.NodeID{"o9"}
		nodes := v.openAll()
		m := win(t, nodes[0])
		o9 := v.node(t, "o9")
		sees(t, o9, "the leader", leads(m))
		v.refusedChange("n1", memberRequest{Op: opReplace, ID: "o9", Addr: "127.0.0.1:9"}, "o9 is an observer by its own URL", "elect member add o9@127.0.0.1:9")
		v.has("n1, n2, n3|o9", nodes...)
		release(t, m)
	})
}

// TestSameChangeTwice: a change may go on after its operator was interrupted. The same change, repeated, waits for its
// end, and finds it done.
func TestSameChangeTwice(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		letGo := v.holdBack("n4")
		nodes := v.openAll()
		m := win(t, nodes[0])
		v.join("n4")
		q := memberRequest{Op: opAdd, ID: "n4", Addr: v.peer("n4").Addr}
		first, second := v.begins("n1", 2, q), v.begins("n1", 2, q)
		v.refusedChange("n1", memberRequest{Op: opRemove, ID: "n3"}, "another change is under way (add n4@127.0.0.1:4)")
		select {
		case r := <-second:
			t.Errorf("the second one has ended before the first: %+v, %v", r.done, r.err)
		default:
		}
		letGo()
		if r := <-first; r.err != nil || len(r.done.Steps) != 2 {
			t.Errorf("the first one: %+v, %v", r.done, r.err)
		}
		if r := <-second; r.err != nil || r.done.Changed {
			t.Errorf("the second one: %+v, %v; want that it was so", r.done, r.err)
		}
		v.has("n1, n2, n3, n4|", nodes...)
		release(t, m)
	})
}

// TestLeaderHasMoved: a node whose URL has the new address of the leader, and whose
// membership has the old one, reaches it.
func TestLeaderHasMoved(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.join("n4")
		nodes := v.openAll()
		m := win(t, nodes[0])
		v.changes("n1", memberRequest{Op: opAdd, ID: "n4", Addr: v.peer("n4").Addr, Observer: true})
		const now = "127.0.0.1:91"
		v.mu.Lock()
		v.moved = map[protocol.NodeID]string{"n1": now}
		v.mu.Unlock()
		v.change = func(c *setup) { c.Voters[0].Addr = now }
		_ = nodes[1].Close()
		n := v.open("n2")
		sees(t, n, "the leader", leads(m))
		if got, want := n.contacts.places("n1"), []string{v.address("n1"), now}; !slices.Equal(got, want) {
			t.Fatalf("it looks for n1 at %v; want %v", got, want)
		}
		done, err := v.asksDone("n2", memberRequest{Op: opReplace, ID: "n3", Addr: v.peer("n3").Addr})
		if err != nil || done.Changed {
			t.Errorf("a change asked for at n2: %+v, %v; want that nothing is to be changed", done, err)
		}
		if err := n.Resign(t.Context(), 0); err != nil {
			t.Error(err)
		}
		<-m.Context().Done()
		if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrResigned) {
			t.Error(err)
		}
		release(t, m)
	})
}

// TestPinsAndFounded: pins are for the founding. They do not bind a member of a membership that was changed since.
func TestPinsAndFounded(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		n := v.open("n3")
		if err := n.dir.Pin("n1", protocol.DirID{1}); err != nil {
			t.Fatal(err)
		}
		h := wire.Enter{Election: "job", Dir: protocol.DirID{2}, Voters: v.all}
		for _, c := range []struct {
			held protocol.ConfigID
			code wire.Code
		}{
			{protocol.ConfigID{}, wire.CodeDirectory},
			{protocol.ConfigID{Term: 9, Version: 1}, wire.CodeDirectory},
			{protocol.ConfigID{Term: 3, Version: 2}, ""},
		} {
			h.Held = c.held
			if w, r := n.founding.admit("n1", &h, wire.Node); (w != nil) != (c.code == "") || r != nil && r.Code != c.code {
				t.Errorf("one with membership %v and another directory: %+v, %+v; want %q", c.held, w, r, c.code)
			}
		}
	})
}

// TestLonelyVoter: a change warns of a new voter that hears too few of the others.
func TestLonelyVoter(t *testing.T) {
	four := &protocol.Membership{}
	for _, id := range names("n", 4) {
		four.Voters = append(four.Voters, protocol.Voter{ID: id})
	}
	hears := func(all ...protocol.NodeID) (peers []PeerStatus) {
		for _, id := range names("n", 4) {
			peers = append(peers, PeerStatus{ID: string(id), Connected: slices.Contains(all, id)})
		}
		return peers
	}
	for _, c := range []struct {
		hears []PeerStatus
		says  string
	}{
		{hears("n1", "n2", "n3"), ""},
		{hears("n1"), "n4 was not connected with n2, n3 when it became a voter: without n1 it could elect no leader"},
		{hears("n1", "n3"), "n4 was not connected with n2 when"},
		{nil, ""}, // it was not asked
	} {
		ch := &change{changes: &changes{membership: &membership{facts: &facts{cfg: setup{ID: "n1"}}}}, want: memberRequest{Op: opAdd, ID: "n4"}}
		ch.found.Peers = c.hears
		got := strings.Join(ch.lonely(four), "; ")
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q; want %q", c.hears, got, c.says)
		}
	}
}
