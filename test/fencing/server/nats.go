//go:build linux

package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// NATS is a server of NATS with JetStream. Its methods belong to the test's goroutine.
type NATS struct {
	*process
	Name   string
	Addr   string // what clients connect to
	bin    string
	config string
	routes []*cable.Cable // from and to the others
}

// StartNATS starts one server, with further lines of its configuration.
func StartNATS(t testing.TB, lines ...string) *NATS {
	t.Helper()
	return StartNATSCluster(t, 1, lines...)[0]
}

// StartNATSCluster is StartNATS for a cluster of that many servers. One alone is in no cluster.
func StartNATSCluster(t testing.TB, servers int, lines ...string) []*NATS {
	t.Helper()
	long.Test(t, "it starts a real server")
	bin := built(t, "nats-server")
	free, all := harness.FreeAddrs(t, 2*servers), make([]*NATS, servers)
	for i := range all {
		all[i] = &NATS{Name: fmt.Sprintf("m%d", i+1), Addr: free[2*i], bin: bin}
	}
	for i, n := range all {
		n.process = newProcess(t, "nats")
		n.config = filepath.Join(n.dir, "conf")
		text := fmt.Sprintf("listen: %q\nserver_name: %s\njetstream: {store_dir: %q}\n", n.Addr, n.Name, filepath.Join(n.dir, "data"))
		if servers > 1 {
			var routes []string
			for j, other := range all {
				if j == i {
					continue
				}
				route, err := cable.New(free[2*j+1])
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = route.Close() })
				n.routes, other.routes = append(n.routes, route), append(other.routes, route)
				routes = append(routes, fmt.Sprintf("%q", "nats://"+route.Addr()))
			}
			// What it tells the others to connect to is nothing, so that they use the cables.
			text += fmt.Sprintf("cluster: {name: c, listen: %q, advertise: %q, no_advertise: true, routes: [%s]}\n", free[2*i+1], "127.0.0.1:1", strings.Join(routes, ", "))
		}
		if err := os.WriteFile(n.config, []byte(text+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	StartNATSServers(t, all...)
	return all
}

// StartNATSServers starts servers that may need each other, and returns when JetStream answers at all.
func StartNATSServers(t testing.TB, servers ...*NATS) {
	t.Helper()
	for _, n := range servers {
		n.launch(t, n.command(n.bin, "-c", n.config))
	}
	for _, n := range servers {
		n.answers(t, func(ctx context.Context) error {
			c, err := nats.Connect("nats://" + n.Addr)
			if err != nil {
				if text := err.Error(); strings.Contains(text, "uthorization") || strings.Contains(text, "x509") {
					return nil // it wants users, or TLS, and answers
				}
				return err
			}
			defer c.Close()
			js, err := jetstream.New(c)
			if err != nil {
				return err
			}
			_, err = js.AccountInfo(ctx)
			return err
		})
	}
}

// Start starts the server, and returns when it answers.
func (n *NATS) Start(t testing.TB) { t.Helper(); StartNATSServers(t, n) }

// Cut cuts it from the other servers, or ends that. Clients reach it all the time.
func (n *NATS) Cut(on bool) {
	for _, r := range n.routes {
		if on {
			r.Cut()
		} else {
			r.Heal()
		}
	}
}

// Client connects to it. It is closed with the test.
func (n *NATS) Client(t testing.TB, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	c, err := nats.Connect("nats://"+n.Addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
