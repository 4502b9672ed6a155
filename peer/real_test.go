package peer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
)

// These tests use real sockets on the loopback.

func TestPortTaken(t *testing.T) {
	c := newCluster(t, names("n", 3), nil, false)
	l, err := net.Listen("tcp", c.addrs["n1"])
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(t.Context(), c.config("n1"))
	if err == nil || driver.IsPermanent(err) || !strings.Contains(err.Error(), "n1 cannot listen on "+c.addrs["n1"]) || !strings.Contains(err.Error(), "listen=ADDR") {
		t.Errorf("a port that is taken: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.startAll() // nothing was left behind
	release(t, win(t, c.node("n1")))
}

// TestTwoWithOneID: a second process under an id that is in use is refused, with
// the reason; the first and the leader are undisturbed.
func TestTwoWithOneID(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false).steady()
	c.startAll()
	m := win(t, c.node("n1"))
	// On the same directory.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	_, err := open(ctx, c.config("n2"))
	cancel()
	if err == nil || !strings.Contains(err.Error(), "uses it") {
		t.Errorf("a second process on one directory: %v", err)
	}
	// On a directory of its own.
	cfg := c.config("n2")
	cfg.Data, cfg.Listen = t.TempDir(), harness.FreeAddr(t)
	n, err := open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	sees(t, n, "that it is refused", func(s driver.State) bool {
		return s.Cause != nil && strings.Contains(s.Cause.Error(), "n1 refuses this node: ")
	})
	if err := m.Check(); err != nil {
		t.Errorf("the leader was disturbed: %v", err)
	}
	release(t, m)
	release(t, win(t, c.node("n2")))
	// When the first has gone it still is not that one.
	c.stop("n2")
	ctx, cancel = context.WithTimeout(t.Context(), patience())
	defer cancel()
	_, err = n.Campaign(ctx, driver.Candidacy{})
	refusedFor(t, err, "knows n2 by the data directory")
}

// TestNineAndTwenty: the most voters, and many observers, all of which see the leader's metadata.
func TestNineAndTwenty(t *testing.T) {
	long.Test(t, "it connects 29 nodes")
	t.Parallel()
	c := newCluster(t, names("n", protocol.MaxVoters), names("o", 20), false).steady()
	c.change = func(cfg *setup) { cfg.Logger, cfg.Insecure = nil, true } // so many handshakes take long under the race detector
	c.startAll()
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	want := map[string]string{"address": "10.0.0.1:80"}
	m, err := c.node("n4").Campaign(ctx, driver.Candidacy{Exclusive: true, Metadata: want})
	if err != nil {
		t.Fatal(err)
	}
	for id, n := range c.nodes {
		if s := sees(t, n, "the leader", leads(m)); s.Leader.ID != "n4" || !maps.Equal(s.Leader.Metadata, want) {
			t.Errorf("%s sees %+v", id, s.Leader)
		}
	}
	if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
		t.Errorf("Confirm: %v", err)
	}
	release(t, m)
}

// TestResignFromElsewhere: each node passes a request to resign on.
func TestResignFromElsewhere(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 3), names("o", 1), false).steady()
	c.startAll()
	for _, from := range []protocol.NodeID{"n2", "o1"} {
		m := win(t, c.node("n1"))
		n := c.node(from)
		sees(t, n, "the leader", leads(m))
		if err := n.Resign(t.Context(), m.Token()+1); !errors.Is(err, driver.ErrSuperseded) {
			t.Errorf("Resign of another token by %s: %v", from, err)
		}
		if err := n.Resign(t.Context(), m.Token()); err != nil {
			t.Errorf("Resign by %s: %v", from, err)
		}
		within(t, m.Context().Done(), "the end of a recalled term")
		if cause := context.Cause(m.Context()); !errors.Is(cause, driver.ErrResigned) {
			t.Errorf("the cause is %v", cause)
		}
		release(t, m)
	}
}

// TestWitness: with the word of a witness the next leader does not wait for what was promised to the dead one.
// Repeated, it does no harm to the next life of that node.
func TestWitness(t *testing.T) {
	long.Test(t, "it waits for a promise of 5 s")
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false)
	c.change = func(cfg *setup) { cfg.Heartbeat, cfg.Promise = 250*time.Millisecond, 5*time.Second }
	c.startAll()
	m := win(t, c.node("n1"))
	next := campaign(t.Context(), c.node("n2"))
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	data := m.(driver.Attestable).Testament().Data
	witness := func() func(context.Context) error {
		t.Helper()
		speak, err := Witness(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		return speak
	}
	speak := witness()
	sees(t, c.node("n2"), "the leader", leads(m))
	c.stop("n1") // it releases nothing: its work might run
	start := time.Now()
	if err := speak(ctx); err != nil {
		t.Fatalf("the witness was not heard: %v", err)
	}
	o := within(t, next, "the next leader")
	if o.err != nil {
		t.Fatal(o.err)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("after the word of a witness it took %v until another was active; what was promised lasts up to 5 s", took)
	} else {
		t.Logf("another was active %v after the death", took)
	}

	next = campaign(ctx, c.start("n1"))
	hands := o.m.(driver.MandateTransferrer)
	eventually(t, func() bool { return hands.Eligible("n1") == nil }, func() string { return fmt.Sprint(hands.Eligible("n1")) })
	if err := hands.Transfer(ctx, "n1"); err != nil {
		t.Errorf("Transfer: %v", err)
	}
	o = within(t, next, "the next life's victory")
	if m = o.m; o.err != nil {
		t.Fatal(o.err)
	}
	if err := witness()(ctx); err != nil {
		t.Fatalf("the witness was not heard again: %v", err)
	}
	if err := m.(driver.Confirmer).Confirm(ctx); err != nil {
		t.Errorf("after the word about its earlier life the voters answer the next one so: %v", err)
	}
	if err := m.Check(); err != nil {
		t.Errorf("the word about an earlier life has ended the term of the next one: %v", err)
	}
	release(t, m)
}

// TestCertificates: peers with certificates elect, and one with a certificate of
// another authority is refused.
func TestCertificates(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 3), nil, false).steady()
	dir := t.TempDir()
	var all []certs.Node
	for _, id := range c.voters {
		all = append(all, certs.Node{ID: string(id), Hosts: []string{"127.0.0.1"}})
	}
	if err := certs.Make(dir, certs.Options{Cluster: "prod", Nodes: all}); err != nil {
		t.Fatal(err)
	}
	c.change = func(cfg *setup) { cfg.Certs = dir }
	c.startAll()
	if got := c.node("n1").cfg.Cluster; got != "prod" {
		t.Errorf("the cluster is %q; want that of the certificate", got)
	}
	m := win(t, c.node("n1"))
	sees(t, c.node("n3"), "the leader", leads(m))
	c.stop("n3")

	other := t.TempDir()
	if err := certs.Make(other, certs.Options{Cluster: "prod", Nodes: all}); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*setup){
		"another authority": func(cfg *setup) { cfg.Certs = other },
		"no certificate":    func(cfg *setup) { cfg.Certs, cfg.Cluster = "", "prod" },
	} {
		c.change = change
		n, err := open(t.Context(), c.config("n3"))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		s := sees(t, n, "that it is alone", func(s driver.State) bool { return s.Stale && s.Cause != nil })
		t.Logf("%s: %v", what, s.Cause)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := m.Check(); err != nil {
		t.Errorf("the leader was disturbed: %v", err)
	}
	cfg := c.config("n1")
	cfg.ID, cfg.Certs, cfg.Cluster = "n2", dir, "staging"
	_, err := open(t.Context(), cfg)
	refusedFor(t, err, `of cluster "prod"`)
	release(t, m)
}
