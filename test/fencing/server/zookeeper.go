//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// ZooKeeper is a server of ZooKeeper. Its methods belong to the test's goroutine.
type ZooKeeper struct {
	*process

	// Addr is where it listens for clients.
	Addr string

	args []string
}

// ZooKeeperTick is the unit of time of the servers. Sessions live for two of them at least.
const ZooKeeperTick = 200 * time.Millisecond

// StartZooKeeper starts one server, with further settings such as "maxSessionTimeout=1000". It leaves the syncing to
// the kernel: it is killed, and its computer is not.
func StartZooKeeper(t testing.TB, settings ...string) *ZooKeeper {
	t.Helper()
	return StartZooKeepers(t, 1, settings...)[0]
}

// StartZooKeepers is StartZooKeeper for an ensemble of that many servers.
func StartZooKeepers(t testing.TB, servers int, settings ...string) []*ZooKeeper {
	t.Helper()
	long.Test(t, "it starts a real server")
	java, err := exec.LookPath("java")
	const jar = "/usr/share/java/zookeeper.jar" // it does not name netty-codec.jar, which TLS needs
	if _, missing := os.Stat(jar); missing != nil || err != nil {
		Absent(t, "there is no java in PATH, or no "+jar+"; on Debian: apt-get install zookeeper")
	}
	free, all := harness.FreeAddrs(t, 3*servers), make([]*ZooKeeper, servers)
	for i := range all {
		p, addr := newProcess(t, "ZooKeeper"), free[3*i]
		_, port, _ := net.SplitHostPort(addr)
		lines := append([]string{
			fmt.Sprintf("tickTime=%d", ZooKeeperTick.Milliseconds()), "initLimit=50", "syncLimit=10", "maxSessionTimeout=300000", "maxClientCnxns=0",
			"clientPortAddress=127.0.0.1", "clientPort=" + port, "dataDir=" + filepath.Join(p.dir, "data"), "admin.enableServer=false",
			"4lw.commands.whitelist=*",
		}, settings...)
		for j := range all {
			if _, votes, _ := net.SplitHostPort(free[3*j+2]); servers > 1 {
				lines = append(lines, fmt.Sprintf("server.%d=%s:%s", j+1, free[3*j+1], votes))
			}
		}
		data := map[string]string{"data/myid": fmt.Sprint(i + 1), "zoo.cfg": strings.Join(lines, "\n") + "\n"}
		for name, text := range data {
			file := filepath.Join(p.dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		all[i] = &ZooKeeper{process: p, Addr: addr, args: []string{
			java, "-cp", jar + ":/usr/share/java/netty-codec.jar", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(p.dir, "zoo.cfg"),
		}}
	}
	RunZooKeepers(t, all...)
	return all
}

// RunZooKeepers starts servers that may need each other, and returns when all answer.
func RunZooKeepers(t testing.TB, servers ...*ZooKeeper) {
	t.Helper()
	for _, z := range servers {
		z.launch(t, z.command(z.args[0], z.args[1:]...))
	}
	for _, z := range servers {
		z.answers(t, func(context.Context) error {
			if mode := z.Mode(); mode == "" {
				return errors.New("it does not serve")
			}
			return nil
		})
	}
}

// Start starts the server, and returns when it answers.
func (z *ZooKeeper) Start(t testing.TB) { t.Helper(); RunZooKeepers(t, z) }

// Data is the directory of its data.
func (z *ZooKeeper) Data() string { return filepath.Join(z.dir, "data") }

// Mode is standalone, leader or follower, or "" while it does not serve.
func (z *ZooKeeper) Mode() string { return z.said("Mode") }

// Zxid is the id of the last transaction that it has committed.
func (z *ZooKeeper) Zxid() string { return z.said("Zxid") }

func (z *ZooKeeper) said(what string) string {
	c, err := net.DialTimeout("tcp", z.Addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c, "srvr")
	text, _ := io.ReadAll(c)
	_, after, _ := strings.Cut(string(text), what+": ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// Client connects to it. It is closed with the test.
func (z *ZooKeeper) Client(t testing.TB) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{z.Addr}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			return c
		}
	}
	t.Fatal("ZooKeeper gives no session")
	return nil
}
