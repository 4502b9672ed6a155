package peer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// pairs counts the connections between nodes that are open.
type pairs struct {
	mu   sync.Mutex
	open map[[2]protocol.NodeID]int // the smaller id first
}

// dialled is a connection that is counted until its own side closes it.
type dialled struct {
	*net.TCPConn
	over func()
}

func (d dialled) Close() error {
	d.over()
	return d.TCPConn.Close()
}

// count has a configuration dial through the count.
func (p *pairs) count(c *cluster, cfg *setup) {
	from := cfg.ID
	cfg.dial = func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		var pair [2]protocol.NodeID
		for to, at := range c.addrs {
			if at == addr {
				pair = [2]protocol.NodeID{min(from, to), max(from, to)}
			}
		}
		p.add(pair, 1)
		return dialled{conn.(*net.TCPConn), sync.OnceFunc(func() { p.add(pair, -1) })}, nil
	}
}

func (p *pairs) add(pair [2]protocol.NodeID, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = make(map[[2]protocol.NodeID]int)
	}
	p.open[pair] += n
}

// single reports whether there is one connection between any two of so many nodes.
func (p *pairs) single(nodes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.open {
		if n != 1 {
			return false
		}
	}
	return len(p.open) == nodes*(nodes-1)/2
}

func (p *pairs) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.open)
}

// another is a second election of the same nodes, at the same addresses and with the
// same data.
func (c *cluster) another(name string) *cluster {
	d := &cluster{
		t: c.t, name: name, data: c.data, every: c.every, lasts: c.lasts, change: c.change, voters: c.voters, observers: c.observers, addrs: c.addrs, nodes: map[protocol.NodeID]*Node{},
	}
	c.t.Cleanup(d.closeAll)
	return d
}

// sharing is a cluster of three, and a second election at the same hosts.
func sharing(t *testing.T) (job, backup *cluster, counted *pairs) {
	counted = new(pairs)
	job = newCluster(t, names("n", 3), nil, false)
	job.change = func(cfg *setup) {
		counted.count(job, cfg)
		cfg.Heartbeat, cfg.Promise = 250*time.Millisecond, 5*time.Second // a busy machine does not end it
	}
	return job, job.another("backup"), counted
}

// TestTwoElectionsOnOnePort: two elections share port, directory and connections, and
// nothing else: each has its own leader, and what happens in one the other does not
// notice.
func TestTwoElectionsOnOnePort(t *testing.T) {
	long.Test(t, "it waits three times for a promise of 5 s")
	t.Parallel()
	job, backup, counted := sharing(t)
	job.startAll()
	one := win(t, job.node("n1"))
	backup.startAll()
	two := win(t, backup.node("n2"))
	sees(t, job.node("n3"), "the leader of the one", leads(one))
	if s := sees(t, backup.node("n3"), "the leader of the other", leads(two)); s.Leader.ID != "n2" {
		t.Errorf("%+v leads the second election; want n2", s.Leader)
	}
	eventually(t, func() bool { return counted.single(3) }, func() string {
		return fmt.Sprintf("want one connection between any two of three hosts; there are %v", counted)
	})
	for _, c := range []*cluster{job, backup} {
		if _, err := os.Stat(filepath.Join(c.data, "n1", "elections", c.name, "ballot")); err != nil {
			t.Error(err)
		}
	}

	release(t, one)
	release(t, win(t, job.node("n3")))
	if err := two.Check(); err != nil || two.Context().Err() != nil {
		t.Errorf("the leader of the other election was disturbed: %v", err)
	}
	if err := two.(driver.Confirmer).Confirm(t.Context()); err != nil {
		t.Errorf("Confirm: %v", err)
	}

	// One that is closed leaves the other its host, its vote and its connections.
	job.stop("n2")
	job.stop("n3")
	backup.stop("n3")
	if err := two.(driver.Confirmer).Confirm(t.Context()); err != nil {
		t.Errorf("Confirm with n1, whose host is whole, and n2, where the other election is closed: %v", err)
	}
	eventually(t, func() bool { return !job.node("n1").connectedWith("n2") }, func() string { return "n1 does not notice that n2 has left" })
	if !backup.node("n1").connectedWith("n2") {
		t.Error("the connection has gone with the election that was closed")
	}
	job.start("n2")
	release(t, win(t, job.node("n2")))
	release(t, two)
}

func (n *Node) connectedWith(id protocol.NodeID) bool {
	for _, p := range n.contacts.Peers() {
		if p.ID == id {
			return p.Connected
		}
	}
	return false
}

// TestElectionIsNotOpenThere: a node whose host does not know an election is named, and
// takes part as soon as it does.
func TestElectionIsNotOpenThere(t *testing.T) {
	long.Test(t, "it waits three times for a promise of 5 s")
	t.Parallel()
	job, backup, counted := sharing(t)
	job.startAll()
	m := win(t, job.node("n1"))
	backup.start("n1")
	backup.start("n2")
	s := sees(t, backup.node("n1"), "who is missing", func(s driver.State) bool {
		return s.Cause != nil && strings.Contains(s.Cause.Error(), "n3 takes no part in the election")
	})
	if !strings.Contains(s.Cause.Error(), `"backup"`) || !strings.Contains(s.Cause.Error(), `"job"`) {
		t.Errorf("%v; want the names of both elections", s.Cause)
	}
	backup.start("n3")
	for _, n := range backup.nodes {
		backup.founded(n)
	}
	release(t, win(t, backup.node("n3")))
	eventually(t, func() bool { return counted.single(3) }, counted.String)
	if err := m.Check(); err != nil {
		t.Errorf("the other election was disturbed: %v", err)
	}
	release(t, m)
}

// TestClosedElectionIsADeath: the others hear at once that a leader has closed its
// part in one election, though its host and their connection with it go on.
func TestClosedElectionIsADeath(t *testing.T) {
	t.Parallel()
	job, backup, _ := sharing(t)
	job.startAll()
	backup.startAll()
	kept := win(t, job.node("n1"))
	win(t, backup.node("n1"))
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	begun := time.Now()
	backup.stop("n1")
	m, err := backup.node("n2").Campaign(ctx, driver.Candidacy{}) // elected, though not exclusive yet
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("elected after %v; want far less than the promise of 5s", took)
	}
	if err := kept.Check(); err != nil {
		t.Errorf("the other election was disturbed: %v", err)
	}
	release(t, m)
	release(t, kept)
}

// TestWitnessOfBoth: a host dies that leads two elections. The witness of each one says
// so there, and both have a new leader before the old promises are over.
func TestWitnessOfBoth(t *testing.T) {
	long.Test(t, "it waits for a promise of 5 s")
	t.Parallel()
	job, backup, _ := sharing(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	var speak []func(context.Context) error
	job.startAll()
	backup.startAll()
	for _, c := range []*cluster{job, backup} {
		say, err := Witness(ctx, win(t, c.node("n1")).(driver.Attestable).Testament().Data)
		if err != nil {
			t.Fatal(err)
		}
		speak = append(speak, say)
	}
	begun := time.Now()
	job.stop("n1")
	backup.stop("n1")
	for _, say := range speak {
		if err := say(ctx); err != nil {
			t.Fatal(err)
		}
	}
	one, two := campaign(ctx, job.node("n2")), campaign(ctx, backup.node("n3"))
	for _, c := range []<-chan outcomeOf{one, two} {
		o := within(t, c, "a new leader")
		if o.err != nil {
			t.Fatal(o.err)
		}
		defer release(t, o.m)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("exclusive again after %v; want it before the promise of 5s is over", took)
	}
}

// TestHostsThatDiffer: what a host has once must be the same for all its elections.
func TestHostsThatDiffer(t *testing.T) {
	c := newCluster(t, names("n", 1), nil, false)
	c.start("n1")
	for what, f := range map[string]struct {
		change func(*setup)
		says   []string
	}{
		"another id": {func(cfg *setup) {
			cfg.ID, cfg.Listen = "n2", c.addrs["n1"]
			cfg.Voters = []Peer{{ID: "n2", Addr: "127.0.0.1:1"}}
		}, []string{"its id is n1 there, and n2 here"}},
		"another directory": {func(cfg *setup) { cfg.Data = t.TempDir() }, []string{"its data is " + c.data + " there"}},
		"plain text":        {func(cfg *setup) { cfg.Insecure = true }, []string{"its certificate is certificates of the user's own in ", "no certificate here"}},
		"another cluster":   {func(cfg *setup) { cfg.Cluster = "prod" }, []string{`its cluster is elect there, and prod here`}},
	} {
		cfg := c.config("n1")
		cfg.Name = "other"
		f.change(&cfg)
		_, err := open(t.Context(), cfg)
		t.Logf("%s: %v", what, err)
		refusedFor(t, err, append(f.says, "this process has a node at "+c.addrs["n1"], `"other"`)...)
	}
	c.stop("n1")
	cfg := c.config("n1")
	cfg.Data = t.TempDir()
	n, err := open(t.Context(), cfg) // nothing is left of the first host
	if err != nil {
		t.Fatal(err)
	}
	_ = n.Close()
}

// TestTwoProcesses: two processes of one node, each at an address of its own, may have
// one directory, for different elections. Here they are two hosts of one process.
func TestTwoProcesses(t *testing.T) {
	c := newCluster(t, names("n", 1), nil, false)
	c.start("n1")
	d := c.another("backup")
	d.addrs = map[protocol.NodeID]string{"n1": harness.FreeAddr(t)}
	d.start("n1")
	release(t, win(t, c.node("n1")))
	release(t, win(t, d.node("n1")))
}

// TestFormerDirectory: a ballot in the place where older versions had it is not
// forgotten: nothing is founded beside it, and moved it is used.
func TestFormerDirectory(t *testing.T) {
	c := newCluster(t, names("n", 1), nil, false)
	n := c.start("n1")
	first := win(t, n)
	token := first.Token()
	release(t, first)
	c.stop("n1")
	now, old := n.at.String(), filepath.Join(c.data, c.name, "n1")
	if err := errors.Join(os.Mkdir(filepath.Dir(old), 0o700), os.Rename(now, old)); err != nil {
		t.Fatal(err)
	}
	_, err := open(t.Context(), c.config("n1"))
	refusedFor(t, err, old, "older version", "want it moved to "+now)
	if _, err := os.Stat(now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was made beside the ballot: %v", err)
	}
	if err := os.Rename(old, now); err != nil {
		t.Fatal(err)
	}
	m := win(t, c.start("n1"))
	if m.Token() <= token {
		t.Errorf("token %v after %v", m.Token(), token)
	}
	release(t, m)
}
