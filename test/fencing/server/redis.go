//go:build linux

package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/internal/long"
)

// Redis is a redis-server. Its methods belong to the test's goroutine.
type Redis struct {
	*process

	// Dir is where its files are; they may be changed while it is down.
	Dir string

	// Addr is where it listens.
	Addr string

	args []string
}

// StartRedis starts a redis-server that appends to a file and syncs it before it answers.
// Further settings are as on its command line: "--name", "value".
func StartRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	long.Test(t, "it starts a real server")
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		Absent(t, "there is no redis-server in PATH; on Debian: apt-get install redis-server")
	}
	p, port := newProcess(t, "Redis"), freePort(t)
	r := &Redis{p, p.dir, "127.0.0.1:" + port, append([]string{
		bin, "--bind", "127.0.0.1", "--port", port, "--dir", p.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
	}, settings...)}
	r.Start(t)
	return r
}

// Start starts the server, and returns when it answers and has loaded what it had kept.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1})
	defer client.Close()
	r.start(t, r.command(r.args[0], r.args[1:]...), func(ctx context.Context) error { return client.Ping(ctx).Err() })
}

// Client returns a client of the server, which ends with the test.
func (r *Redis) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// StartSentinel starts a Sentinel that watches the master at an address under the name jobs. It promotes a replica when
// the master has not answered for half a second.
func StartSentinel(t testing.TB, master string) *Redis {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		Absent(t, "there is no redis-server in PATH; on Debian: apt-get install redis-server")
	}
	host, at, err := net.SplitHostPort(master)
	if err != nil {
		t.Fatal(err)
	}
	p, port := newProcess(t, "Sentinel"), freePort(t)
	conf := filepath.Join(p.dir, "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor jobs %s %s 1\nsentinel down-after-milliseconds jobs 500\nsentinel failover-timeout jobs 3000\n", port, p.dir, host, at)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Redis{p, p.dir, "127.0.0.1:" + port, []string{bin, conf, "--sentinel"}}
	r.Start(t)
	return r
}
