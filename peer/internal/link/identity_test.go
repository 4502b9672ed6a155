package link

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// looking has a node look at certificates all the time.
func looking(cfg *Config) { cfg.Look = 5 * time.Millisecond }

// TestMadeAnew: when certificates are renewed all connections are made anew with them, and no node takes that for a
// death. The same holds for a change of the authority.
func TestMadeAnew(t *testing.T) {
	w := secure(t, "n1", "n2")
	l1, l2 := w.listen("n1"), w.listen("n2")
	n1, n2 := w.start("n1", l1, looking), w.start("n2", l2, looking)
	n1.talk(n2, 1)
	n2.talk(n1, 2)
	seq := uint64(3)
	for _, do := range []func() error{
		func() error { _, err := certs.Renew(w.dir, certs.RenewOptions{}); return err },
		func() error { return certs.BeginRollover(w.dir) },
		func() error { _, err := certs.Renew(w.dir, certs.RenewOptions{Names: []string{"n2"}}); return err },
		func() error { _, err := certs.Renew(w.dir, certs.RenewOptions{}); return err },
		func() error { return certs.FinishRollover(w.dir) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "connected with what the files hold", func() bool {
			for _, n := range []*resident{n1, n2} {
				other := map[*resident]*resident{n1: n2, n2: n1}[n]
				all := n.conns(other.id)
				if len(all) == 0 {
					return false
				}
				state, _ := all[len(all)-1].shown()
				shown := state.PeerCertificates[0].NotAfter
				if refused, _ := n.Link.cfg.TLS.Recheck(state); refused != nil || !shown.Equal(other.Link.cfg.TLS.Expires()) || all[len(all)-1].version != n.Link.cfg.TLS.Version() {
					return false
				}
			}
			return true
		})
		n1.talk(n2, seq) // which fails if a death was told before
		n2.talk(n1, seq+1)
		seq += 2
	}
}

// TestAuthorityIsRemoved: a connection with one whose certificate is of an authority
// that is trusted no more is ended, with the reason.
func TestAuthorityIsRemoved(t *testing.T) {
	w := secure(t, "n1", "n2")
	own := t.TempDir() // of n2, which gets nothing new
	for _, name := range []string{"ca.crt", "n2.crt", "n2.key"} {
		data, err := os.ReadFile(filepath.Join(w.dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(own, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	identity, err := certs.LoadDir(own, "n2")
	if err != nil {
		t.Fatal(err)
	}
	l1, l2 := w.listen("n1"), w.listen("n2")
	n1 := w.start("n1", l1, looking)
	n2 := w.start("n2", l2, func(cfg *Config) { looking(cfg); cfg.TLS = identity })
	n1.talk(n2, 1)
	if err := certs.BeginRollover(w.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Renew(w.dir, certs.RenewOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := certs.FinishRollover(w.dir); err != nil {
		t.Fatal(err)
	}
	n1.logged("a connection is ended", "n2", "signed by another CA")
	if e := n2.kind("refused", "n1", "closed"); e.refusal.Code != wire.CodeCertificate {
		t.Errorf("%v", e)
	}
	harness.Eventually(t, "disconnected", func() bool { return !n1.connected("n2") })
}

// TestConnectionsOutliveACertificate: connections between nodes outlive a certificate for a while, with a warning.
// Those of clients do not.
func TestConnectionsOutliveACertificate(t *testing.T) {
	w := secure(t, "n1")
	const valid = 5 * time.Second // time enough to connect on a busy machine
	if err := certs.Make(w.dir, certs.Options{
		Cluster: "test", Nodes: []certs.Node{{ID: "n2"}}, Operators: []certs.OperatorSpec{{Role: certs.Observe, Name: "alice"}}, Valid: valid,
	}); err != nil {
		t.Fatal(err)
	}
	l1, l2 := w.listen("n1"), w.listen("n2")
	n1 := w.start("n1", l1, func(cfg *Config) {
		looking(cfg)
		cfg.Serve = func(context.Context, Caller, *wire.Request, func(*wire.Response) error) {}
	})
	n2 := w.start("n2", l2, looking)
	n1.talk(n2, 1)
	alice := w.identity("~observe/alice")
	client, err := Dial(within(t), ClientConfig{Addr: w.addrs["n1"], Hello: w.hello(""), About: "e", TLS: alice, Expect: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	select {
	case <-client.Done():
	case <-time.After(deadline):
		t.Fatal("the connection of a client has outlived its certificate")
	}
	if r, ok := errors.AsType[*wire.Refusal](client.err); !ok || r.Code != wire.CodeCertificate {
		t.Errorf("%v; want a refusal for the certificate", client.err)
	}
	n1.logged("certificates want a look", "the certificate that n2 has shown has expired", "elect certs renew n2")
	n2.logged("certificates want a look", "n2.crt: it expired on ", "the next start will fail", "elect certs renew n2")
	n1.talk(n2, 2)
	n2.talk(n1, 3)

	// A new one is refused, with the remedy, and not for good: it may be renewed.
	if _, err := Dial(within(t), ClientConfig{Addr: w.addrs["n1"], Hello: w.hello(""), About: "e", TLS: alice, Expect: "n1"}); err == nil {
		t.Error("an expired certificate is accepted")
	} else if r, ok := errors.AsType[*wire.Refusal](err); !ok || r.Final {
		t.Errorf("%v; want a refusal that is not final", err)
	}
	if _, err := certs.Renew(w.dir, certs.RenewOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "connected anew", func() bool {
		all := n1.conns("n2")
		if len(all) == 0 {
			return false
		}
		state, _ := all[len(all)-1].shown()
		refused, _ := n1.Link.cfg.TLS.Recheck(state)
		return refused == nil
	})
	n1.talk(n2, 4)
}
