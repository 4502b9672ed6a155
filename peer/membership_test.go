package peer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/wire"
)

// TestBootsWithItsDirectoryOnly: a node without a ballot takes a membership that a leader has made and that gives a
// vote to its id and its directory. It takes neither one with another directory nor one of a founding.
func TestBootsWithItsDirectoryOnly(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		n := v.join("n4")
		<-time.After(time.Second)
		told := func(change func(*protocol.Membership)) {
			ms := &protocol.Membership{ConfigTerm: 3, Version: 2, Voters: []protocol.Voter{{ID: "n1", Dir: protocol.DirID{1}}, {ID: "n4", Dir: n.self.Dir}}}
			change(ms)
			n.run.Call(func() { n.founding.welcomed("n1", &wire.Welcome{Membership: ms}) })
		}
		told(func(ms *protocol.Membership) { ms.Voters[1].Dir[0]++ })
		told(func(ms *protocol.Membership) { ms.Voters = ms.Voters[:1] })
		told(func(ms *protocol.Membership) { ms.Version = 1; ms.ConfigTerm = 4 })
		if n.founded() {
			t.Fatal("it takes part in a membership that has no vote for it")
		}
		told(func(ms *protocol.Membership) { ms.ConfigTerm = 5 })
		<-time.After(time.Second)
		if ms := n.membership.Load(); !n.founded() || ms.ConfigTerm != 5 || !n.membership.votes() {
			t.Errorf("%+v; want that it takes part", ms)
		}
	})
}

// TestRemovedByAMessage: the campaign of a candidate that learns from a message of its removal ends for good. With
// join=true it waits.
func TestRemovedByAMessage(t *testing.T) {
	for _, join := range []bool{false, true} {
		inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
			nodes := v.openAll()
			m := win(t, nodes[0])
			_ = nodes[2].Close()
			v.change = func(cfg *setup) { cfg.Join = join }
			n3 := v.open("n3")
			waiting := campaign(t.Context(), n3)
			<-time.After(time.Second)
			next := *nodes[0].membership.Load()
			next.Version, next.Voters, next.Addresses = next.Version+1, next.Voters[:2], next.Addresses[:2]
			v.isolate("n3", true)
			n3.run.Receive("n1", &protocol.Message{
				Type: quorum.Heartbeat, Dir: nodes[0].self.Dir, Incarnation: nodes[0].run.Incarnation(), Term: m.Token().Count(), Seq: 1 << 40, Membership: &next,
			}, 0, 0)
			if !join {
				refusedFor(t, within(t, waiting, "the end of the campaign").err, "n3 takes no part in membership", "the voters n1, n2")
				if s := n3.Status(); s.Role != "observer" || slices.Contains(s.Voters, "n3") {
					t.Errorf("it says %s of %v", s.Role, s.Voters)
				}
				return
			}
			<-time.After(time.Second)
			select {
			case o := <-waiting:
				t.Fatalf("the campaign has ended: %v", o.err)
			default:
			}
			v.isolate("n3", false)
			v.changes("n1", memberRequest{Op: opRemove, ID: "n3"})
			v.changes("n1", memberRequest{Op: opAdd, ID: "n3", Addr: v.peer("n3").Addr})
			v.has("n1, n2, n3|", nodes[0], nodes[1], n3)
			release(t, m)
			o := within(t, waiting, "the victory of one that was added again")
			if o.err != nil {
				t.Fatal(o.err)
			}
			release(t, o.m)
		})
	}
}

// TestFits: a membership that the disk has no place for is refused, when it is
// configured and when it is changed.
func TestFits(t *testing.T) {
	t.Parallel()
	cfg := setup{ID: "n1", Name: "job", Voters: ids3()}
	long := strings.Repeat("x", 60)
	for i := range protocol.MaxObservers {
		id := protocol.NodeID(long + string(rune('a'+i/26)) + string(rune('a'+i%26)))
		cfg.Observers = append(cfg.Observers, Peer{string(id), strings.Repeat("h", 240) + string(id) + ".example:7400"})
	}
	cfg.Insecure = true
	_, err := cfg.plan()
	if err == nil || !strings.Contains(err.Error(), "67 participants whose ids and addresses take") {
		t.Errorf("%v; want it refused", err)
	}
	cfg.Observers = cfg.Observers[:20]
	if _, err := cfg.plan(); err != nil {
		t.Error(err)
	}
	ms := cfg.founding()
	if b := (quorum.Ballot{Term: 1, Membership: ms, Incarnation: 1}).Append(nil); len(b) > disk.MaxBallot {
		t.Errorf("%d bytes fit", len(b))
	}
}

// TestAddresses: the addresses of the URL count until the membership is changed. Afterwards those of the membership
// come first.
func TestAddresses(t *testing.T) {
	t.Parallel()
	m := &membership{facts: &facts{cfg: setup{ID: "n1", Voters: ids3()}, dialect: quorumDialect{}, self: protocol.Voter{ID: "n1"}}}
	ms := m.cfg.founding()
	ms.Addresses[1].Addr = "127.0.0.1:99"
	ms.Voters = append(ms.Voters, protocol.Voter{ID: "n4"})
	ms.Addresses = append(ms.Addresses, protocol.Address{ID: "n4", Addr: "127.0.0.1:44"})
	ms.Observers = []protocol.NodeID{"o1"}
	for _, c := range []struct {
		version uint64
		want    map[protocol.NodeID][]string
	}{
		{1, map[protocol.NodeID][]string{"n2": {"127.0.0.1:2"}, "n3": {"127.0.0.1:3"}, "n4": {"127.0.0.1:44"}, "o1": {}}},
		{2, map[protocol.NodeID][]string{"n2": {"127.0.0.1:99", "127.0.0.1:2"}, "n3": {"127.0.0.1:3"}, "n4": {"127.0.0.1:44"}, "o1": {}}},
	} {
		ms.Version = c.version
		routes := m.routes(ms)
		if len(routes) != len(c.want) {
			t.Errorf("version %d: %v", c.version, routes)
		}
		for id, want := range c.want {
			if !slices.Equal(routes[id], want) {
				t.Errorf("version %d: %s at %q; want %q", c.version, id, routes[id], want)
			}
		}
	}
	m.self.Dir[0]++ // an observer dials voters only
	if _, ok := m.routes(ms)["o1"]; ok {
		t.Error("an observer talks to another")
	}
}
