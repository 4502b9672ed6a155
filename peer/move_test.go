package peer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// shifts are the times at which each node worked.
type shifts struct {
	mu  sync.Mutex
	all []shift
}

type shift struct {
	id         protocol.NodeID
	begun, end time.Time // end is zero while it goes on
}

// work has a node campaign and work, again and again, until ctx ends or it is
// refused for good, which is sent to ended.
func (s *shifts) work(ctx context.Context, n *Node, ended chan<- error) {
	for {
		m, err := n.Campaign(ctx, driver.Candidacy{Exclusive: true})
		if err != nil {
			ended <- err
			return
		}
		s.mu.Lock()
		s.all = append(s.all, shift{id: n.cfg.ID, begun: time.Now()})
		i := len(s.all) - 1
		s.mu.Unlock()
		select {
		case <-m.Context().Done():
		case <-ctx.Done(): // the end of the test
		}
		s.mu.Lock()
		s.all[i].end = time.Now()
		s.mu.Unlock()
		_ = m.Release(ctx)
	}
}

// gaps returns for how long no node worked between any two shifts, and which shifts overlap.
func (s *shifts) gaps() (gaps []time.Duration, overlap string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.all); i++ {
		a, b := s.all[i-1], s.all[i]
		if a.end.IsZero() || b.begun.Before(a.end) {
			overlap = fmt.Sprintf("%s is at work since %v, and %s since %v", a.id, a.begun, b.id, b.begun)
			continue
		}
		gaps = append(gaps, b.begun.Sub(a.end))
	}
	return gaps, overlap
}

func (s *shifts) last() protocol.NodeID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 || !s.all[len(s.all)-1].end.IsZero() {
		return ""
	}
	return s.all[len(s.all)-1].id
}

// TestMoveForReal: three nodes become five others, at other addresses, over TCP, while they work. The old ones hand
// over and are removed. No time without a leader is longer than a promise.
func TestMoveForReal(t *testing.T) {
	long.Test(t, "it waits for real time; TestMoveEverything is the same in fake time")
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false)
	c.change = func(cfg *setup) { cfg.Heartbeat, cfg.Promise = 0, 5*time.Second } // a busy machine keeps it
	c.startAll()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	s := new(shifts)
	ended := make(map[protocol.NodeID]chan error)
	begin := func(n *Node) {
		end := make(chan error, 1)
		ended[n.cfg.ID] = end
		working.Go(func() { s.work(ctx, n, end) })
	}
	for _, id := range c.voters {
		begin(c.node(id))
	}
	eventually(t, func() bool { return s.last() != "" }, func() string { return "nobody leads" })

	client, err := newClient(c.config("visitor"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	known := slices.Clone(c.voters) // in the URLs of those who join
	changes := 0
	changed := func(what string, m *MemberChange, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !m.Changed {
			t.Errorf("%s: it was so already", what)
		}
		changes += len(m.Steps)
	}
	add := func(id protocol.NodeID) {
		t.Helper()
		cfg := c.config(id)
		cfg.Join, cfg.Voters = true, nil
		for c.addrs[id] == "" {
			c.addrs[id] = harness.FreeAddr(t)
		}
		for _, v := range append(slices.Clone(known), id) {
			cfg.Voters = append(cfg.Voters, Peer{string(v), c.addrs[v]})
		}
		n, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.nodes[id] = n
		c.mu.Unlock()
		begin(n)
		m, err := client.AddMember(t.Context(), Peer{string(id), c.addrs[id]}, false, nil)
		changed("add "+string(id), m, err)
	}
	handovers := 0
	hand := func(to protocol.NodeID) {
		t.Helper()
		handovers++
		if err := client.Transfer(t.Context(), 0, string(to)); err != nil {
			t.Fatalf("transfer to %s: %v", to, err)
		}
		eventually(t, func() bool { return s.last() == to }, func() string { return fmt.Sprintf("%s does not lead, but %s", to, s.last()) })
	}
	began := time.Now()
	add("n4")
	add("n5")
	known = []protocol.NodeID{"n4", "n5"}
	hand("n4")
	again, err := newClient(setup{Name: c.name, Voters: []Peer{{"n4", c.addrs["n4"]}, {"n5", c.addrs["n5"]}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	client = again
	for i, id := range c.voters {
		m, err := client.RemoveMember(t.Context(), string(id), nil)
		changed("remove "+string(id), m, err)
		refusedFor(t, within(t, ended[id], "the end of the one that was removed"), string(id)+" takes no part in membership")
		c.stop(id)
		add(protocol.NodeID(fmt.Sprintf("n%d", 6+i)))
	}
	hand("n8")
	took := time.Since(began)
	final := []protocol.NodeID{"n4", "n5", "n6", "n7", "n8"}
	for _, id := range final {
		eventually(t, func() bool { return slices.Equal(c.node(id).Status().Voters, texts(final)) }, func() string {
			return fmt.Sprintf("%s has %v", id, c.node(id).Status().Voters)
		})
	}
	gaps, overlap := s.gaps()
	if overlap != "" {
		t.Error(overlap)
	}
	promise := c.node("n8").plan.Promise
	for i, g := range gaps {
		if g > promise {
			t.Errorf("gap %d: nobody was at work for %v; want at most a promise, %v", i, g, promise)
		}
	}
	t.Logf("%d memberships and %d hand-overs in %v; nobody at work for %v", changes, handovers, took.Round(time.Millisecond), gaps)
}
