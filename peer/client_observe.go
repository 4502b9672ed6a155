package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/peer/internal/wire"
)

const (
	// settleTime is how long an observer waits for further nodes before its first
	// state, once one that knows has answered.
	settleTime = 300 * time.Millisecond
	// firstLimit is how long it waits if none does. It is above dialLimit, so that the first state can say why.
	firstLimit = 2500 * time.Millisecond
	// silence is how long a node may send nothing before it counts as frozen.
	silence = 3 * beat

	retryFirst = 100 * time.Millisecond
	retryMost  = 2 * time.Second
)

// Watch implements [driver.Elector]. It keeps a connection with each node and merges what they see: the greatest token
// counts, and a node that is cut off only if no other knows better. When no node can be asked the state is stale, and
// its Cause says what is wrong with each. The error is that every node refuses this client for good.
//
// The first state comes when a majority of the voters knows the leader or all nodes have answered, 300 ms after the
// first node has said whether there is a leader, or after 2.5 s.
func (c *Client) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		if ctx.Err() != nil || c.life.Err() != nil {
			return
		}
		ctx, stop := c.while(ctx)
		var following sync.WaitGroup
		defer following.Wait()
		defer stop()
		b := newBoard(c.nodes, c.voters)
		for i, n := range c.nodes {
			following.Go(func() { c.follow(ctx, n, func(r report) { b.put(i, r) }) })
		}
		for s, err := range b.states(ctx) {
			if ctx.Err() != nil || !yield(s, err) {
				return
			}
		}
	}
}

// follow reports the view of one node until ctx ends.
func (c *Client) follow(ctx context.Context, to Peer, tell func(report)) {
	retry := retryFirst
	for ctx.Err() == nil {
		err := c.stream(ctx, to, func(s sighting) {
			retry = retryFirst
			tell(report{heard: true, sighting: s})
		})
		if ctx.Err() != nil {
			return
		}
		refused := false
		if r, ok := errors.AsType[*wire.Refusal](err); ok {
			refused = r.Final
		}
		tell(report{err: err, refused: refused})
		wait(ctx, retry/2+rand.N(retry/2))
		retry = min(2*retry, retryMost)
	}
}

// wait returns false if ctx ends before the time is over.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stream watches one node until the connection ends, and returns the reason. It is never nil.
func (c *Client) stream(ctx context.Context, to Peer, each func(sighting)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := c.dial(ctx, to)
	if err != nil {
		return because(ctx, err)
	}
	defer conn.Close()
	frozen := time.AfterFunc(silence, func() { cancel(fmt.Errorf("it has said nothing for %v", silence)) })
	defer frozen.Stop()
	err = conn.Call(ctx, verbWatch, 0, nil, func(body json.RawMessage) error {
		frozen.Reset(silence)
		var s sighting
		if err := json.Unmarshal(body, &s); err != nil {
			return fmt.Errorf("what it sees cannot be read: %w", err)
		}
		each(s)
		return nil
	})
	if err == nil {
		return errors.New("it has ended the watch")
	}
	return understood(because(ctx, err))
}

// report is the latest view of one node.
type report struct {
	heard bool // sighting is its present view
	sighting
	err     error // why the node cannot be heard
	refused bool  // for good
}

// board holds the latest report of each node.
type board struct {
	nodes  []Peer
	voters int
	news   chan struct{} // has room for one

	mu      sync.Mutex
	reports []report
}

func newBoard(nodes []Peer, voters int) *board {
	return &board{nodes: nodes, voters: voters, news: make(chan struct{}, 1), reports: make([]report, len(nodes))}
}

func (b *board) put(i int, r report) {
	b.mu.Lock()
	b.reports[i] = r
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// states yields the merged state, and each change.
func (b *board) states(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		var m merger
		var last driver.State
		shown, waiting := false, true
		settled := time.NewTimer(firstLimit)
		defer settled.Stop()
		settling := false
		for {
			select {
			case <-b.news:
			case <-settled.C:
				waiting = false
			case <-ctx.Done():
				return
			}
			b.mu.Lock()
			s, n := m.merge(b.nodes, b.voters, b.reports)
			b.mu.Unlock()
			if n.refused == len(b.nodes) {
				yield(driver.State{}, driver.Permanent(s.Cause))
				return
			}
			if waiting && n.told < len(b.nodes) && (n.knowing <= b.voters/2 || s.Leader == nil) {
				if n.fresh > 0 && !settling {
					settling = true
					settled.Reset(settleTime)
				}
				continue
			}
			waiting = false
			if shown && sameState(last, s) {
				continue
			}
			last, shown = s, true
			if !yield(s, nil) {
				return
			}
		}
	}
}
