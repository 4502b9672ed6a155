package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
)

// patience bounds what should happen soon: 20 s in a bubble of testing/synctest, whose
// clock begins with the year 2000 and in which no machine is slow, and a minute on one
// with other work.
func patience() time.Duration {
	if time.Now().Year() == 2000 {
		return 20 * time.Second
	}
	return time.Minute
}

// The times of most tests here: short, and yet a loaded machine can keep them.
const (
	testHeartbeat = 50 * time.Millisecond
	testPromise   = 500 * time.Millisecond
)

// cluster is a set of nodes on the loopback, with a cable from each to each
// other one if it is wired.
type cluster struct {
	t      testing.TB
	name   string
	data   string
	every  time.Duration // the heartbeat
	lasts  time.Duration // the promise
	change func(*setup)  // of each configuration; may be nil

	voters, observers []protocol.NodeID
	addrs             map[protocol.NodeID]string
	cables            map[[2]protocol.NodeID]*cable.Cable // from, to

	mu    sync.Mutex
	nodes map[protocol.NodeID]*Node
}

func names(prefix string, n int) []protocol.NodeID {
	var all []protocol.NodeID
	for i := range n {
		all = append(all, protocol.NodeID(fmt.Sprintf("%s%d", prefix, i+1)))
	}
	return all
}

// newCluster reserves addresses and lays cables; it starts nothing. What is
// started on it is closed when the test ends.
func newCluster(t testing.TB, voters, observers []protocol.NodeID, wired bool) *cluster {
	t.Helper()
	c := &cluster{
		t: t, name: "job", data: t.TempDir(), every: testHeartbeat, lasts: testPromise, voters: voters, observers: observers,
		addrs: map[protocol.NodeID]string{}, cables: map[[2]protocol.NodeID]*cable.Cable{}, nodes: map[protocol.NodeID]*Node{},
	}
	all := slices.Concat(voters, observers)
	for i, addr := range harness.FreeAddrs(t, len(all)) {
		c.addrs[all[i]] = addr
	}
	if wired {
		for _, from := range all {
			for _, to := range voters {
				if from == to {
					continue
				}
				w, err := cable.New(c.addrs[to])
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = w.Close() })
				c.cables[[2]protocol.NodeID{from, to}] = w
			}
		}
	}
	t.Cleanup(c.closeAll)
	return c
}

// steady has promises last so long that a busy machine does not end a term.
func (c *cluster) steady() *cluster {
	c.every, c.lasts = 100*time.Millisecond, 3*time.Second
	return c
}

// config is that of one participant: it finds the others at the near ends of
// its own cables.
func (c *cluster) config(id protocol.NodeID) setup {
	cfg := setup{
		ID:     id,
		Name:   c.name,
		Config: Config{Data: c.data, Heartbeat: c.every, Promise: c.lasts, Logger: slog.New(slog.NewTextHandler(testWriter{c.t, id}, nil))},
	}
	for _, v := range c.voters {
		cfg.Voters = append(cfg.Voters, Peer{ID: string(v), Addr: c.way(id, v)})
	}
	for _, o := range c.observers {
		cfg.Observers = append(cfg.Observers, Peer{ID: string(o)})
	}
	if c.change != nil {
		c.change(&cfg)
	}
	return cfg
}

func (c *cluster) way(from, to protocol.NodeID) string {
	if w := c.cables[[2]protocol.NodeID{from, to}]; w != nil {
		return w.Addr()
	}
	return c.addrs[to]
}

// url is the configuration as the opener of a process gets it.
func (c *cluster) url(id protocol.NodeID) string {
	cfg := c.config(id)
	return fmt.Sprintf("peer:%s?data=%s&heartbeat=%v&promise=%v&era=%d", strings.ReplaceAll(list(cfg.Voters), ", ", ","), c.data, cfg.Heartbeat, cfg.Promise, cfg.Era)
}

// start starts a node.
func (c *cluster) start(id protocol.NodeID) *Node {
	c.t.Helper()
	n, err := open(c.t.Context(), c.config(id))
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.nodes[id] = n
	c.mu.Unlock()
	return n
}

// startAll starts all nodes and waits until the election is founded.
func (c *cluster) startAll() {
	c.t.Helper()
	for _, id := range append(append([]protocol.NodeID{}, c.voters...), c.observers...) {
		c.start(id)
	}
	for _, n := range c.nodes {
		c.founded(n)
	}
}

func (c *cluster) founded(n *Node) {
	c.t.Helper()
	eventually(c.t, func() bool { return n.run.Seen() != nil && n.run.Seen().Role != protocol.Down }, func() string {
		return fmt.Sprintf("%s is not founded: %v", n.cfg.ID, n.Status().Cause)
	})
}

func (c *cluster) node(id protocol.NodeID) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id]
}

// stop closes a node, as an orderly end of its process would.
func (c *cluster) stop(id protocol.NodeID) {
	c.t.Helper()
	if n := c.node(id); n != nil {
		if err := n.Close(); err != nil {
			c.t.Errorf("Close of %s: %v", id, err)
		}
	}
}

func (c *cluster) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		_ = n.Close()
	}
}

// cut cuts a node off from all others, both ways, or heals that.
func (c *cluster) cut(id protocol.NodeID, on bool) {
	for ends, w := range c.cables {
		if ends[0] != id && ends[1] != id {
			continue
		}
		if on {
			w.Cut()
		} else {
			w.Heal()
		}
	}
}

// eventually waits until something holds. Most of it is notified by nothing, so eventually polls.
func eventually(t testing.TB, holds func() bool, otherwise func() string) {
	t.Helper()
	deadline := time.Now().Add(patience())
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal(otherwise())
		}
		<-time.After(2 * time.Millisecond)
	}
}

// win campaigns.
func win(t testing.TB, e driver.Elector) driver.Mandate {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatalf("Campaign: %v", err)
	}
	return m
}

// campaign campaigns in the background.
func campaign(ctx context.Context, e driver.Elector) <-chan outcomeOf {
	c := make(chan outcomeOf, 1)
	go func() {
		m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
		c <- outcomeOf{m, err}
	}()
	return c
}

type outcomeOf struct {
	m   driver.Mandate
	err error
}

func within[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience()):
		t.Fatalf("waited %v for %s", patience(), what)
		panic("unreachable")
	}
}

// sees waits until a participant sees a state.
func sees(t testing.TB, e driver.Elector, what string, want func(driver.State) bool) driver.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	var last driver.State
	for s, err := range e.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if last = s; want(s) {
			return s
		}
	}
	t.Fatalf("it does not see %s; the last state is %+v", what, last)
	panic("unreachable")
}

func leads(m driver.Mandate) func(driver.State) bool {
	return func(s driver.State) bool { return s.Leader != nil && !s.Stale && s.Leader.Token == m.Token() }
}

func release(t testing.TB, m driver.Mandate) {
	t.Helper()
	if err := m.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if m.Check() == nil {
		t.Error("a released mandate proves itself")
	}
}

// refusedFor asserts that an error is for good and says why.
func refusedFor(t testing.TB, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if !driver.IsPermanent(err) {
		t.Errorf("the error is not marked as permanent: %v", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, err)
		}
	}
}

// testWriter shows logs of a test that fails.
type testWriter struct {
	t  testing.TB
	id protocol.NodeID
}

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil { // after its end a test must not log
		w.t.Logf("%s: %s", w.id, strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

var errGaveUp = errors.New("gave up")

// first returns the first state that e shows.
func first(ctx context.Context, e driver.Elector) (driver.State, error) {
	for s, err := range e.Watch(ctx) {
		return s, err
	}
	return driver.State{}, context.Cause(ctx)
}
