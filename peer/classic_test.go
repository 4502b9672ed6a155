package peer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

// inClassicCluster is inCluster for each classic protocol.
func inClassicCluster(t *testing.T, voters int, do func(t *testing.T, v *fakeCluster, k *classic)) {
	t.Helper()
	for _, k := range classics() {
		t.Run(k.name, func(t *testing.T) {
			inCluster(t, voters, func(t *testing.T, v *fakeCluster) {
				v.change = func(c *setup) { c.Protocol = k.name }
				do(t, v, k)
			})
		})
	}
}

// won is a leadership that a contender has had.
type won struct {
	id          protocol.NodeID
	token       fence.Token
	from, until time.Time // until is zero while it goes on
	why         error
}

// contest is nodes that stand, again after each loss, and do nothing when they
// lead.
type contest struct {
	mu    sync.Mutex
	terms []*won
	wg    sync.WaitGroup
}

// stands has a node stand until the returned function is called.
func (c *contest) stands(t *testing.T, n *Node) (stop func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c.wg.Go(func() {
		for ctx.Err() == nil {
			m, err := n.Campaign(ctx, driver.Candidacy{Metadata: map[string]string{"at": string(n.cfg.ID)}})
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, driver.ErrClosed) {
					t.Errorf("%s cannot campaign: %v", n.cfg.ID, err)
				}
				return
			}
			r := &won{id: n.cfg.ID, token: m.Token(), from: time.Now()}
			c.mu.Lock()
			c.terms = append(c.terms, r)
			c.mu.Unlock()
			if err := m.Check(); !errors.Is(err, driver.ErrNotExclusive) && m.Context().Err() == nil {
				t.Errorf("%s leads, and its check says %v; want that it is not exclusive", n.cfg.ID, err)
			}
			if left, bounded := m.Remaining(); left != 0 || !bounded {
				t.Errorf("%s has %v left, %v; want nothing that is proven", n.cfg.ID, left, bounded)
			}
			select {
			case <-m.Context().Done():
			case <-ctx.Done():
			}
			c.mu.Lock()
			r.until, r.why = time.Now(), context.Cause(m.Context())
			c.mu.Unlock()
			_ = m.Release(context.WithoutCancel(ctx))
		}
	})
	return func() { cancel(errors.New("it stands no more")) }
}

// leaders are the nodes that lead now.
func (c *contest) leaders() []won {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []won
	for _, r := range c.terms {
		if r.until.IsZero() {
			all = append(all, *r)
		}
	}
	return all
}

// awaits waits until as many lead, for as long as the protocol may take, and
// returns them by id.
func (c *contest) awaits(t *testing.T, many int, limit time.Duration) []won {
	t.Helper()
	for late := time.Now().Add(limit); ; <-time.After(5 * time.Millisecond) {
		l := c.leaders()
		if len(l) == many {
			slices.SortFunc(l, func(a, b won) int { return a.id.Compare(b.id) })
			return l
		}
		if time.Now().After(late) {
			t.Fatalf("after %v %d lead, and %d should: %+v", limit, len(l), many, l)
		}
	}
}

// slack is how long an election may take at most, also the first one.
func slack(n *Node) time.Duration { return 3*n.plan.takeover + 10*n.plan.Promise }

// TestClassicTakeover: with each protocol a node is elected, and all see it. When it dies another is elected, with a
// greater token.
func TestClassicTakeover(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		nodes := v.openAll()
		var c contest
		var stops []func()
		for _, n := range nodes {
			stops = append(stops, c.stands(t, n))
		}
		first := c.awaits(t, 1, slack(nodes[0]))[0]
		sees := func(want won) {
			t.Helper()
			for _, n := range nodes {
				if n == nil {
					continue
				}
				ok := comesTrue(slack(n), func() bool {
					s := n.Status()
					return s.Leader != nil && s.Leader.ID == string(want.id) && s.Leader.Token == want.token && s.Leader.NoLease &&
						!s.Leader.Since.IsZero() && s.Leader.Metadata["at"] == string(want.id) && s.Protocol == k.name
				})
				if !ok {
					t.Fatalf("%s does not see %s with token %v: %+v", n.cfg.ID, want.id, want.token, n.Status().Leader)
				}
			}
		}
		sees(first)
		i := slices.IndexFunc(nodes, func(n *Node) bool { return n.cfg.ID == first.id })
		if s := nodes[i].Status(); s.Active || s.LeaseLeft != 0 || s.Token != first.token {
			t.Errorf("the leader says %+v; want no lease", s)
		}
		dead := nodes[i]
		nodes[i] = nil
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		comesTrue(slack(dead), func() bool { return !slices.ContainsFunc(c.leaders(), func(r won) bool { return r.id == first.id }) })
		second := c.awaits(t, 1, slack(dead))[0]
		if second.id == first.id || second.token <= first.token {
			t.Fatalf("%s was elected with token %v after %s with %v", second.id, second.token, first.id, first.token)
		}
		sees(second)
		// The dead one comes back, with its disk, and there is one leader again, be it
		// another one.
		back := v.open(first.id)
		nodes[i] = back
		stops[i] = c.stands(t, back)
		<-time.After(slack(back))
		sees(c.awaits(t, 1, slack(back))[0])
		for _, stop := range stops {
			stop()
		}
		c.wg.Wait()
	})
}

// comesTrue waits in fake time.
func comesTrue(limit time.Duration, is func() bool) bool {
	for late := time.Now().Add(limit); ; <-time.After(5 * time.Millisecond) {
		if is() {
			return true
		}
		if time.Now().After(late) {
			return false
		}
	}
}

// TestClassicResign: a leader that is asked to steps down, and another one leads
// next, also when a follower was asked.
func TestClassicResign(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		nodes := v.openAll()
		var c contest
		for _, n := range nodes {
			defer c.stands(t, n)()
		}
		first := c.awaits(t, 1, slack(nodes[0]))[0]
		if err := v.node(t, first.id).Resign(t.Context(), first.token); err != nil {
			t.Fatal(err)
		}
		if !comesTrue(slack(nodes[0]), func() bool {
			l := c.leaders()
			return len(l) == 1 && l[0].id != first.id && l[0].token > first.token
		}) {
			t.Fatalf("nobody else leads after %s has resigned: %+v", first.id, c.leaders())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if why := c.terms[0].why; !errors.Is(why, driver.ErrResigned) {
			t.Errorf("the leader's term ended by %v; want that it resigned", why)
		}
	})
}

// TestClassicPause: a leader that is paused steps down and stays away.
func TestClassicPause(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		nodes := v.openAll()
		var c contest
		for _, n := range nodes {
			defer c.stands(t, n)()
		}
		first := c.awaits(t, 1, slack(nodes[0]))[0]
		n := v.node(t, first.id)
		if err := n.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(slack(n))
		next := c.awaits(t, 1, slack(n))[0]
		if next.id == first.id {
			t.Fatalf("%s leads, and is paused", next.id)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if why := c.terms[0].why; !errors.Is(why, driver.ErrResigned) || !strings.Contains(why.Error(), "paused") {
			t.Errorf("the leader's term ended by %v; want that it was paused", why)
		}
	})
}

// TestClassicAlone: a single voter elects itself.
func TestClassicAlone(t *testing.T) {
	inClassicCluster(t, 1, func(t *testing.T, v *fakeCluster, k *classic) {
		n := v.openAll()[0]
		var c contest
		stop := c.stands(t, n)
		first := c.awaits(t, 1, slack(n))[0]
		stop()
		c.wg.Wait()
		_ = n.Close()
		n = v.open("n1")
		defer c.stands(t, n)()
		if again := c.awaits(t, 1, slack(n))[0]; again.token <= first.token {
			t.Errorf("it leads with token %v, and did with %v", again.token, first.token)
		}
	})
}
