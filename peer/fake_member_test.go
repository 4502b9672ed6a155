package peer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// call is a client's connection with a node of the cluster.
type call struct {
	v  *fakeCluster
	to protocol.NodeID
}

// dial finds a node that is there at its address.
func (v *fakeCluster) dial(_ context.Context, to Peer) (conn, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.nodes[protocol.NodeID(to.ID)]
	if n == nil || v.stalls[protocol.NodeID(to.ID)] == nil || v.cut[protocol.NodeID(to.ID)] || v.where(protocol.NodeID(to.ID)) != to.Addr {
		return nil, errors.New("connection refused")
	}
	return call{v, protocol.NodeID(to.ID)}, nil
}

func (c call) Close() error { return nil }

func (c call) Call(ctx context.Context, verb string, token uint64, body any, each func(json.RawMessage) error) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	c.v.mu.Lock()
	n := c.v.nodes[c.to]
	c.v.mu.Unlock()
	var mu sync.Mutex
	var all []*wire.Response
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer(ctx, n.service(), slog.New(slog.DiscardHandler), operator, &wire.Request{Call: 1, Verb: verb, Token: token, Body: text}, func(r *wire.Response) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, r)
			return ctx.Err()
		})
	}()
	select {
	case <-done:
	case <-ctx.Done():
		<-done
		return ctx.Err()
	}
	for _, r := range all {
		if r.Code != "" {
			return &link.CallError{Code: r.Code, Says: r.Error}
		}
		if err := each(r.Body); err != nil {
			return err
		}
	}
	return nil
}

// join opens a node that waits to be added.
func (v *fakeCluster) join(id protocol.NodeID) *Node {
	v.t.Helper()
	v.mu.Lock()
	if !slices.Contains(v.late, id) {
		v.late = append(v.late, id)
	}
	v.mu.Unlock()
	return v.open(id)
}

// asks has the node of that id asked for a change, and returns the steps.
func (v *fakeCluster) asks(at protocol.NodeID, q memberRequest) ([]string, *MemberChange, error) {
	v.t.Helper()
	conn, err := v.dial(v.t.Context(), v.peer(at))
	if err != nil {
		v.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	var steps []string
	done, err := callChange(ctx, conn, q, func(s string) { steps = append(steps, s) })
	return steps, done, err
}

// changes has a change made.
func (v *fakeCluster) changes(at protocol.NodeID, q memberRequest) *MemberChange {
	v.t.Helper()
	steps, done, err := v.asks(at, q)
	if err != nil {
		v.t.Fatalf("%v: %v", &q, err)
	}
	if !slices.Equal(steps, done.Steps) || !done.Membership.Settled {
		v.t.Fatalf("%v: told %q, and at last %+v", &q, steps, done)
	}
	return done
}

func (v *fakeCluster) add(at, id protocol.NodeID) *MemberChange {
	v.t.Helper()
	return v.changes(at, memberRequest{Op: opAdd, ID: id, Addr: v.peer(id).Addr})
}

// refusedChange asserts that a change is refused, and why.
func (v *fakeCluster) refusedChange(at protocol.NodeID, q memberRequest, says ...string) {
	v.t.Helper()
	before := v.nodes[at].membership.Load()
	_, done, err := v.asks(at, q)
	if done != nil || !errors.Is(err, ErrRefused) {
		v.t.Fatalf("%v: %+v, %v; want it refused", &q, done, err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			v.t.Errorf("%v: the error does not say %q: %v", &q, s, err)
		}
	}
	if now := v.nodes[at].membership.Load(); now.Compare(before) != 0 {
		v.t.Errorf("%v: membership %v, then %v", &q, before.ID(), now.ID())
	}
}

// has waits until nodes have exactly these voters and observers.
func (v *fakeCluster) has(who string, nodes ...*Node) {
	v.t.Helper()
	for _, n := range nodes {
		shown := ""
		for range 200 {
			if ms := n.membership.Load(); ms != nil {
				if shown = list(ids(n.membership.voters())) + "|" + list(ms.Observers); shown == who {
					break
				}
			}
			<-time.After(50 * time.Millisecond)
		}
		if shown != who {
			v.t.Errorf("%s has %q; want %q", n.cfg.ID, shown, who)
		}
	}
}

func (v *fakeCluster) asksDone(at protocol.NodeID, q memberRequest) (*MemberChange, error) {
	_, done, err := v.asks(at, q)
	return done, err
}
