package peer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// fakeCluster connects nodes within one process and one bubble of fake time. Every message takes hop, and a node that
// is cut off hears nothing. The disks are real.
type fakeCluster struct {
	t      *testing.T
	data   string
	all    []protocol.NodeID // voters
	obs    []protocol.NodeID
	late   []protocol.NodeID // who are to join; only added to beneath mu
	change func(*setup)      // of each configuration; may be nil
	hop    time.Duration
	disk   func(id protocol.NodeID, save func([]byte) error) func([]byte) error // nil: as it is

	mu     sync.Mutex
	moved  map[protocol.NodeID]string // to other addresses than those of the beginning
	stalls map[protocol.NodeID]*fakeLinks
	nodes  map[protocol.NodeID]*Node
	cut    map[protocol.NodeID]bool
	slept  map[protocol.NodeID]time.Duration // how far Boot is ahead of Mono
	start  time.Time
}

// fakeLinks are the links of one node.
type fakeLinks struct {
	v    *fakeCluster
	id   protocol.NodeID
	cfg  link.Config
	up   map[protocol.NodeID]*fakeLinks
	want link.Peers // whom it dials
	last map[protocol.NodeID]clock.Boot
	stop chan struct{}
	wg   sync.WaitGroup
	once sync.Once
}

func inCluster(t *testing.T, voters int, do func(t *testing.T, v *fakeCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		do(t, &fakeCluster{
			t: t, data: t.TempDir(), all: names("n", voters), hop: 100 * time.Microsecond,
			stalls: map[protocol.NodeID]*fakeLinks{}, nodes: map[protocol.NodeID]*Node{}, cut: map[protocol.NodeID]bool{},
			slept: map[protocol.NodeID]time.Duration{}, start: time.Now(),
		})
	})
}

func (v *fakeCluster) config(id protocol.NodeID) setup {
	cfg := setup{ID: id, Name: "job", Config: Config{Data: v.data, Listener: nowhere{}, Join: slices.Contains(v.late, id)}}
	for _, id := range v.all {
		cfg.Voters = append(cfg.Voters, v.peer(id))
	}
	if cfg.Join && !slices.Contains(v.all, id) {
		cfg.Voters = append(cfg.Voters, v.peer(id))
	}
	for _, id := range v.obs {
		cfg.Observers = append(cfg.Observers, Peer{ID: string(id)})
	}
	cfg.dialer = v.dial
	cfg.connect = func(lc link.Config) (links, error) { return v.connect(id, lc), nil }
	cfg.now = func() protocol.Reading {
		v.mu.Lock()
		defer v.mu.Unlock()
		mono := protocol.Instant(time.Since(v.start) + time.Hour)
		return protocol.Reading{Boot: mono.Add(v.slept[id]), Mono: mono}
	}
	if v.change != nil {
		v.change(&cfg)
	}
	if v.disk != nil {
		cfg.disk = func(save func([]byte) error) func([]byte) error { return v.disk(id, save) }
	}
	return cfg
}

// peer is a node with its address.
func (v *fakeCluster) peer(id protocol.NodeID) Peer { return Peer{string(id), v.address(id)} }

// where is the address at which a node answers. The caller holds mu.
func (v *fakeCluster) where(id protocol.NodeID) string {
	if at := v.moved[id]; at != "" {
		return at
	}
	return v.address(id)
}

func (v *fakeCluster) address(id protocol.NodeID) string {
	n, _ := strconv.Atoi(strings.TrimLeft(string(id), "no"))
	return fmt.Sprintf("127.0.0.1:%d", n)
}

func (v *fakeCluster) everybody() []protocol.NodeID {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.everybodyLocked()
}

func (v *fakeCluster) everybodyLocked() []protocol.NodeID { return slices.Concat(v.all, v.obs, v.late) }

func (v *fakeCluster) open(id protocol.NodeID) *Node {
	v.t.Helper()
	n, err := open(v.t.Context(), v.config(id))
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = n.Close() })
	v.mu.Lock()
	defer v.mu.Unlock()
	v.nodes[id] = n
	return n
}

// openAll opens all nodes and waits until the election is founded.
func (v *fakeCluster) openAll() []*Node {
	v.t.Helper()
	var nodes []*Node
	for _, id := range slices.Concat(v.all, v.obs) {
		nodes = append(nodes, v.open(id))
	}
	<-time.After(100 * time.Millisecond)
	if len(v.all) == 1 {
		<-time.After(max(loneFounder, nodes[0].plan.Promise))
	}
	for _, n := range nodes {
		if !n.founded() {
			v.t.Fatalf("%s is not founded: %v", n.cfg.ID, n.Status().Cause)
		}
	}
	return nodes
}

func (n *Node) founded() bool { return n.membership.Load() != nil && n.run.Incarnation() > 0 }

func (v *fakeCluster) node(t *testing.T, id protocol.NodeID) *Node {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.nodes[id] == nil {
		t.Fatalf("there is no %s", id)
	}
	return v.nodes[id]
}

func (v *fakeCluster) isolate(id protocol.NodeID, on bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cut[id] = on
}

func (v *fakeCluster) sleeps(id protocol.NodeID, d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.slept[id] += d
}

// connect introduces a node to all others, repeatedly, as real links do.
func (v *fakeCluster) connect(id protocol.NodeID, cfg link.Config) links {
	a := &fakeLinks{v: v, id: id, cfg: cfg, want: cfg.Peers, up: map[protocol.NodeID]*fakeLinks{}, last: map[protocol.NodeID]clock.Boot{}, stop: make(chan struct{})}
	v.mu.Lock()
	v.stalls[id] = a
	v.mu.Unlock()
	a.wg.Go(func() {
		for {
			for _, other := range v.everybody() {
				a.meet(other)
			}
			select {
			case <-a.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return a
}

// meet is the handshake, which the node with the smaller id begins. Nodes that are connected learn of each other by it.
func (a *fakeLinks) meet(id protocol.NodeID) {
	v := a.v
	v.mu.Lock()
	b := v.stalls[id]
	apart := b == nil || a.id >= id || v.cut[a.id] || v.cut[id]
	known := b != nil && a.up[id] == b
	if known && !apart {
		a.hear(id)
		b.hear(a.id)
	}
	wanted := b != nil && (len(a.want[id]) > 0 || len(b.want[a.id]) > 0)
	var own, other wire.Enter
	if b != nil {
		own, other = a.cfg.Enter, b.cfg.Enter
	}
	v.mu.Unlock()
	if apart || known || !wanted {
		return
	}
	forB, refusesB := a.cfg.Admit(id, &other, wire.Node)
	forA, refusesA := b.cfg.Admit(a.id, &own, wire.Node)
	if refusesB != nil {
		b.cfg.Refused(a.id, refusesB)
	}
	if refusesA != nil {
		a.cfg.Refused(id, refusesA)
	}
	if refusesB != nil || refusesA != nil {
		return
	}
	v.mu.Lock()
	a.up[id], b.up[a.id] = b, a
	a.hear(id)
	b.hear(a.id)
	v.mu.Unlock()
	a.cfg.Welcomed(id, forA)
	b.cfg.Welcomed(a.id, forB)
}

// hear is called with v.mu held.
func (a *fakeLinks) hear(id protocol.NodeID) {
	a.last[id] = clock.Boot(time.Since(a.v.start) + time.Hour + a.v.slept[a.id])
}

func (a *fakeLinks) Send(to protocol.NodeID, l *wire.Letter) {
	letter := *l
	a.v.mu.Lock()
	b := a.up[to]
	lost := b == nil || a.v.stalls[to] != b || a.v.cut[a.id] || a.v.cut[to]
	a.v.mu.Unlock()
	if lost {
		return
	}
	time.AfterFunc(a.v.hop, func() {
		a.v.mu.Lock()
		lost := a.v.stalls[to] != b || a.v.cut[a.id] || a.v.cut[to]
		if !lost {
			b.hear(a.id)
		}
		a.v.mu.Unlock()
		if !lost {
			b.cfg.Receive(a.id, &letter)
		}
	})
}

func (a *fakeLinks) SetIncarnation(i uint64) {
	a.v.mu.Lock()
	defer a.v.mu.Unlock()
	a.cfg.Enter.Incarnation = i
}

// SetPeers drops the nodes that are no longer in it, which learn why.
func (a *fakeLinks) SetPeers(held protocol.ConfigID, peers link.Peers, outside func(protocol.NodeID) *wire.Refusal) {
	a.v.mu.Lock()
	a.cfg.Enter.Held, a.want = held, peers
	var gone []*fakeLinks
	for id, b := range a.up {
		if _, in := peers[id]; !in {
			delete(a.up, id)
			delete(b.up, a.id)
			gone = append(gone, b)
		}
	}
	a.v.mu.Unlock()
	for _, b := range gone {
		b.cfg.Refused(a.id, outside(b.id))
	}
}

func (a *fakeLinks) Announce(w *wire.Welcome) {
	for _, b := range a.neighbours() {
		b.cfg.Welcomed(a.id, w)
	}
}

func (a *fakeLinks) neighbours() []*fakeLinks {
	a.v.mu.Lock()
	defer a.v.mu.Unlock()
	var all []*fakeLinks
	for id, b := range a.up {
		if a.v.stalls[id] == b {
			all = append(all, b)
		}
	}
	return all
}

func (a *fakeLinks) Peers() []link.PeerInfo {
	a.v.mu.Lock()
	defer a.v.mu.Unlock()
	var all []link.PeerInfo
	for _, id := range a.v.everybodyLocked() {
		_, wanted := a.want[id]
		if id != a.id && (wanted || a.up[id] != nil) {
			all = append(all, link.PeerInfo{ID: id, Connected: a.up[id] != nil, LastHeard: a.last[id], Err: errors.New("away")})
		}
	}
	return all
}

// Close closes the connections without a farewell, which the others see.
func (a *fakeLinks) Close() error {
	a.once.Do(func() {
		close(a.stop)
		a.wg.Wait()
		near := a.neighbours()
		a.v.mu.Lock()
		cut := a.v.cut[a.id]
		if a.v.stalls[a.id] == a {
			delete(a.v.stalls, a.id)
		}
		for _, b := range near {
			delete(b.up, a.id)
		}
		incarnation := a.cfg.Enter.Incarnation
		a.v.mu.Unlock()
		for _, b := range near {
			if !cut {
				b.cfg.Closed(a.id, incarnation)
			}
		}
	})
	return nil
}
