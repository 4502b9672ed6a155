package peer

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// TestMoveEverything: three voters become five, one at a time, and then the old ones are removed, until no founder is
// left. There is a leader all the time, but for the hand-overs.
func TestMoveEverything(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		old := v.openAll()
		m := win(t, old[0])
		all := slices.Clone(old)
		voters := names("n", 3)
		for i, id := range []protocol.NodeID{"n4", "n5", "n6", "n7", "n8"} {
			n := v.join(id)
			<-time.After(2 * time.Second)
			if n.founded() {
				t.Fatalf("%s takes part before it was added", id)
			}
			if s := n.Status(); !strings.Contains(s.Cause, "elect member add "+string(id)+"@"+v.peer(id).Addr) {
				t.Errorf("%s says %v; want the command that adds it", id, s.Cause)
			}
			done := v.add("n1", id)
			if len(done.Steps) != 2 || !strings.Contains(done.Steps[0], "observer") || !strings.Contains(done.Steps[1], "voter") {
				t.Errorf("%s: %q", id, done.Steps)
			}
			voters = append(voters, id)
			if even := len(voters)%2 == 0; even != (len(done.Warnings) == 1) || len(done.Membership.Voters) != len(voters) {
				t.Errorf("%+v", done)
			}
			all = append(all, n)
			v.has(list(voters)+"|", all...)
			if p := n.Plan(); p.Voters != i+4 || p.Quorum != (i+4)/2+1 {
				t.Errorf("%s has %+v; want %d voters", id, p, i+4)
			}
			if err := m.Check(); err != nil {
				t.Fatalf("the leader is disturbed by %s: %v", id, err)
			}
		}
		if again := v.add("n2", "n8"); again.Changed || len(again.Steps) != 0 {
			t.Errorf("added twice: %+v", again)
		}

		v.refusedChange("n3", memberRequest{Op: opRemove, ID: "n1"}, "n1 leads", "elect transfer")
		var gone []<-chan outcomeOf
		for _, n := range old[1:] {
			gone = append(gone, campaign(t.Context(), n))
			v.changes("n4", memberRequest{Op: opRemove, ID: n.cfg.ID})
		}
		release(t, m)
		m = win(t, all[5])
		v.changes("n6", memberRequest{Op: opRemove, ID: "n1"})
		gone = append(gone, campaign(t.Context(), old[0]))
		for i, g := range gone {
			o := within(t, g, "the end of the campaign of one that was removed")
			refusedFor(t, o.err, "takes no part in membership", "the voters n", "join=true", "elect member add")
			if o.m != nil {
				t.Errorf("%s has won", old[i].cfg.ID)
			}
		}
		v.has("n4, n5, n6, n7, n8|", all[3:]...)
		if err := m.Check(); err != nil {
			t.Fatalf("the leader is disturbed: %v", err)
		}
		<-time.After(10 * time.Second)
		if err := m.Check(); err != nil {
			t.Fatalf("the leader is disturbed by those who were removed: %v", err)
		}
		if done, err := v.asksDone("n6", memberRequest{Op: opRemove, ID: "n1"}); err != nil || done.Changed {
			t.Errorf("removed twice: %+v, %v", done, err)
		}
		if st := all[5].Status(); st.Membership == nil || !st.Membership.Settled || len(st.Membership.Voters) != 5 || st.Membership.Voters[0].Lag < 0 ||
			st.Membership.Voters[0].Lag > testPromise || st.Membership.Voters[0].Held != st.Membership.Version() || st.Membership.Voters[2].Lag != -1 ||
			!slices.Equal(st.Voters, texts(ids(all[5].membership.voters()))) || st.Plan.Voters != 5 {
			t.Errorf("the leader says %+v", st.Membership)
		}

		// The new ones find each other again, by URLs that have grown old.
		release(t, m)
		for _, n := range all {
			_ = n.Close()
		}
		for i, id := range voters[3:] {
			all[i] = v.open(id)
		}
		release(t, win(t, all[1]))
		back := v.open("n2")
		o := within(t, campaign(t.Context(), back), "the end of the campaign of one that was removed long ago")
		refusedFor(t, o.err, "n2 takes no part in membership")
	})
}

// TestReplaceWiped: a voter whose disk was lost stays out, until it is replaced.
func TestReplaceWiped(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		dir := nodes[2].self.Dir
		wipe := func() {
			_ = v.node(t, "n3").Close()
			if err := os.RemoveAll(nodes[2].at.String()); err != nil {
				t.Fatal(err)
			}
		}
		wipe()
		plain := v.open("n3")
		o := within(t, campaign(t.Context(), plain), "the end of its campaign")
		refusedFor(t, o.err, "was wiped", "join=true", "elect member replace")
		v.refusedChange("n2", memberRequest{Op: opReplace, ID: "n3"}, "n3 was started without join=true", "elect run --election 'peer://n1@127.0.0.1:1,n2@127.0.0.1:2,n3@127.0.0.1:3?join=true' --id n3")
		wipe()
		v.refusedChange("n2", memberRequest{Op: opReplace, ID: "n3"}, "n3@127.0.0.1:3, from where n1 leads, does not answer: connection refused", "?join=true")

		fresh := v.join("n3")
		waiting := campaign(t.Context(), fresh)
		<-time.After(5 * time.Second)
		if fresh.founded() || fresh.self.Dir == dir {
			t.Fatal("a wiped node takes part")
		}
		select {
		case o := <-waiting:
			t.Fatalf("the campaign of a node that waits has ended: %v", o.err)
		default:
		}
		v.refusedChange("n1", memberRequest{Op: opAdd, ID: "n3", Addr: "127.0.0.1:3"}, "n3 is a voter with the data directory "+dir.String(), "elect member replace n3@127.0.0.1:3")
		done := v.changes("n2", memberRequest{Op: opReplace, ID: "n3"})
		if len(done.Steps) != 3 || !strings.Contains(done.Steps[0], "is removed") || !strings.Contains(done.Steps[2], "n3 is a voter") {
			t.Errorf("%q", done.Steps)
		}
		v.has("n1, n2, n3|", nodes[0], nodes[1], fresh)
		for _, n := range []*Node{nodes[0], nodes[1], fresh} {
			if ms := n.membership.Load(); ms.Voters[2].Dir != fresh.self.Dir {
				t.Errorf("%s knows n3 by %s", n.cfg.ID, ms.Voters[2].Dir)
			}
		}
		if done := v.changes("n2", memberRequest{Op: opReplace, ID: "n3"}); done.Changed {
			t.Errorf("replaced twice: %q", done.Steps)
		}
		// It is worth a vote: with it alone the leader goes on, and it may lead.
		_ = nodes[1].Close()
		<-time.After(5 * time.Second)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		release(t, m)
		o = within(t, waiting, "the victory of the replaced one")
		if o.err != nil {
			t.Fatal(o.err)
		}
		release(t, o.m)
		// The old disk comes back: another directory of one that was replaced.
		_ = fresh.Close()
		if err := os.RemoveAll(fresh.at.String()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestChangeRefused: what is not safe, or not possible, is refused with the reason,
// and nothing changes.
func TestChangeRefused(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		if _, err := v.asksDone("n2", memberRequest{Op: opRemove, ID: "n1"}); !errors.Is(err, driver.ErrNoLeader) {
			t.Errorf("without a leader: %v", err)
		}
		m := win(t, nodes[0])
		add := func(id protocol.NodeID) memberRequest {
			return memberRequest{Op: opAdd, ID: id, Addr: v.peer(id).Addr}
		}
		v.refusedChange("n1", add("n4"), "n4@127.0.0.1:4", "connection refused", "peer://n1@127.0.0.1:1,n2@127.0.0.1:2,n3@127.0.0.1:3,n4@127.0.0.1:4?join=true")
		v.refusedChange("n1", memberRequest{Op: opAdd, ID: "n4", Addr: "127.0.0.1:2"}, "127.0.0.1:2 is the address of n2")
		v.refusedChange("n1", memberRequest{Op: opAdd, ID: "n4", Addr: "192.0.2.4:7400"}, "192.0.2.4:7400 is an address on a network", "no certificates")
		v.refusedChange("n1", memberRequest{Op: opReplace, ID: "n4"}, "n4 is not in membership", "n4@HOST:PORT")
		for _, bad := range []memberRequest{{Op: "swap", ID: "n4"}, {Op: opAdd, ID: "n4"}, {Op: opAdd, ID: "/", Addr: "127.0.0.1:4"}, {Op: opRemove, ID: "n2", Addr: "127.0.0.1:2"},
			{Op: opReplace, ID: "n2", Observer: true}, {Op: opAdd, ID: "n4", Addr: "nowhere"}} {
			if _, err := v.asksDone("n1", bad); err == nil || errors.Is(err, ErrRefused) || errors.Is(err, driver.ErrUnknownOutcome) {
				t.Errorf("%v: %v; want it called wrong", &bad, err)
			}
		}

		// One that founds an election of its own, and one of another founding.
		own := v.config("n5")
		own.Voters = []Peer{v.peer("n5"), v.peer("n9")}
		n5, err := open(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		v.mu.Lock()
		v.late, v.nodes["n5"] = append(v.late, "n5"), n5
		v.mu.Unlock()
		v.refusedChange("n1", add("n5"), "n5 was started without join=true")
		_ = n5.Close()

		// A silent voter is one that the next majority may need.
		v.join("n4")
		v.isolate("n3", true)
		<-time.After(4 * time.Second)
		v.refusedChange("n2", add("n4"), "n3 does not answer, n4 is new", "n3 has not answered for", "2 voters of {n1,n2,n3,n4} answer, and a majority is 3")
		v.refusedChange("n1", memberRequest{Op: opRemove, ID: "n2"}, "n3 has not answered for")
		v.changes("n1", memberRequest{Op: opRemove, ID: "n3"})
		v.add("n1", "n4")
		v.has("n1, n2, n4|", nodes[0], nodes[1])
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		v.isolate("n3", false)
		o := within(t, campaign(t.Context(), nodes[2]), "the end of the campaign of one that was removed while it was away")
		refusedFor(t, o.err, "n3 takes no part in membership")
		release(t, m)
	})
}

// TestOneChangeAtATime: a second one is refused while a first one goes on.
func TestOneChangeAtATime(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		v.join("n4")
		v.isolate("n2", true)
		v.isolate("n3", true)
		first := make(chan error, 1)
		go func() {
			_, err := v.asksDone("n1", memberRequest{Op: opRemove, ID: "n2"})
			first <- err
		}()
		synctest.Wait()
		v.refusedChange("n1", memberRequest{Op: opRemove, ID: "n3"}, "another change is under way (remove n2)")
		if err := within(t, first, "the first change"); !errors.Is(err, ErrRefused) && !errors.Is(err, driver.ErrNoLeader) {
			t.Errorf("the first change: %v", err)
		}
		_ = m
	})
}

// TestUnknownOutcome: a leader that is cut off right after it has made a membership
// does not know whether it holds, and says so; repeated, the change is complete.
func TestUnknownOutcome(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		cutAt := make(chan struct{}, 1)
		v.disk = func(id protocol.NodeID, save func([]byte) error) func([]byte) error {
			return func(b []byte) error {
				v.mu.Lock()
				armed := id == "n1" && v.cut["armed"]
				if armed {
					v.cut["n1"], v.cut["armed"] = true, false
				}
				v.mu.Unlock()
				if armed {
					cutAt <- struct{}{}
				}
				return save(b)
			}
		}
		nodes := v.openAll()
		m := win(t, nodes[0])
		standing := campaign(t.Context(), nodes[1])
		v.join("n4")
		<-time.After(time.Second)
		n1 := v.node(t, "n1")
		v.isolate("armed", true)
		_, err := n1.changes.reconfigure(t.Context(), memberRequest{Op: opRemove, ID: "n3", Forwarded: true}, func(string) {})
		if !errors.Is(err, driver.ErrUnknownOutcome) || !strings.Contains(err.Error(), "elect members shows what holds") {
			t.Fatalf("%v; want that the outcome is unknown", err)
		}
		<-cutAt
		release(t, m)
		// The others have not heard of it, and go on with all three.
		o := within(t, standing, "the next leader")
		if o.err != nil {
			t.Fatal(o.err)
		}
		v.has("n1, n2, n3|", nodes[1], nodes[2])
		v.isolate("n1", false)
		v.has("n1, n2, n3|", nodes[0]) // what it had made was never settled, and a newer term has the older one
		v.changes("n1", memberRequest{Op: opRemove, ID: "n3"})
		v.has("n1, n2|", nodes[0], nodes[1])
		release(t, o.m)
	})
}

// TestHalfway: a change of which only the first step was possible says what holds,
// and goes on from there when it is repeated.
func TestHalfway(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		n4 := v.join("n4")
		q := memberRequest{Op: opAdd, ID: "n4", Addr: v.peer("n4").Addr}
		n1 := v.node(t, "n1")
		_, err := n1.changes.reconfigure(t.Context(), q, func(string) { v.isolate("n4", true) })
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "n4 is an observer (membership ") || !strings.Contains(err.Error(), "has the voters n1, n2, n3 and the observers n4: repeat the command") {
			t.Fatalf("%v; want it refused half-way", err)
		}
		v.has("n1, n2, n3|n4", nodes...)
		v.isolate("n4", false)
		if done := v.changes("n3", q); len(done.Steps) != 1 {
			t.Errorf("%q; want what was left", done.Steps)
		}
		v.has("n1, n2, n3, n4|", append(nodes, n4)...)

		// A process of another directory takes its place in the middle.
		n5 := v.join("n5")
		_, err = n1.changes.reconfigure(t.Context(), memberRequest{Op: opAdd, ID: "n5", Addr: v.peer("n5").Addr}, func(string) {
			_ = n5.Close()
			if err := os.RemoveAll(n5.at.String()); err != nil {
				t.Error(err)
			}
			n5 = v.open("n5")
		})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "had "+"") || !strings.Contains(err.Error(), "when the change began") {
			t.Errorf("%v; want it refused because of another directory", err)
		}
		v.add("n1", "n5")
		v.has("n1, n2, n3, n4, n5|", append(nodes, n4, n5)...)
		release(t, m)
	})
}

// TestObserversComeAndGo: they are added, become voters, move, and are removed.
func TestObserversComeAndGo(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		o9 := v.join("o9")
		q := memberRequest{Op: opAdd, ID: "o9", Addr: v.peer("o9").Addr, Observer: true}
		if done := v.changes("n2", q); len(done.Steps) != 1 || len(done.Warnings) != 0 {
			t.Errorf("%+v", done)
		}
		v.has("n1, n2, n3|o9", append(nodes, o9)...)
		sees(t, o9, "the leader", leads(m))
		if done := v.changes("n2", q); done.Changed {
			t.Errorf("%+v", done)
		}
		q.Observer = false
		v.changes("n2", q)
		v.has("n1, n2, n3, o9|", append(nodes, o9)...)
		q.Observer = true
		v.refusedChange("n2", q, "o9 is a voter", "remove it first")
		release(t, m)
		m = win(t, o9)
		release(t, m)
		m = win(t, nodes[1])
		v.changes("n1", memberRequest{Op: opRemove, ID: "o9"})
		v.changes("n1", q) // the same directory again, which remembers its votes
		v.has("n1, n2, n3|o9", append(nodes, o9)...)
		v.changes("n3", memberRequest{Op: opRemove, ID: "o9"})
		v.has("n1, n2, n3|", nodes...)

		// A voter moves: the same directory at another place.
		v.mu.Lock()
		v.moved = map[protocol.NodeID]string{"n3": "127.0.0.1:33"}
		v.mu.Unlock()
		v.changes("n1", memberRequest{Op: opReplace, ID: "n3", Addr: "127.0.0.1:33"})
		if got := nodes[1].membership.Load().Address("n3"); got != "127.0.0.1:33" {
			t.Errorf("n3 is at %s", got)
		}
		release(t, m)
	})
}

// TestOneVoterGrows: an election of one becomes one of three. That takes more than majorities of the nodes that
// answered before.
func TestOneVoterGrows(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		n := v.openAll()[0]
		m := win(t, n)
		v.refusedChange("n1", memberRequest{Op: opRemove, ID: "n1"}, "n1 is the only voter")
		v.join("n2")
		v.join("n3")
		if done := v.add("n1", "n2"); len(done.Warnings) != 1 || !strings.Contains(done.Warnings[0], "two voters") {
			t.Errorf("%q", done.Warnings)
		}
		v.add("n1", "n3")
		v.has("n1, n2, n3|", n)
		if l := n.Limits(); l.Takeover <= 0 || n.Plan().Tolerates != 1 {
			t.Errorf("%+v", l)
		}
		_ = v.node(t, "n2").Close()
		<-time.After(3 * time.Second)
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		release(t, m)
	})
}

// TestJoinFoundsNothing: nodes that wait to join found no election, neither with each other nor with a node that would.
func TestJoinFoundsNothing(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.change = func(cfg *setup) { cfg.Join = cfg.ID != "n1" }
		var nodes []*Node
		for _, id := range v.all {
			nodes = append(nodes, v.open(id))
		}
		<-time.After(20 * time.Second)
		for _, n := range nodes {
			if n.founded() || len(n.dir.Pins()) != 0 {
				t.Errorf("%s is founded, or has pinned %v", n.cfg.ID, n.dir.Pins())
			}
		}
		if s := nodes[0].Status(); !strings.Contains(s.Cause, "n2 waits to join an election (join=true), and n1 is in none yet") {
			t.Errorf("n1 says %v", s.Cause)
		}
		// Started rightly, they found it, and join=true does no harm any more.
		for _, n := range nodes[1:] {
			_ = n.Close()
		}
		v.change = nil
		n2, n3 := v.open("n2"), v.open("n3")
		<-time.After(time.Second)
		for _, n := range []*Node{nodes[0], n2, n3} {
			if !n.founded() {
				t.Errorf("%s is not founded: %v", n.cfg.ID, n.Status().Cause)
			}
		}
		_ = n2.Close()
		v.change = func(cfg *setup) { cfg.Join = true }
		release(t, win(t, v.open("n2")))
	})
}

// TestStaleVoter: a voter that missed all changes is let in by the new nodes and learns of the changes, although it
// knows none of these nodes. Its own membership does not count.
func TestStaleVoter(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		for _, id := range []protocol.NodeID{"n4", "n5"} {
			v.join(id)
			v.add("n1", id)
		}
		n4, n5 := v.node(t, "n4"), v.node(t, "n5")
		v.has("n1, n2, n3, n4, n5|", nodes[2])
		_ = nodes[2].Close() // with the membership of five
		v.changes("n1", memberRequest{Op: opRemove, ID: "n2"})
		v.join("n6")
		v.add("n1", "n6")
		release(t, m)
		m = win(t, n4)
		v.changes("n4", memberRequest{Op: opRemove, ID: "n1"})
		for _, n := range nodes {
			_ = n.Close()
		}
		// n3 knows n1, n2, n4 and n5; of those it still meets n4 and n5, and n6, which
		// it does not know, meets it.
		n3 := v.open("n3")
		n6 := v.node(t, "n6")
		v.has("n3, n4, n5, n6|", n3, n4, n5, n6)
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		// A wiped one of the same name is nobody, whatever its URL says.
		_ = n3.Close()
		if err := os.RemoveAll(n3.at.String()); err != nil {
			t.Fatal(err)
		}
		wiped := v.open("n3")
		o := within(t, campaign(t.Context(), wiped), "the end of the campaign of a wiped one")
		refusedFor(t, o.err, "was wiped")
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		release(t, m)
	})
}

// TestAdmitTo: which callers a founded node lets in.
func TestAdmitTo(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.obs = names("o", 1)
		nodes := v.openAll()
		release(t, win(t, nodes[0]))
		n := nodes[0]
		held := n.membership.Load().ID()
		newer, older := held, held
		newer.Version++
		older.Term--
		good := entrant{wire.Enter{Election: "job", Dir: nodes[1].self.Dir, Voters: v.all, Held: held}, "n2"}
		for _, c := range []struct {
			name   string
			code   wire.Code
			final  bool
			change func(*entrant)
		}{
			{"a voter", "", false, func(*entrant) {}},
			{"a voter with an old URL", "", false, func(h *entrant) { h.Voters = []protocol.NodeID{"x"} }},
			{"a voter that is behind", "", false, func(h *entrant) { h.Held = older }},
			{"a voter that has not been founded yet", "", false, func(h *entrant) { h.Held = protocol.ConfigID{} }},
			{"an observer", "", false, func(h *entrant) { h.ID, h.Dir = "o1", protocol.DirID{7} }},
			{"a wiped voter", wire.CodeDirectory, true, func(h *entrant) { h.Dir[0]++; h.Held = protocol.ConfigID{} }},
			{"a wiped voter that waits", wire.CodeDirectory, false, func(h *entrant) { h.Dir[0]++; h.Held, h.Join = protocol.ConfigID{}, true }},
			{"a voter of another founding", wire.CodeDirectory, true, func(h *entrant) { h.Dir[0]++; h.Held = older }},
			{"one that replaces a voter in a newer membership", "", false, func(h *entrant) { h.Dir[0]++; h.Held = newer }},
			{"a stranger", wire.CodeUnknown, true, func(h *entrant) { h.ID, h.Held = "n9", protocol.ConfigID{} }},
			{"one that waits to join", wire.CodeUnknown, false, func(h *entrant) { h.ID, h.Held, h.Join = "n9", protocol.ConfigID{}, true }},
			{"one that was removed", wire.CodeRemoved, true, func(h *entrant) { h.ID, h.Held = "n9", older }},
			{"one that was removed, and knows it", wire.CodeRemoved, true, func(h *entrant) { h.ID = "n9" }},
			{"one that was removed, and waits", wire.CodeRemoved, false, func(h *entrant) { h.ID, h.Held, h.Join = "n9", older, true }},
			{"one that knows more", "", false, func(h *entrant) { h.ID, h.Held = "n9", newer }},
		} {
			h := good
			c.change(&h)
			w, r := h.at(n, wire.Node)
			switch {
			case c.code == "" && (r != nil || w == nil || w.Membership == nil):
				t.Errorf("%s is refused: %+v", c.name, r)
			case c.code != "" && (r == nil || w != nil || r.Code != c.code || r.Final != c.final || !strings.Contains(r.Says, string(h.ID))):
				t.Errorf("%s: %+v, %+v; want it refused for %s, final %v", c.name, w, r, c.code, c.final)
			}
			if h.Held == newer { // nobody speaks for another by knowing more
				h.Held = protocol.ConfigID{}
				if _, r := h.at(n, wire.WitnessOf); r == nil {
					t.Errorf("a witness of %s is let in", c.name)
				}
			}
		}
		for i, w := range n.Plan().Warnings {
			t.Error(fmt.Sprint(i), w)
		}
	})
}
