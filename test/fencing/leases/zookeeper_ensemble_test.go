//go:build linux && cgo

package leases_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// ensemble is three servers of ZooKeeper, and three workers with a cable from each to each server.
type ensemble struct {
	*workers
	servers []*server.ZooKeeper
	cables  [3][3]*cable.Cable // by worker
}

func newEnsemble(t *testing.T) *ensemble {
	t.Helper()
	c := &ensemble{servers: server.StartZooKeepers(t, 3), workers: newWorkers(t)}
	for node := range c.cables {
		var places []string
		for i, s := range c.servers {
			k := cableTo(t, s.Addr)
			c.cables[node][i], places = k, append(places, k.Addr())
		}
		c.start(node, fmt.Sprintf("zookeeper://%s/ensemble?%s", strings.Join(places, ","), slow))
	}
	return c
}

// leads returns the server that is the ensemble's leader, and another.
func (c *ensemble) leads() (leader, follower *server.ZooKeeper) {
	c.t.Helper()
	harness.Eventually(c.t, "the ensemble has a leader", func() bool {
		leader, follower = ensembleLeader(c.servers)
		return leader != nil && follower != nil
	})
	return leader, follower
}

// ensembleLeader returns the server that says that it leads, and one that says that it follows, nil if none does.
func ensembleLeader(servers []*server.ZooKeeper) (leader, follower *server.ZooKeeper) {
	for _, s := range servers {
		switch s.Mode() {
		case "leader":
			leader = s
		case "follower":
			follower = s
		}
	}
	return leader, follower
}

// TestZooKeeperEnsemble: elections go on over faults of an ensemble and of the way to it. The proof of a leader lasts
// for 5 s here. In that time the ensemble elects another leader, and a client whose server has died, hangs or cannot be
// reached moves its session to another one; so the term goes on.
func TestZooKeeperEnsemble(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy")
	c := newEnsemble(t)
	kept := func(fault string, begin, end func(), lasts time.Duration) {
		t.Helper()
		if before, after := c.during(fault, begin, end, lasts); before.Token != after.Token {
			t.Errorf("%s: the term %d has ended; want it to go on", fault, before.Token)
		}
	}
	leader, follower := c.leads()
	kept("kill -9 of a follower", func() { follower.Kill(t) }, nil, 10*time.Second)
	follower.Start(t)
	leader, _ = c.leads()
	kept("kill -9 of the ensemble's leader", func() { leader.Kill(t) }, nil, 15*time.Second)
	leader.Start(t)
	for range 2 {
		_, follower = c.leads()
		kept("a follower is paused", func() { follower.Pause(t, true) }, func() { follower.Pause(t, false) }, 10*time.Second)
	}
	// The others take longer than a proof lasts to elect another one beside it.
	leader, _ = c.leads()
	c.during("the ensemble's leader is paused", func() { leader.Pause(t, true) }, func() { leader.Pause(t, false) }, 10*time.Second)
	c.leads()
	for i := range c.servers {
		cut := c.cables[c.leader().Node][i]
		kept(fmt.Sprintf("the client is cut from server %d", i+1), cut.Cut, cut.Heal, 10*time.Second)
	}
	// Cut from all servers, it loses its session while it is disconnected, and another takes over.
	at := c.leader()
	before, after := c.during("the client is cut from all servers", func() {
		for _, k := range c.cables[at.Node] {
			k.Cut()
		}
	}, nil, 25*time.Second)
	if before.Node == after.Node {
		t.Errorf("n%d leads on, and reaches no server", before.Node)
	}
	for _, k := range c.cables[at.Node] {
		k.Heal()
	}
	// Without a majority nobody leads, and with it there is a leader again.
	_, _ = c.during("two servers are killed", func() { c.servers[0].Kill(t); c.servers[1].Kill(t) }, func() {
		if l := c.last(); c.ledger.Now()-l.Last < int64(time.Second) {
			t.Errorf("n%d leads without a majority of the ensemble", l.Node)
		}
		server.RunZooKeepers(t, c.servers[:2]...)
	}, 10*time.Second)
}

// TestZooKeeperCheckIsAWrite: what proves that an entry exists is a transaction that only checks. A majority commits
// it, so a server that has lost its ensemble cannot answer it, although it answers reads.
func TestZooKeeperCheckIsAWrite(t *testing.T) {
	long.Full(t, "it starts an ensemble")
	t.Parallel()
	servers := server.StartZooKeepers(t, 3, "syncLimit=1000")
	client := servers[0].Client(t)
	if _, err := client.Create("/x", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		_, err := client.Multi(&zk.CheckVersionRequest{Path: "/x", Version: -1})
		return err
	}
	before := servers[0].Zxid()
	if err := check(); err != nil {
		t.Fatal(err)
	}
	if after := servers[0].Zxid(); after <= before {
		t.Errorf("the last transaction is %s after %s; want another one", after, before)
	}
	for _, s := range servers[1:] {
		s.Pause(t, true)
		t.Cleanup(func() { s.Pause(t, false) })
	}
	if _, _, err := client.Get("/x"); err != nil {
		t.Errorf("a read: %v; want an answer, though it may be old", err)
	}
	answered := make(chan error, 1)
	go func() { answered <- check() }()
	select {
	case err := <-answered:
		if err == nil {
			t.Error("a check is answered without a majority")
		}
	case <-time.After(time.Second):
	}
}

// TestZooKeeperEpoch: an ensemble that has had 65,536 leaders has ids of transactions that cannot be tokens. They are
// refused, and never become an era.
func TestZooKeeperEpoch(t *testing.T) {
	long.Full(t, "it starts a server")
	t.Parallel()
	s := server.StartZooKeepers(t, 3)
	for _, s := range s {
		s.Kill(t)
		for _, name := range []string{"currentEpoch", "acceptedEpoch"} {
			if err := os.WriteFile(filepath.Join(s.Data(), "version-2", name), []byte("65536"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	server.RunZooKeepers(t, s...)
	z := newZnodes(t, s[0])
	_, err := z.elector(t, "a", nil).Campaign(t.Context(), driver.Candidacy{Exclusive: true})
	if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "cannot be a token's count") {
		t.Errorf("%v; want that such an order cannot be a token", err)
	}
}
