package peer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// A client and real nodes: leader, statuses, requests to resign, history.
func TestClientOfNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 3), names("o", 1), false).steady()
	c.startAll()
	cfg := c.config("visitor")
	client, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	sees(t, client, "that nobody leads", func(s driver.State) bool { return s.Leader == nil && !s.Stale })
	if err := client.Resign(t.Context(), 0); !errors.Is(err, driver.ErrNoLeader) {
		t.Errorf("Resign of nobody: %v", err)
	}

	leader := c.node("n2")
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	m, err := leader.Campaign(ctx, driver.Candidacy{Exclusive: true, Metadata: map[string]string{"address": "here"}})
	if err != nil {
		t.Fatal(err)
	}
	s := sees(t, client, "the leader", leads(m))
	if s.Leader.ID != "n2" || s.Leader.Metadata["address"] != "here" || time.Since(s.Leader.Since).Abs() > time.Hour {
		t.Errorf("the leader is shown as %+v", s.Leader)
	}

	eventually(t, func() bool { return c.node("n1").Status().Leader != nil }, func() string { return "n1 does not see the leader" })
	for i, r := range client.Statuses(t.Context()) {
		if i == 3 { // which does not listen
			if r.Peer.ID != "o1" || r.Err == nil {
				t.Errorf("%+v, %v; want that o1 has no address", r.Peer, r.Err)
			}
			continue
		}
		if r.Err != nil {
			t.Errorf("%s: %v", r.Peer, r.Err)
			continue
		}
		st := r.Status
		if st.ID != r.Peer.ID || st.Election != c.name || !st.Founded || st.Incarnation == 0 || st.Term == 0 || st.Plan.Promise != c.lasts ||
			len(st.Voters) != 3 || len(st.Peers) < 2 || st.Counters.Saves == 0 || time.Since(st.Started).Abs() > time.Hour {
			t.Errorf("%s says %+v", r.Peer, st)
		}
		for _, p := range st.Peers {
			voter := p.ID != string(protocol.NodeID("o1"))
			if !p.Connected || p.Error != "" || voter && (p.LastContact < 0 || p.LastContact > patience()) {
				t.Errorf("%s says of %s: %+v", r.Peer, p.ID, p)
			}
		}
		leads := st.ID == "n2"
		if leads && (st.Role != "leader" || st.Token != m.Token() || !st.Active || st.LeaseLeft <= 0 || st.LeaseLeft > c.lasts || st.Counters.Elections != 1) {
			t.Errorf("the leader says %+v", st)
		}
		if !leads && (st.Role != "follower" || st.Token != 0 || st.Active || st.LeaseLeft != 0) {
			t.Errorf("%s, who follows, says %+v", st.ID, st)
		}
	}

	if err := client.Resign(t.Context(), m.Token()+1); !errors.Is(err, driver.ErrSuperseded) {
		t.Errorf("Resign of another token: %v", err)
	}
	if m.Check() != nil {
		t.Errorf("a Resign of another token ended the mandate: %v", m.Check())
	}
	if err := client.Resign(t.Context(), m.Token()); err != nil {
		t.Errorf("Resign: %v", err)
	}
	<-m.Context().Done()
	if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrResigned) {
		t.Errorf("the mandate ended with %v; want ErrResigned", err)
	}
	release(t, m)
	sees(t, client, "that nobody leads", func(s driver.State) bool { return s.Leader == nil && !s.Stale })

	// By way of a node that does not lead.
	m = win(t, c.node("n3"))
	sees(t, c.node("n1"), "the leader", leads(m))
	if err := c.node("n1").Resign(t.Context(), 0); err != nil {
		t.Errorf("Resign by n1: %v", err)
	}
	<-m.Context().Done()
	release(t, m)

	var history []Event
	told := func(leader protocol.NodeID, event string) bool {
		for _, e := range history {
			if e.Leader == string(leader) && e.Event == event && e.Token.Valid() && time.Since(e.At).Abs() < time.Hour {
				return true
			}
		}
		return false
	}
	eventually(t, func() bool {
		history, err = client.History(t.Context())
		return told("n2", eventElected) && told("n2", eventActive) && told("n2", eventLost) && told("n3", eventLost)
	}, func() string { return "the history lacks something" })
	for i, e := range history {
		if i > 0 && e.Token < history[i-1].Token {
			t.Errorf("%+v after %+v", e, history[i-1])
		}
	}
	if err != nil {
		t.Errorf("the history: %v", err)
	}

	// The client shows what was last known when all nodes are gone.
	for _, id := range c.voters {
		c.stop(id)
	}
	s = sees(t, client, "that nobody can be asked", func(s driver.State) bool { return s.Stale })
	if !errors.Is(s.Cause, driver.ErrUnreachable) {
		t.Errorf("the cause is %v", s.Cause)
	}
}
