package peer

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// These tests hold what a node owes its machine beside package runtime, which has the
// tests of everything that is the same for all participants.

// rig is a node of one voter, whose links record what they are told, and whose saves end
// when the test says so. What happens is a line of the record.
type rig struct {
	t    *testing.T
	node *Node
	link link.Config // what the links were made with
	ends chan error  // what becomes of the save that is under way

	mu      sync.Mutex
	lines   []string
	stepped bool // saves wait for ends
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, ends: make(chan error)}
	t.Cleanup(func() {
		close(r.ends)
		if r.node != nil {
			_ = r.node.Close()
		}
	})
	return r
}

// open opens a node with the rig's fakes and a place in the cluster.
func (r *rig) open(v *fakeCluster) (err error) {
	cfg := v.config("n1")
	cfg.connect = func(c link.Config) (links, error) {
		r.say("links")
		r.link = c
		return rigLinks{r: r}, nil
	}
	cfg.disk = func(save func([]byte) error) func([]byte) error {
		return func(data []byte) (err error) {
			r.mu.Lock()
			stepped := r.stepped
			r.mu.Unlock()
			if stepped {
				err = <-r.ends
			}
			if err != nil {
				r.say("disk: failed")
				return err
			}
			defer r.say("disk: durable")
			return save(data)
		}
	}
	r.node, err = open(r.t.Context(), cfg)
	return err
}

func (r *rig) say(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// happens expects exactly these lines by the time when nothing goes on any more.
func (r *rig) happens(want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	got := r.lines
	r.lines = nil
	r.mu.Unlock()
	if !slices.Equal(got, want) {
		r.t.Errorf("this happened:\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// step has saves wait for end, or not.
func (r *rig) step(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stepped = on
}

// end ends the save that is under way.
func (r *rig) end(err error) { r.ends <- err }

// rigLinks are the links of a rig. It has no peers, and so nothing is sent.
type rigLinks struct {
	links
	r *rig
}

func (l rigLinks) SetIncarnation(uint64) { l.r.say("incarnation") }
func (l rigLinks) SetPeers(protocol.ConfigID, link.Peers, func(protocol.NodeID) *wire.Refusal) {
}
func (l rigLinks) Announce(*wire.Welcome) { l.r.say("welcome") }
func (l rigLinks) Peers() []link.PeerInfo { return nil }
func (l rigLinks) Close() error           { return nil }

// TestFoundingSaveIsAwaited: others hear of a node's first incarnation when it is
// durable.
func TestFoundingSaveIsAwaited(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		r := newRig(t)
		r.step(true)
		if err := r.open(v); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * loneFounder)
		r.happens("links")
		if i := r.link.Enter.Incarnation; i != 0 {
			t.Errorf("the first hello says incarnation %d; want none", i)
		}
		r.end(nil)
		r.happens("disk: durable", "incarnation", "welcome")
	})
}

// TestBootSaveIsAwaited: a node that has restarted has no links before its new
// incarnation is durable.
func TestBootSaveIsAwaited(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, v *fakeCluster) {
		r := newRig(t)
		life := func(end error, want ...string) (err error) {
			t.Helper()
			r.step(true)
			opened := make(chan error, 1)
			go func() { opened <- r.open(v) }()
			r.happens()
			r.end(end)
			r.step(false)
			r.happens(want...)
			return within(t, opened, "New")
		}
		if err := r.open(v); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * loneFounder)
		r.happens("links", "disk: durable", "incarnation", "welcome", "disk: durable") // the second copy
		first := r.node.run.Incarnation()
		_ = r.node.Close()

		if err := life(nil, "disk: durable", "links"); err != nil {
			t.Fatal(err)
		}
		if i := r.link.Enter.Incarnation; i != first+1 {
			t.Errorf("the first Enter of the second life says incarnation %d; want the one after %d", i, first)
		}
		_ = r.node.Close()
		if err := life(errors.New("no space left on device"), "disk: failed"); err == nil {
			t.Error("a node whose boot cannot be saved is opened")
		}
	})
}

// tap records what leaves a node of the cluster.
type tap struct {
	links
	mu   sync.Mutex
	sent []protocol.Message
}

func (l *tap) Send(to protocol.NodeID, letter *wire.Letter) {
	l.mu.Lock()
	l.sent = append(l.sent, letter.Message)
	l.mu.Unlock()
	l.links.Send(to, letter)
}

// letters returns what has left since it was called last.
func (l *tap) letters() []protocol.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.sent
	l.sent = nil
	return all
}

// tapped puts a tap between a node and its links.
func (v *fakeCluster) tapped(id protocol.NodeID) *tap {
	l := &tap{}
	v.change = func(cfg *setup) {
		if connect := cfg.connect; cfg.ID == id {
			cfg.connect = func(c link.Config) (links, error) {
				var err error
				l.links, err = connect(c)
				return l, err
			}
		}
	}
	return l
}

// TestHungSync: a voter whose disk hangs since a change of the term answers no heartbeat for half an hour, and then
// only the newest.
func TestHungSync(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		left := v.tapped("n3")
		var mu sync.Mutex
		var hangs chan struct{}
		v.disk = func(id protocol.NodeID, save func([]byte) error) func([]byte) error {
			return func(data []byte) error {
				mu.Lock()
				c := hangs
				mu.Unlock()
				if id == "n3" && c != nil {
					<-c
				}
				return save(data)
			}
		}
		nodes := v.openAll()
		release(t, win(t, nodes[0]))
		heal := make(chan struct{})
		mu.Lock()
		hangs = heal
		mu.Unlock()
		m := win(t, nodes[1])
		left.letters()
		<-time.After(long.Or(30*time.Minute, 3*time.Minute))
		for _, msg := range left.letters() {
			if msg.Term >= uint64(m.Token()) && msg.Granted {
				t.Fatalf("%s of term %d has left, which is not durable", msg.Type, msg.Term)
			}
		}
		close(heal)
		synctest.Wait()
		acks := 0
		for _, msg := range left.letters() {
			if msg.Type == quorum.HeartbeatAck {
				acks++
			}
		}
		if acks == 0 || acks > 2 { // that which waited, and that of a heartbeat of this moment
			t.Errorf("%d acks leave when the disk goes on; want the newest", acks)
		}
		<-time.After(time.Second)
		if err := m.Check(); err != nil {
			t.Errorf("the leader was disturbed: %v", err)
		}
		release(t, m)
	})
}

// TestTestamentNamesThisLife: what a witness says, however often, harms no later life of the node.
func TestTestamentNamesThisLife(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		left := v.tapped("n1")
		nodes := v.openAll()
		n := nodes[0]
		for range 3 {
			left.letters()
			m := win(t, n)
			<-time.After(time.Second)
			var says testament
			if err := json.Unmarshal(m.(driver.Attestable).Testament().Data, &says); err != nil {
				t.Fatal(err)
			}
			for _, msg := range left.letters() {
				if msg.Incarnation != says.Incarnation || msg.Dir != says.Dir {
					t.Fatalf("the testament is of incarnation %d of %s, and a %s of incarnation %d of %s", says.Incarnation, says.Dir, msg.Type, msg.Incarnation, msg.Dir)
				}
			}
			word := func() {
				for _, id := range []protocol.NodeID{"n2", "n3"} {
					v.mu.Lock()
					at := v.stalls[id]
					v.mu.Unlock()
					at.cfg.Receive("n1", &wire.Letter{Message: protocol.Message{Type: quorum.WitnessRelease, Dir: says.Dir, Echo: says.Incarnation}})
				}
			}
			_ = n.Close() // with its lease
			word()
			n = v.open("n1")
			word()
			m = win(t, n)
			word()
			<-time.After(5 * n.plan.Promise)
			if err := m.Check(); err != nil {
				t.Errorf("the word about an earlier life has ended the term of the next: %v", err)
			}
			release(t, m)
		}
	})
}
