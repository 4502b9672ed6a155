package link

import (
	"strings"
	"sync"
	"testing"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

func removed(id protocol.NodeID) *wire.Refusal {
	return &wire.Refusal{Code: wire.CodeRemoved, Says: string(id) + " takes no part any more"}
}

// TestSetPeers: new peers are dialled. A removed peer learns so and is heard no more. Neither looks like a death.
func TestSetPeers(t *testing.T) {
	for _, secured := range []bool{false, true} {
		w := &testNet{t: t}
		if secured {
			w = secure(t, "n1", "n2", "n3")
		}
		l1, l2, l3 := w.listen("n1"), w.listen("n2"), w.listen("n3")
		n1 := w.start("n1", l1, func(cfg *Config) { cfg.Peers = nil })
		n2 := w.start("n2", l2, func(cfg *Config) { cfg.Peers = nil })
		n3 := w.start("n3", l3, func(cfg *Config) { cfg.Peers = nil })
		held := protocol.ConfigID{Term: 3, Version: 1}
		n1.SetPeers(held, Peers{"n2": {w.addrs["n2"]}}, removed)
		n1.talk(n2, 1)
		n2.talk(n1, 2)
		if p := n1.Peers(); len(p) != 1 || p[0].Addr != w.addrs["n2"] {
			t.Fatalf("%+v", p)
		}
		if h := n1.Election.hello; h.Held != held {
			t.Errorf("Enter says %v; want %v", h.Held, held)
		}

		n1.SetPeers(held, Peers{"n1": {w.addrs["n1"]}, "n3": {w.addrs["n3"]}}, removed)
		n2.await(func(e event) bool {
			return e.kind == "refused" && e.refusal.Code == wire.CodeRemoved && strings.HasPrefix(e.refusal.Says, "n2 takes no part")
		}, "closed")
		n1.talk(n3, 3)
		n3.talk(n1, 4)
		harness.Eventually(t, "n2 without a connection", func() bool { return !n2.connected("n1") })
		n1.Send("n2", letter(9))
		if p := n1.Peers(); len(p) != 1 || p[0].ID != "n3" {
			t.Errorf("%+v; want n3 alone", p)
		}
		quiet(t, n2)
		quiet(t, n1)
		n1.Close()
		n1.SetPeers(held, Peers{"n2": {w.addrs["n2"]}}, removed)
		quiet(t, n2)
	}
}

// TestSetPeersFollowsAddresses: of two addresses the one is found at which the node
// is, and a changed one is dialled when there is no connection any more.
func TestSetPeersFollowsAddresses(t *testing.T) {
	w := secure(t, "n1", "n2")
	l2 := w.listen("n2")
	w.addrs["nobody"] = ""
	dead := w.listen("nobody")
	dead.Close()
	n2 := w.start("n2", l2, func(cfg *Config) { cfg.Peers = nil })
	n1 := w.start("n1", nil, func(cfg *Config) { cfg.Peers = Peers{"n2": {w.addrs["nobody"]}} })
	harness.Eventually(t, "refused", func() bool { return n1.peer("n2").Err != nil })
	n1.SetPeers(protocol.ConfigID{}, Peers{"n2": {w.addrs["nobody"], w.addrs["n2"]}}, removed)
	n1.talk(n2, 1)
	n1.SetPeers(protocol.ConfigID{}, Peers{"n2": nil}, removed)
	n1.talk(n2, 2) // who loses its address keeps its connection
	n1.conns("n2")[0].abort()
	harness.Eventually(t, "without a connection", func() bool { return !n1.connected("n2") })
	n2.kind("closed", "n1")
	n1.SetPeers(protocol.ConfigID{}, Peers{"n2": {w.addrs["n2"]}}, removed)
	n1.talk(n2, 3)
}

// TestRemovedWhileItIsAdmitted: Admit is asked again about a caller that was let in by rules that no longer hold.
func TestRemovedWhileItIsAdmitted(t *testing.T) {
	for _, dials := range []protocol.NodeID{"n1", "n2"} {
		w := &testNet{t: t}
		l1, l2 := w.listen("n1"), w.listen("n2")
		asked, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var mu sync.Mutex
		out := false
		n1 := w.start("n1", l1, func(cfg *Config) {
			if dials != "n1" {
				cfg.Peers = nil
			}
			cfg.Admit = func(from protocol.NodeID, _ *wire.Enter, _ wire.Caller) (*wire.Welcome, *wire.Refusal) {
				mu.Lock()
				r := out
				mu.Unlock()
				if r {
					return nil, removed(from)
				}
				once.Do(func() {
					close(asked)
					<-goOn
				})
				return nil, nil
			}
		})
		n2 := w.start("n2", l2, func(cfg *Config) {
			if dials != "n2" {
				cfg.Peers = nil
			}
		})
		<-asked
		mu.Lock()
		out = true
		mu.Unlock()
		n1.SetPeers(protocol.ConfigID{}, nil, removed)
		close(goOn)
		n2.kind("refused", "n1", "received")
		if len(n1.Peers()) != 0 {
			t.Errorf("%+v; want nobody", n1.Peers())
		}
	}
}

// TestPassing: a caller that Admit lets in and that is no peer is forgotten when it closes, and is kept when it becomes
// one.
func TestPassing(t *testing.T) {
	w := &testNet{t: t}
	l1 := w.listen("n1")
	n1 := w.start("n1", l1, nil)
	n1.SetPeers(protocol.ConfigID{}, nil, removed)
	n2 := w.start("n2", nil, nil)
	n2.talk(n1, 1)
	n1.talk(n2, 2)
	n2.Close()
	n1.kind("closed", "n2")
	harness.Eventually(t, "forgotten", func() bool { return len(n1.Peers()) == 0 })
	n3 := w.start("n3", nil, func(cfg *Config) { delete(cfg.Peers, "n2") })
	n3.talk(n1, 3)
	n1.SetPeers(protocol.ConfigID{}, Peers{"n3": nil}, removed)
	n1.talk(n3, 4)
	n3.Close()
	harness.Eventually(t, "gone", func() bool { return !n1.connected("n3") })
	if p := n1.Peers(); len(p) != 1 || p[0].ID != "n3" {
		t.Errorf("%+v; want n3", p)
	}
}

// TestSetPeersAgainstClose: whatever is under way, Close ends it.
func TestSetPeersAgainstClose(t *testing.T) {
	w := &testNet{t: t}
	l2 := w.listen("n2")
	w.start("n2", l2, func(cfg *Config) { cfg.Peers = nil })
	for range 30 {
		n1 := w.start("n1", nil, func(cfg *Config) { cfg.Peers = nil })
		var changing sync.WaitGroup
		changing.Go(func() {
			for i := range 20 {
				p := Peers{"n2": {w.addrs["n2"]}}
				if i%2 == 1 {
					p = nil
				}
				n1.SetPeers(protocol.ConfigID{}, p, removed)
			}
		})
		if err := n1.Close(); err != nil {
			t.Error(err)
		}
		changing.Wait()
	}
}
