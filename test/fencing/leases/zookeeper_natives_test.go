//go:build linux && cgo

package leases_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// kazooElection is a candidate of kazoo's Election. It leads until its input ends, and works for each line of it.
const kazooElection = `
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1], timeout=4)
client.start()
def lead():
    print("leads", flush=True)
    for line in sys.stdin:
        print("works", flush=True)
    print("ends", flush=True)
client.Election(sys.argv[2], "native").run(lead)
client.stop()
`

// pythonWithKazoo is the interpreter of Debian, which has its packages.
func pythonWithKazoo(t *testing.T) string {
	t.Helper()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import kazoo").Run() != nil {
		server.Absent(t, "there is no kazoo for "+python+"; on Debian: apt-get install python3-kazoo")
	}
	return python
}

// kazoo is a run of it as a candidate.
type kazoo struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // what it says
	ended chan struct{}
}

func (z *znodes) kazoo(t *testing.T) *kazoo {
	t.Helper()
	cmd := exec.Command(pythonWithKazoo(t), "-c", kazooElection, z.zookeeper.Addr, z.prefix+"/e")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, out := harness.Start(t, cmd)
	k := &kazoo{cmd, in, make(chan string, 2), make(chan struct{})}
	go func() {
		defer close(k.ended)
		defer close(k.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			k.lines <- lines.Text()
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-k.ended
	})
	return k
}

// enters waits until an election has that many entries.
func (z *znodes) enters(t *testing.T, want int) {
	t.Helper()
	harness.Eventually(t, "the candidates have entered", func() bool {
		children, _, err := z.client.Children(z.prefix + "/e")
		return err == nil && len(children) == want
	})
}

// quiet fails the test if one of these leads within three seconds.
func quiet(t *testing.T, native *kazoo, ours <-chan driver.Mandate) {
	t.Helper()
	var lines chan string
	if native != nil {
		lines = native.lines
	}
	select {
	case line := <-lines:
		t.Fatalf("kazoo %s beside another leader", line)
	case m := <-ours:
		t.Fatalf("%v leads beside kazoo", m)
	case <-time.After(3 * time.Second):
	}
}

// TestKazoo: kazoo's Election is a candidate of elect's elections with layout=kazoo. Each side waits for the other, and
// takes over from it after a release and after a death. Two lead at a time where docs/zookeeper.md says so.
func TestKazoo(t *testing.T) {
	long.Test(t, "it waits for sessions")
	t.Parallel()
	z := newZnodes(t, server.StartZooKeeper(t))
	z.times = quick + "&layout=kazoo"
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	// It leads, and ours waits until it has ended.
	first := z.kazoo(t)
	<-first.lines
	way := cableTo(t, z.zookeeper.Addr)
	ours := opened(t, z.url(way.Addr()), "ours")
	won := ours.campaigns(ctx)
	z.enters(t, 2)
	quiet(t, nil, won)
	if l := observed(t, ctx, ours); l.ID != "native" {
		t.Errorf("the leader is shown as %+v; want native", l)
	}
	_ = first.in.Close()
	if line := <-first.lines; line != "ends" {
		t.Errorf("kazoo %s; want that it ends", line)
	}
	m := <-won

	// Ours leads, and it waits until ours has released.
	second := z.kazoo(t)
	z.enters(t, 2)
	quiet(t, second, nil)
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	released(t, m)
	if line := <-second.lines; line != "leads" {
		t.Fatalf("kazoo %s; want that it leads", line)
	}

	// It is paused, and ours takes over when its session has ended. Then it goes on, and works beside ours: it checks
	// nothing.
	won = ours.campaigns(ctx)
	z.enters(t, 2)
	if err := second.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	n := <-won
	if n.Token() <= m.Token() {
		t.Errorf("token %v after %v", n.Token(), m.Token())
	}
	if err := second.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(second.in, "\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := <-second.lines, n.Check(); line != "works" || err != nil {
		t.Errorf("kazoo %s, the proof of ours: %v; want kazoo to work beside ours, or correct docs/zookeeper.md", line, err)
	}
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	// What it ignores: it knows no hold-off. Ours is cut off after a touch, its znode is deleted by hand, and kazoo leads
	// at once, while ours proves its term. A candidate of elect's would wait for the end of that.
	third := z.kazoo(t)
	harness.Eventually(t, "kazoo waits behind ours alone", func() bool {
		children, _, err := z.client.Children(z.prefix + "/e")
		return err == nil && len(children) == 2 && n.(driver.Confirmer).Confirm(ctx) == nil
	})
	way.Cut()
	if err := z.client.Delete(z.entries(t)[0], -1); err != nil {
		t.Fatal(err)
	}
	if line, err := <-third.lines, n.Check(); line != "leads" || err != nil {
		t.Errorf("kazoo %s, the proof of ours: %v; want kazoo to lead beside ours, or correct docs/zookeeper.md", line, err)
	}
	lost(t, ctx, n, driver.ErrExpired)
	way.Heal()
	released(t, n)

	// It dies.
	won = ours.campaigns(ctx)
	z.enters(t, 2)
	if err := third.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	last := <-won
	if last.Token() <= n.Token() {
		t.Errorf("token %v after %v", last.Token(), n.Token())
	}
	released(t, last)
}

// observed is the leader that an observer sees.
func observed(t *testing.T, ctx context.Context, e driver.Elector) driver.Leader {
	t.Helper()
	for s, err := range e.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Leader != nil {
			return *s.Leader
		}
	}
	t.Fatal("nobody leads")
	return driver.Leader{}
}

// TestCuratorLayout: entries as Curator makes them are candidates, and its participants see those of elect's: by the
// name after which it sorts, and as its id the data.
func TestCuratorLayout(t *testing.T) {
	long.Test(t, "it starts a server")
	t.Parallel()
	s := server.StartZooKeeper(t)
	for layout, name := range map[string]string{"latch": "latch-", "selector": "lock-"} {
		t.Run(layout, func(t *testing.T) {
			z := newZnodes(t, s)
			z.times += "&layout=" + layout
			ours := z.elector(t, "ours", nil)
			native := z.zookeeper.Client(t)
			if _, err := native.CreateProtectedEphemeralSequential(z.prefix+"/e/"+name, []byte("native:1"), zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
			won := ours.campaigns(t.Context())
			z.enters(t, 2)
			all := z.entries(t)
			if own := all[1]; !strings.HasPrefix(own, z.prefix+"/e/_c_") || !strings.Contains(own, "-"+name+"00") || len(own) != len(z.prefix+"/e/_c_-"+name)+36+10 {
				t.Errorf("the entry is %s; want it as Curator's, _c_UUID-%sNUMBER", own, name)
			}
			quiet(t, nil, won)
			if l := observed(t, t.Context(), ours); l.ID != "native:1" {
				t.Errorf("the leader is shown as %+v; want native:1", l)
			}
			if err := native.Delete(all[0], -1); err != nil {
				t.Fatal(err)
			}
			m := <-won
			released(t, m)
		})
	}
}
