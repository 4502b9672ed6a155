//go:build linux && cgo

package leases_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/fencing/server"
)

// cluster is an etcd of three members, and three workers with a cable from each to each member.
type cluster struct {
	*workers
	members []*server.Etcd
	cables  [3][3]*cable.Cable // by worker
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{members: server.StartEtcdCluster(t, 3, "--unsafe-no-fsync"), workers: newWorkers(t)}
	for node := range c.cables {
		var places []string
		for i, m := range c.members {
			k := cableTo(t, strings.TrimPrefix(m.URL, "http://"))
			c.cables[node][i], places = k, append(places, k.Addr())
		}
		c.start(node, fmt.Sprintf("etcd://%s/cluster?%s", strings.Join(places, ","), slow))
	}
	return c
}

// leads returns the member that is etcd's leader, and another.
func (c *cluster) leads() (leader, follower *server.Etcd) { return etcdLeader(c.t, c.members) }

func etcdLeader(t *testing.T, members []*server.Etcd) (leader, follower *server.Etcd) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		for i, m := range members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s, err := m.Client(t).Status(ctx, m.URL)
			cancel()
			if err == nil && s.Leader == s.Header.MemberId {
				return m, members[(i+1)%len(members)]
			}
		}
	}
	t.Fatal("etcd has no leader")
	return nil, nil
}

// TestEtcdCluster: elections go on over faults of a cluster of etcd and of the way to it. The proof of
// a leader lasts for 5 s here. In that time etcd elects another leader, and the client turns to another
// member when one does not answer, so the term goes on.
func TestEtcdCluster(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy")
	c := newCluster(t)
	kept := func(fault string, begin, end func(), lasts time.Duration) {
		t.Helper()
		if before, after := c.during(fault, begin, end, lasts); before.Token != after.Token {
			t.Errorf("%s: the term %d has ended; want it to go on", fault, before.Token)
		}
	}
	for range 3 {
		kept("move-leader", func() {
			leader, follower := c.leads()
			s, err := follower.Client(t).Status(t.Context(), follower.URL)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := leader.Client(t).MoveLeader(t.Context(), s.Header.MemberId); err != nil {
				t.Fatal(err)
			}
		}, nil, 3*time.Second)
	}
	leader, follower := c.leads()
	kept("kill -9 of etcd's leader", func() { leader.Kill(t) }, nil, 15*time.Second)
	leader.Start(t)
	leader, follower = c.leads()
	kept("a follower is paused", func() { follower.Pause(t, true) }, func() { follower.Pause(t, false) }, 15*time.Second)
	leader, _ = c.leads()
	// When it goes on after a lease, it may end leases that were renewed meanwhile (docs/etcd.md).
	c.during("etcd's leader is paused", func() { leader.Pause(t, true) }, func() { leader.Pause(t, false); <-time.After(5 * time.Second) }, 15*time.Second)
	for i := range c.members {
		cut := c.cables[c.leader().Node][i]
		kept(fmt.Sprintf("the client is cut from member %d", i+1), cut.Cut, cut.Heal, 15*time.Second)
	}
	// Cut from all members, it loses its lease, and another takes over.
	at := c.leader()
	before, after := c.during("the client is cut from all members", func() {
		for _, k := range c.cables[at.Node] {
			k.Cut()
		}
	}, nil, 25*time.Second)
	if before.Node == after.Node {
		t.Errorf("n%d leads on, and reaches no member", before.Node)
	}
	for _, k := range c.cables[at.Node] {
		k.Heal()
	}
	// Without a majority nobody leads, and with it there is a leader again.
	_, _ = c.during("two members are killed", func() { c.members[0].Kill(t); c.members[1].Kill(t) }, func() {
		if l := c.last(); c.ledger.Now()-l.Last < int64(time.Second) {
			t.Errorf("n%d leads without a majority of etcd", l.Node)
		}
		server.StartEtcds(t, c.members[:2]...)
	}, 10*time.Second)
}

// last is the life that was stamped last.
func (w *workers) last() (last lives.Life) {
	for _, l := range w.ledger.Since(0) {
		if l.Last > last.Last {
			last = l
		}
	}
	return last
}
