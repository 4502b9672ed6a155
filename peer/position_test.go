package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// logs are what the applications of a cluster have written, by node.
type logs struct {
	mu    sync.Mutex
	at    map[protocol.NodeID]int
	slow  map[protocol.NodeID]time.Duration // how long it takes to say so
	fails map[protocol.NodeID]error
	asked map[protocol.NodeID]int
	calls []string // of CatchUp, as n1<n2@7
	ends  []error  // why a CatchUp ended early
	catch bool     // a CatchUp catches up at once; else it waits for its end
}

func newLogs() *logs {
	return &logs{
		at: map[protocol.NodeID]int{}, slow: map[protocol.NodeID]time.Duration{}, fails: map[protocol.NodeID]error{}, asked: map[protocol.NodeID]int{}, catch: true,
	}
}

func (l *logs) set(id protocol.NodeID, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[id] = n
}

func (l *logs) called() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

func (l *logs) config(policy quorum.PositionPolicy) func(*setup) {
	return func(c *setup) {
		id := c.ID
		c.Position = string(policy)
		c.Locate = func(ctx context.Context) (string, error) {
			l.mu.Lock()
			n, slow, err := l.at[id], l.slow[id], l.fails[id]
			l.asked[id]++
			l.mu.Unlock()
			if slow > 0 {
				wait(ctx, slow)
			}
			return strconv.Itoa(n), err
		}
		c.CatchUp = func(ctx context.Context, from, position string) error {
			l.mu.Lock()
			l.calls = append(l.calls, fmt.Sprintf("%s<%s@%s", id, from, position))
			catch := l.catch
			if catch {
				l.at[id] = l.at[protocol.NodeID(from)]
			}
			l.mu.Unlock()
			if catch {
				return nil
			}
			<-ctx.Done()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ends = append(l.ends, context.Cause(ctx))
			return context.Cause(ctx)
		}
	}
}

// With require, a candidate that is behind is not elected, learns from which node to catch up, and is elected when it
// has.
func TestPositionIsRequired(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		l := newLogs()
		l.at = map[protocol.NodeID]int{"n1": 90, "n2": 100, "n3": 100} // as numbers: 90 is behind
		v.change = l.config(quorum.RequirePosition)
		nodes := v.openAll()
		if s := nodes[0].Status(); s.Position != "90" || s.PositionPolicy != "require" {
			t.Errorf("n1 shows position %q, policy %q", s.Position, s.PositionPolicy)
		}
		m := win(t, nodes[0])
		if calls := l.called(); !slices.Equal(calls, []string{"n1<n2@100"}) && !slices.Equal(calls, []string{"n1<n3@100"}) {
			t.Errorf("it was told to catch up: %q; want once, from n2 or n3", calls)
		}
		if s := nodes[0].Status(); s.Position != "100" {
			t.Errorf("a leader shows position %q after it caught up", s.Position)
		}
		release(t, m)
	})
}

// A CatchUp is canceled when there is a leader, when the candidate gives up, and when the node is closed.
func TestCatchUpIsMoot(t *testing.T) {
	for what, do := range map[string]struct {
		end  func(t *testing.T, nodes []*Node, cancel func())
		says string
	}{
		"another leads": {func(t *testing.T, nodes []*Node, _ func()) { win(t, nodes[1]) }, "n2 leads"},
		"it gives up":   {func(_ *testing.T, _ []*Node, cancel func()) { cancel() }, "does not campaign any more"},
		"it is paused": {func(t *testing.T, nodes []*Node, _ func()) {
			if err := nodes[0].Pause(t.Context()); err != nil {
				t.Error(err)
			}
		}, "n1 is paused"},
		"it is closed": {func(_ *testing.T, nodes []*Node, _ func()) { _ = nodes[0].Close() }, "context canceled"},
	} {
		t.Run(what, func(t *testing.T) {
			inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
				l := newLogs()
				l.catch = false
				l.at = map[protocol.NodeID]int{"n1": 9, "n2": 10, "n3": 10}
				v.change = l.config(quorum.RequirePosition)
				nodes := v.openAll()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				campaign(ctx, nodes[0])
				<-time.After(10 * time.Second)
				if calls := l.called(); len(calls) != 1 {
					t.Fatalf("it was told to catch up: %q; want once, while that goes on", calls)
				}
				do.end(t, nodes, cancel)
				<-time.After(time.Second)
				l.mu.Lock()
				defer l.mu.Unlock()
				if len(l.ends) != 1 || !strings.Contains(l.ends[0].Error(), do.says) {
					t.Errorf("it ended by %v; want %q", l.ends, do.says)
				}
			})
		})
	}
}

// A slow or failing Locate delays no heartbeat, and a campaign for at most a promise. Its last result counts.
func TestLocateTakesLong(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		l := newLogs()
		l.at = map[protocol.NodeID]int{"n1": 7, "n2": 7, "n3": 7}
		v.change = l.config(quorum.RequirePosition)
		nodes := v.openAll()
		promise := nodes[0].plan.Promise
		l.mu.Lock()
		l.slow["n1"] = time.Hour
		l.at["n1"] = 8
		l.mu.Unlock()
		<-time.After(promise)
		start := time.Now()
		m := win(t, nodes[0])
		if took := time.Since(start); took < promise || took > 3*promise/2 {
			t.Errorf("a campaign took %v; want a promise (%v), for which it waits, and little more", took, promise)
		}
		<-time.After(10 * promise)
		if err := m.Check(); err != nil {
			t.Errorf("a leader whose Locate hangs: %v", err)
		}
		if s := nodes[0].Status(); s.Position != "7" {
			t.Errorf("it shows position %q; want the last that was told", s.Position)
		}
		l.mu.Lock()
		l.fails["n2"] = errors.New("the database is down")
		l.at["n2"] = 100
		l.mu.Unlock()
		<-time.After(promise)
		if s := nodes[1].Status(); s.Position != "7" {
			t.Errorf("after a failure n2 shows position %q; want the last that was told", s.Position)
		}
		l.mu.Lock()
		l.fails["n2"] = nil
		l.mu.Unlock()
		<-time.After(promise)
		if s := nodes[1].Status(); s.Position != "100" {
			t.Errorf("n2 shows position %q; want 100", s.Position)
		}
		release(t, m)
		start = time.Now()
		_ = nodes[0].Close()
		if took := time.Since(start); took > promise {
			t.Errorf("Close took %v: it does not end Locate", took)
		}
	})
}

// With positions a leader that hands over waits until its successor has all that
// it wrote, and is renewed meanwhile, so that nobody refuses the successor.
func TestHandOverWaitsForPosition(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		l := newLogs()
		l.catch = false
		v.change = l.config(quorum.RequirePosition)
		nodes := v.openAll()
		m := win(t, nodes[0])
		next := campaign(t.Context(), nodes[1])
		<-time.After(time.Second)
		l.set("n1", 1000)                     // the work's last words,
		const copied = 400 * time.Millisecond // which others have a little later
		time.AfterFunc(copied, func() { l.set("n2", 1000) })
		start := time.Now()
		if err := m.(*mandate).Transfer(t.Context(), "n2"); err != nil {
			t.Fatal(err)
		}
		o := within(t, next, "n2")
		if o.err != nil {
			t.Fatal(o.err)
		}
		if took := time.Since(start); took < copied || took > copied+300*time.Millisecond {
			t.Errorf("n2 led after %v; want soon after %v, when it had caught up", took, copied)
		}
		if calls := l.called(); len(calls) != 0 {
			t.Errorf("somebody was told to catch up: %q; want that nobody was refused", calls)
		}
		// One that never catches up does not keep the leader for ever.
		back := campaign(t.Context(), nodes[0])
		<-time.After(time.Second)
		l.set("n2", 2000)
		start = time.Now()
		release(t, o.m)
		if took := time.Since(start); took > 3*nodes[0].plan.Promise {
			t.Errorf("a release took %v", took)
		}
		l.set("n1", 2000)
		if o := within(t, back, "n1"); o.err != nil {
			t.Error(o.err)
		}
	})
}

// A voter that knows no position of its own since its start says why it does not stand: with prefer for as long as it
// waits, with require until it knows one.
func TestPositionNotKnown(t *testing.T) {
	for policy, says := range map[quorum.PositionPolicy]string{
		quorum.PreferPosition:  "this node neither stands nor gives a vote to others until it is, or for 3s",
		quorum.RequirePosition: "this node neither stands nor gives a vote to others until it is",
	} {
		t.Run(string(policy), func(t *testing.T) {
			inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
				var logged bytes.Buffer
				l := newLogs()
				v.change = func(c *setup) {
					l.config(policy)(c)
					c.Heartbeat, c.Promise = 100*time.Millisecond, time.Second
					if c.ID == "n1" {
						c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
					}
				}
				for _, id := range v.all {
					l.fails[id] = errors.New("the database is down")
				}
				nodes := v.openAll()
				waits := campaign(t.Context(), nodes[0])
				const want = "n1 does not know its position yet: the database is down"
				s := sees(t, nodes[0], "why nobody leads", func(s driver.State) bool { return s.Cause != nil && !s.Stale })
				if s.Leader != nil || s.Cause.Error() != want {
					t.Errorf("it shows %+v; want %q", s, want)
				}
				<-time.After(10 * time.Second)
				if policy == quorum.RequirePosition {
					if len(waits) > 0 || nodes[0].Status().Cause != want {
						t.Errorf("elected: %v; it shows %+v", len(waits) > 0, nodes[0].Status())
					}
					l.mu.Lock()
					clear(l.fails)
					l.mu.Unlock()
				} else if len(waits) == 0 {
					t.Errorf("a preferred position keeps all from standing: %+v", nodes[0].Status())
				}
				o := within(t, waits, "its victory")
				if o.err != nil {
					t.Fatal(o.err)
				}
				release(t, o.m)
				if err := nodes[0].watch.standsNot(); err != nil && policy == quorum.RequirePosition {
					t.Errorf("it would not stand: %v", err)
				}
				_ = nodes[0].Close()
				if text := logged.String(); strings.Count(text, says) != 1 || strings.Contains(text, "the last one counts") {
					t.Errorf("the log\n%s\nwant %q once", text, says)
				}
			})
		})
	}
}

// Compare of the application orders positions.
func TestCompare(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		at := map[protocol.NodeID]string{"n1": "16/B374D848", "n2": "16/9374D848", "n3": "F/FFFFFFFF"} // hexadecimal
		v.change = func(c *setup) {
			id := c.ID
			c.Position = string(quorum.RequirePosition)
			c.Locate = func(context.Context) (string, error) { return at[id], nil }
			c.Compare = func(a, b string) int {
				x, y := lsn(a), lsn(b)
				return int(min(max(int64(x-y), -1), 1))
			}
		}
		nodes := v.openAll()
		waits := campaign(t.Context(), nodes[2])
		also := campaign(t.Context(), nodes[1])
		<-time.After(5 * time.Second)
		if len(waits) > 0 || len(also) > 0 {
			o := <-also
			if len(waits) > 0 || o.m == nil || o.m.(*mandate).n.cfg.ID != "n2" {
				t.Fatal("n3, which is behind both others, was elected")
			}
			release(t, o.m)
		}
		release(t, win(t, nodes[0]))
	})
}

func lsn(text string) uint64 {
	high, low, _ := strings.Cut(text, "/")
	h, _ := strconv.ParseUint(high, 16, 32)
	l, _ := strconv.ParseUint(low, 16, 32)
	return h<<32 | l
}
