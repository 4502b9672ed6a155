package peer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
)

// TestClientChanges: the client asks the leader, or another node that passes it on. It tells the answers apart, and
// does not skip a node that may have heard the request.
func TestClientChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNodes("n1", "n2", "n3")
		w.sees(ledBy("n2", 5), "n1", "n2", "n3")
		c := w.client(t)
		defer c.Close()
		add := func() (*MemberChange, []string, error) {
			var steps []string
			m, err := c.AddMember(t.Context(), Peer{"n4", "127.0.0.1:4"}, false, func(s string) { steps = append(steps, s) })
			return m, steps, err
		}
		m, steps, err := add()
		if err != nil || !m.Changed || !slices.Equal(steps, []string{"add n4"}) || m.Membership.Version() != "3.2" {
			t.Errorf("%+v, %q, %v", m, steps, err)
		}
		if n := w.dialled("n1") + w.dialled("n3"); n > 2 || w.dialled("n2") == 0 { // to look; and to ask the leader alone
			t.Errorf("the others were dialled %d times, the leader %d", n, w.dialled("n2"))
		}
		if _, err := c.ReplaceMember(t.Context(), Peer{ID: "n2"}, nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "n2 leads") {
			t.Errorf("%v; want it refused", err)
		}
		w.nodes["n2"].vague = true
		if _, _, err := add(); !errors.Is(err, driver.ErrUnknownOutcome) {
			t.Errorf("%v; want that the outcome is unknown", err)
		}
		w.nodes["n2"].vague = false

		w.is(lost, "n2")
		if m, _, err := add(); err != nil || !m.Changed {
			t.Errorf("by way of another: %+v, %v", m, err)
		}
		w.is(frozen, "n1") // it hears, and does not answer
		w.is(down, "n3")
		if _, _, err := add(); !errors.Is(err, driver.ErrUnknownOutcome) && !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%v; want no word of success", err)
		}
		w.is(healthy, "n1", "n2", "n3")
		w.sees(driver.State{}, "n1", "n2", "n3")
		if _, err := c.RemoveMember(t.Context(), "n3", nil); !errors.Is(err, driver.ErrNoLeader) {
			t.Errorf("%v; want that nobody leads", err)
		}
		for _, p := range []Peer{{"n4", ""}, {"n 4", "127.0.0.1:4"}, {"n4", "127.0.0.1"}} {
			_, err := c.AddMember(t.Context(), p, false, nil)
			refusedFor(t, err, "want")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.sees(ledBy("n2", 6), "n1", "n2", "n3")
		w.is(lost, "n1", "n2", "n3")
		if _, err := c.RemoveMember(ctx, "n3", nil); err == nil || errors.Is(err, ErrRefused) {
			t.Errorf("%v; want that nobody could be asked", err)
		}
	})
}

// TestMembersOfOthers: the client also asks the nodes that others name, and nodes that have moved where they are now.
func TestMembersOfOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false)
	c.startAll()
	m := win(t, c.node("n1"))
	cfg := c.config("n1")
	cfg.ID, cfg.Voters = "", []Peer{{"n1", c.addrs["n1"]}, {"n2", harness.FreeAddr(t)}} // the one is not listed, the other elsewhere
	client, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if n := len(client.Statuses(t.Context())); n != 2 {
		t.Errorf("%d statuses; want those of the configuration", n)
	}
	all := client.Members(t.Context())
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	for i, r := range all {
		if r.Err != nil || r.Peer.ID != string(c.voters[i]) || r.Status.ID != r.Peer.ID || r.Peer.Addr != c.addrs[protocol.NodeID(r.Peer.ID)] {
			t.Errorf("%+v", r)
		}
	}
	if err := client.Pause(t.Context(), "n2"); err != nil || !c.node("n2").pausing.isPaused() {
		t.Errorf("one who has moved: %v; it is paused: %v", err, c.node("n2").pausing.isPaused())
	}
	if ms := Newest(all); ms == nil || len(ms.Voters) != 3 || ms.Term != m.Token().Count() {
		t.Errorf("%+v", ms)
	}
	release(t, m)
}
