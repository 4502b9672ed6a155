//go:build linux

package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/network"
)

// example is what docs/postgres.md has after a line, with the addresses of this cluster.
func (c *cluster) example(after string) string {
	c.t.Helper()
	page, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		c.t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), after+"\n\n```")
	_, text, _ = strings.Cut(text, "\n") // the language
	text, _, found := strings.Cut(text, "```")
	if !found {
		c.t.Fatalf("docs/postgres.md has no example after %q", after)
	}
	for i := range nodeCount {
		text = strings.ReplaceAll(text, fmt.Sprintf("10.0.0.%d:", i+1), c.host(i)+":")
	}
	return text
}

// always runs a program until the end of the test.
func (c *cluster) always(cmd *exec.Cmd) {
	c.t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
}

// reached are the kinds of faults of clients that do not know the nodes.
func reached() []string {
	return []string{"kill postmaster", "kill elect", "kill all", "cut", "freeze postgres", "switch-over"}
}

// TestHAProxy: clients that know nothing of the nodes connect to an HAProxy with the configuration of docs/postgres.md.
func TestHAProxy(t *testing.T) {
	long.Full(t, "it breaks a cluster of PostgreSQL behind HAProxy")
	harness.Need(t, "haproxy", "haproxy")
	c := start(t, small)
	path := filepath.Join(c.dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(c.example("For HAProxy:")), 0o644); err != nil {
		t.Fatal(err)
	}
	c.always(c.net.Command(network.Operator, "haproxy", "-db", "-f", path))
	c.work(c.settled(time.Minute), "host=127.0.0.1 port=5000"+login)
	c.judge(c.storm(asked("SEED", 24), int(asked("ROUNDS", 30)), kinds(reached()...)...))
}

// TestAddress: clients connect to a virtual address, which an agent beside each node holds while that is the primary, by
// the configuration of docs/postgres.md.
func TestAddress(t *testing.T) {
	long.Full(t, "it breaks a cluster of PostgreSQL behind a virtual address")
	c := start(t, small)
	const address = "10.77.0.100"
	for i := range nodeCount {
		dir := filepath.Join(c.dir, "agent"+id(i))
		if out, err := exec.Command("cp", "-r", filepath.Join(c.dir, "certs"), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text := strings.NewReplacer("/etc/elect/certs", dir, "/var/lib/elect-address", filepath.Join(dir, "data"), "10.0.0.100", address,
			"127.0.0.1:8008", c.host(i)+":8008", "id: n1", "id: "+id(i)).Replace(c.example("`/etc/elect/address.yaml`:"))
		path := filepath.Join(dir, "address.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.always(c.net.Command(i, c.elect, "agent", "--config", path))
	}
	c.work(c.settled(time.Minute), "host="+address+" port=5432"+login)
	c.judge(c.storm(asked("SEED", 24), int(asked("ROUNDS", 30)), kinds(reached()...)...))
}

// block drops what the other nodes send to the PostgreSQL of a primary, and nothing else, until another one is the
// primary.
func (c *cluster) block(primary int) (heal func()) {
	c.t.Helper()
	nft := func(args ...string) {
		c.t.Helper()
		if out, err := c.net.Command(primary, "nft", args...).CombinedOutput(); err != nil {
			c.t.Fatalf("nft %v: %v: %s", args, err, out)
		}
	}
	var others []string
	for i := range nodeCount {
		if i != primary {
			others = append(others, c.host(i))
		}
	}
	begun := time.Now()
	nft(fmt.Sprintf("add table ip port; add chain ip port in { type filter hook input priority 0; }; add rule ip port in ip saddr { %s } tcp dport 5432 counter drop", strings.Join(others, ", ")))
	for {
		if now := c.primaries(); len(now) == 1 && now[0] != primary {
			c.t.Logf("%s does not receive WAL, and %s is the primary after %v", others, id(now[0]), time.Since(begun).Round(100*time.Millisecond))
			break
		}
		if time.Since(begun) > 2*time.Minute {
			c.t.Errorf("%s is not replaced as the primary, although replicas cannot reach it", id(primary))
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	return func() { nft("delete table ip port") }
}

// TestPort: replicas do not reach the PostgreSQL of a primary, and everything else they do.
func TestPort(t *testing.T) {
	long.Full(t, "it breaks the replication of a cluster of PostgreSQL")
	harness.Need(t, "nft", "nftables")
	c := start(t, small)
	c.work(c.settled(time.Minute), c.dsn())
	c.judge(c.storm(asked("SEED", 24), int(asked("ROUNDS", 2)), kinds("port")...))
}
