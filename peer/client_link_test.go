package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// onTCP serves the nodes on the loopback, through real links, and returns what a client needs to find them.
func onTCP(t *testing.T, w *fakeNodes, identity func(id string) *certs.Identity) setup {
	t.Helper()
	cfg := setup{Name: "nightly", Config: Config{Cluster: "blue", Insecure: identity == nil}}
	voters := []protocol.NodeID{"n1", "n2", "n3"}
	for i, id := range voters {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Voters = append(cfg.Voters, Peer{ID: string(id), Addr: l.Addr().String()})
		n := w.nodes[id]
		lc := link.Config{
			HostConfig: link.HostConfig{
				Hello: wire.Hello{
					Version: wire.Version, Oldest: wire.Oldest, Caller: wire.Node, Cluster: "blue", ID: id,
					Dir: protocol.DirID{byte(i + 1)}, Starts: 1, Life: uint64(i + 1),
				},
				Listener: l, Idle: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
			},
			Enter: wire.Enter{Election: "nightly", Dir: protocol.DirID{byte(i + 1)}, Incarnation: 1, Voters: voters},
			Admit: func(protocol.NodeID, *wire.Enter, wire.Caller) (*wire.Welcome, *wire.Refusal) {
				return &wire.Welcome{}, nil
			},
			Welcomed: func(protocol.NodeID, *wire.Welcome) {},
			Refused:  func(protocol.NodeID, *wire.Refusal) {},
			Receive:  func(protocol.NodeID, *wire.Letter) {},
			Closed:   func(protocol.NodeID, uint64) {},
			Serve: func(ctx context.Context, from link.Caller, q *wire.Request, reply func(*wire.Response) error) {
				answer(ctx, n, slog.New(slog.DiscardHandler), from, q, reply)
			},
		}
		if identity != nil {
			lc.TLS = identity(string(id))
		}
		served := link.Start(lc)
		t.Cleanup(func() {
			if err := served.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return cfg
}

func closing(t *testing.T, cfg setup) *Client {
	t.Helper()
	c, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// authority makes certificates for the three nodes and the operator.
func authority(t *testing.T) (dir string, identity func(id string) *certs.Identity) {
	t.Helper()
	dir = t.TempDir()
	o := certs.Options{Cluster: "blue"}
	for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		o.Nodes = append(o.Nodes, certs.Node{ID: string(id), Hosts: []string{"127.0.0.1"}})
	}
	if err := certs.Make(dir, o); err != nil {
		t.Fatal(err)
	}
	return dir, func(id string) *certs.Identity {
		i, err := certs.LoadDir(dir, id)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
}

// All that a client can do, over real connections.
func TestClientOverTCP(t *testing.T) {
	t.Parallel()
	dir, identity := authority(t)
	for _, c := range []struct {
		name     string
		identity func(id string) *certs.Identity
		change   func(*setup)
	}{
		{"plain", nil, func(*setup) {}},
		{"operator", identity, func(c *setup) { c.Certs = dir }},
		{"node", identity, func(c *setup) {
			c.CA, c.Cert, c.Key = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "n2.crt"), filepath.Join(dir, "n2.key")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newNodes("n1", "n2", "n3")
			w.sees(ledBy("n1", 5), "n1", "n2", "n3")
			for _, n := range w.nodes {
				n.events = []Event{{At: time.Unix(5, 0).UTC(), Event: "elected", Leader: "n1", Token: 5}}
			}
			cfg := onTCP(t, w, c.identity)
			c.change(&cfg)
			client := closing(t, cfg)
			for _, r := range client.Statuses(t.Context()) {
				if r.Err != nil || r.Status.ID != r.Peer.ID {
					t.Errorf("%s: %+v, %v", r.Peer, r.Status, r.Err)
				}
			}
			if events, err := client.History(t.Context()); err != nil || len(events) != 1 || events[0].Token != 5 {
				t.Errorf("history: %+v, %v", events, err)
			}
			led := sees(t, client, "the leader", func(s driver.State) bool { return s.Leader != nil && !s.Stale })
			if l := led.Leader; l.ID != "n1" || l.Token != 5 || l.Metadata["address"] != "n1:80" || l.Since.Unix() != 5 {
				t.Errorf("led by %+v", l)
			}
			if err := client.Resign(t.Context(), 4); !errors.Is(err, driver.ErrSuperseded) {
				t.Errorf("Resign of another token: %v", err)
			}
			if err := client.Resign(t.Context(), 5); err != nil {
				t.Errorf("Resign: %v", err)
			}
			w.sees(driver.State{}, "n2", "n3")
			if err := client.Resign(t.Context(), 0); !errors.Is(err, driver.ErrNoLeader) {
				t.Errorf("Resign of nobody: %v", err)
			}
		})
	}
}

// A caller that does not belong here is refused with the reason, and the nodes serve others as before.
func TestStrangersOverTCP(t *testing.T) {
	t.Parallel()
	dir, identity := authority(t)
	other, _ := authority(t)
	plain, secured := newNodes("n1", "n2", "n3"), newNodes("n1", "n2", "n3")
	open, closed := onTCP(t, plain, nil), onTCP(t, secured, identity)
	for _, c := range []struct {
		name   string
		cfg    setup
		change func(*setup)
		says   string // of each status
		final  bool   // observing is wrong for good
	}{
		{"another cluster", open, func(c *setup) { c.Cluster = "green" }, "green", true},
		{"another election", open, func(c *setup) { c.Name = "weekly" }, "weekly", true},
		{"no certificate", closed, func(c *setup) { c.Insecure = true }, "certificate", true},
		{"another authority", closed, func(c *setup) { c.Certs = other }, "signed by another CA", false},
		{"TLS with plain nodes", open, func(c *setup) { c.Certs, c.Insecure = dir, false }, "it speaks plain text (insecure=true", false},
	} {
		cfg := c.cfg
		c.change(&cfg)
		client := closing(t, cfg)
		for _, r := range client.Statuses(t.Context()) {
			if r.Err == nil || !strings.Contains(r.Err.Error(), c.says) {
				t.Errorf("%s: %+v, %v; want an error with %q", c.name, r.Status, r.Err, c.says)
			}
		}
		s, err := first(t.Context(), client)
		if c.final && !driver.IsPermanent(err) || !c.final && (err != nil || !s.Stale || !errors.Is(s.Cause, driver.ErrUnreachable)) {
			t.Errorf("%s: observing: %+v, %v", c.name, s, err)
		}
	}
	for _, cfg := range []setup{open, func() setup { closed.Certs = dir; return closed }()} {
		for _, r := range closing(t, cfg).Statuses(t.Context()) {
			if r.Err != nil {
				t.Errorf("afterwards: %s: %v", r.Peer, r.Err)
			}
		}
	}
}

// rawClient is admitted as a client, and then does what it likes.
func rawClient(t *testing.T, addr string) (net.Conn, *wire.Reader, error) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience()))
	r := wire.NewReader(c, wire.MaxFrame)
	say(t, c, &wire.Frame{Hello: &wire.Hello{Version: wire.Version, Oldest: wire.Oldest, Caller: wire.ClientOf, Cluster: "blue"}})
	for {
		f, err := r.Next()
		switch {
		case err != nil:
			return nil, nil, err
		case f.Refusal != nil:
			return nil, nil, f.Refusal
		case f.Welcome != nil:
			return c, r, nil
		}
	}
}

func say(t *testing.T, c net.Conn, f *wire.Frame) {
	t.Helper()
	b, err := wire.Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write(b) // that it was refused is read
}

// A client that asks and does not read costs the others nothing, and nothing of
// it is left when it goes.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newNodes("n1", "n2", "n3")
	w.sees(ledBy("n1", 1), "n1", "n2", "n3")
	cfg := onTCP(t, w, nil)
	c, _, err := rawClient(t, cfg.Voters[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	say(t, c, &wire.Frame{Request: &wire.Request{Call: 1, Verb: verbWatch, Election: "nightly"}})
	n := w.nodes["n1"]
	watchers := func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.watchers
	}
	eventually(t, func() bool { return watchers() == 1 }, func() string { return "nobody watches" })
	// More and more, until neither the kernel nor the node takes any of it.
	last, stuck := fence.Token(1), false
	for ; !stuck && last < 100_000; last++ {
		select {
		case <-n.took:
		case <-time.After(300 * time.Millisecond):
			stuck = true
		}
		s := ledBy("n1", last+1)
		s.Leader.Metadata = map[string]string{"x": strings.Repeat("x", 4000)}
		n.sees(s)
	}
	if !stuck {
		t.Fatal("the node goes on writing to a client that does not read")
	}
	t.Logf("stuck after %v states of 4 KB", last)
	client := closing(t, cfg)
	sees(t, client, "the last leader", func(s driver.State) bool { return s.Leader != nil && s.Leader.Token == last })
	for _, r := range client.Statuses(t.Context()) {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Peer, r.Err)
		}
	}
	_ = c.Close()
	eventually(t, func() bool { return watchers() == 0 }, func() string { return "somebody watches for a client that has gone" })
}

// Clients are bounded in number: the next is told so, those that are there are
// served, and when they go there is room again.
func TestManyClients(t *testing.T) {
	t.Parallel()
	w := newNodes("n1", "n2", "n3")
	cfg := onTCP(t, w, nil)
	type client struct {
		c net.Conn
		r *wire.Reader
	}
	var all []client
	var refused error
	for len(all) < 2000 && refused == nil {
		c, r, err := rawClient(t, cfg.Voters[0].Addr)
		if err != nil {
			refused = err
			break
		}
		all = append(all, client{c, r})
	}
	if r, ok := errors.AsType[*wire.Refusal](refused); !ok || r.Code != wire.CodeBusy || r.Final {
		t.Fatalf("after %d clients: %v; want a refusal that is not final: busy", len(all), refused)
	}
	t.Logf("%d clients, then: %v", len(all), refused)
	for _, x := range all {
		say(t, x.c, &wire.Frame{Request: &wire.Request{Call: 9, Verb: verbPing, Election: "nightly"}})
		for {
			f, err := x.r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if f.Response != nil && f.Response.Call == 9 {
				break
			}
		}
	}
	for _, x := range all {
		_ = x.c.Close()
	}
	client1 := closing(t, cfg)
	eventually(t, func() bool { return client1.Statuses(t.Context())[0].Err == nil }, func() string { return "there is no room again" })
}
