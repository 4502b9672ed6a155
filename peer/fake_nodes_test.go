package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// health is the condition of a node.
type health string

const (
	healthy health = "up"
	down    health = "down"    // connections are refused and reset
	lost    health = "lost"    // nothing comes back: packets are dropped
	frozen  health = "frozen"  // connections are admitted, and nothing is said
	hostile health = "hostile" // it refuses for good
)

// fakeNodes are nodes without a network between them and a client.
type fakeNodes struct {
	nodes map[protocol.NodeID]*fakeNode

	mu      sync.Mutex
	health  map[protocol.NodeID]health
	changed chan struct{}
	dials   map[protocol.NodeID]int
	open    int
}

func newNodes(ids ...string) *fakeNodes {
	w := &fakeNodes{nodes: map[protocol.NodeID]*fakeNode{}, health: map[protocol.NodeID]health{}, changed: make(chan struct{}), dials: map[protocol.NodeID]int{}}
	for _, id := range ids {
		w.nodes[protocol.NodeID(id)] = newFakeNode(id)
		w.health[protocol.NodeID(id)] = healthy
	}
	for _, n := range w.nodes {
		n.others = w.nodes
	}
	return w
}

// is changes the condition of nodes.
func (w *fakeNodes) is(h health, ids ...protocol.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.health[id] = h
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *fakeNodes) look(id protocol.NodeID) (health, chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health[id], w.changed
}

func (w *fakeNodes) dialled(id protocol.NodeID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[id]
}

func (w *fakeNodes) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// sees makes nodes see a state.
func (w *fakeNodes) sees(s driver.State, ids ...protocol.NodeID) {
	for _, id := range ids {
		w.nodes[id].sees(s)
	}
}

func (w *fakeNodes) dial(ctx context.Context, to Peer) (conn, error) {
	w.mu.Lock()
	w.dials[protocol.NodeID(to.ID)]++
	w.mu.Unlock()
	ctx, stop := context.WithTimeoutCause(ctx, dialLimit, fmt.Errorf("no answer within %v", dialLimit))
	defer stop()
	switch h, _ := w.look(protocol.NodeID(to.ID)); h {
	case down:
		return nil, errors.New("connection refused")
	case lost:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case hostile:
		return nil, &wire.Refusal{Code: wire.CodeCluster, Says: "another cluster", Final: true}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	return &fakeConn{nodes: w, node: w.nodes[protocol.NodeID(to.ID)]}, nil
}

type fakeConn struct {
	nodes *fakeNodes
	node  *fakeNode
}

func (c *fakeConn) Close() error {
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	c.nodes.open--
	return nil
}

func (c *fakeConn) Call(ctx context.Context, verb string, token uint64, body any, each func(json.RawMessage) error) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	replies := make(chan *wire.Response)
	var answering sync.WaitGroup
	defer answering.Wait()
	defer cancel()
	answering.Go(func() {
		answer(ctx, c.node, slog.New(slog.DiscardHandler), operator, &wire.Request{Call: 1, Verb: verb, Token: token, Body: text}, func(r *wire.Response) error {
			select {
			case replies <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	for {
		h, changed := c.nodes.look(c.node.id)
		in := replies
		switch h {
		case down:
			return io.ErrUnexpectedEOF
		case lost, frozen:
			in = nil
		}
		select {
		case <-changed:
		case r := <-in:
			if r.Code != "" {
				return &link.CallError{Code: r.Code, Says: r.Error}
			}
			if err := each(r.Body); err != nil || !r.More {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// client returns a client of these nodes. The caller closes it.
func (w *fakeNodes) client(t *testing.T, observers ...Peer) *Client {
	t.Helper()
	c, err := newClient(setup{Name: "nightly", Voters: ids3(), Config: Config{Observers: observers}})
	if err != nil {
		t.Fatal(err)
	}
	c.dial = w.dial
	return c
}

// spectator follows a client's Watch.
type spectator struct {
	t      *testing.T
	began  time.Time
	states chan string
	ended  chan error
	stop   context.CancelFunc
}

func spectate(t *testing.T, c *Client) *spectator {
	ctx, stop := context.WithCancel(t.Context())
	w := &spectator{t: t, began: time.Now(), states: make(chan string, 100), ended: make(chan error, 1), stop: stop}
	go func() {
		var last error
		for s, err := range c.Watch(ctx) {
			if err != nil {
				last = err
				continue
			}
			text := fmt.Sprintf("%v ", time.Since(w.began))
			if s.Leader == nil {
				text += "nobody"
			} else {
				text += s.Leader.ID + "/" + s.Leader.Token.String()
			}
			if s.Stale {
				text += " stale"
			}
			if s.Cause != nil {
				text += ": " + s.Cause.Error()
			}
			w.states <- text
		}
		w.ended <- last
	}()
	return w
}

// sees expects exactly these states by now, each with the time since the watch
// began.
func (w *spectator) sees(want ...string) {
	w.t.Helper()
	synctest.Wait()
	var got []string
	for range len(w.states) {
		got = append(got, <-w.states)
	}
	if !reflect.DeepEqual(got, want) {
		w.t.Errorf("saw %q; want %q", got, want)
	}
}

func (w *spectator) end() {
	w.t.Helper()
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Errorf("the end of the context is the error %v", err)
	}
}
