package failover

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/fence"
)

// play is a round of any kind.
func (s *election) play(ctx context.Context, k Kill) (time.Duration, error) {
	s.beyond = 0
	if k == Rolling {
		return s.roll(ctx)
	}
	return s.round(ctx, k)
}

// roll restarts all nodes, one after the other, as an operator does for a new version: first the followers, and last
// the leader, after it has handed over. It returns for how long no command was running. An observer checks that there
// is a leader at all other times.
func (s *election) roll(ctx context.Context) (time.Duration, error) {
	leader, err := s.calm(ctx)
	if err != nil {
		return 0, err
	}
	w := s.witness(ctx)
	defer w.close()
	for _, id := range s.local.Voters() {
		if id == leader.id {
			continue
		}
		if err := s.unmoved(ctx, id, leader); err != nil {
			return 0, err
		}
	}
	took, err := s.round(ctx, Transfer)
	if err != nil {
		return 0, err
	}
	window := s.handed
	next, err := s.calm(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.unmoved(ctx, leader.id, next); err != nil {
		return 0, err
	}
	s.beyond = w.without(window[0], window[1])
	return took, nil
}

// tenure is one period of leadership. A leader that lapses and is elected again begins another one, with another
// token, and another process leads.
type tenure struct {
	id    string
	token fence.Token
	pid   int
}

func (r tenure) String() string {
	return fmt.Sprintf("%s (token %v, process %d)", r.id, r.token, r.pid)
}

// calm waits until the election is at rest, and returns the leader's tenure.
func (s *election) calm(ctx context.Context) (tenure, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	work, err := s.rest(ctx)
	if err != nil {
		return tenure{}, err
	}
	work.close()
	return tenure{s.leader.id, s.token, s.pid}, nil
}

// unmoved restarts a follower. The leader must continue without an interruption.
func (s *election) unmoved(ctx context.Context, id string, leader tenure) error {
	if err := s.restart(ctx, id); err != nil {
		return err
	}
	again, err := s.calm(ctx)
	if err != nil {
		return err
	}
	return leader.same(again, id)
}

// same is an error if another one leads after the node id was restarted.
func (r tenure) same(again tenure, id string) error {
	if again != r {
		return fmt.Errorf("%s was restarted, and %v leads instead of %v", id, again, r)
	}
	return nil
}

// restart ends a follower, as a service manager does, and starts it again.
func (s *election) restart(ctx context.Context, id string) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	m := s.members[id]
	s.bury(m) // its end is intended
	if err := m.cand.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	return s.again(ctx, m)
}

// other is the voter after the one with the id, in their order.
func (s *election) other(id string) string {
	all := s.local.Voters()
	return all[(slices.Index(all, id)+1)%len(all)]
}

// gaps are the periods in which an observer sees no leader.
type gaps struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex
	from time.Duration // since when there is no leader; 0: there is one
	all  [][2]time.Duration
}

// witness begins to observe, through all nodes.
func (s *election) witness(ctx context.Context) *gaps {
	ctx, stop := context.WithCancel(ctx)
	g := &gaps{stop: stop}
	g.done.Go(func() {
		for state, err := range s.client.Watch(ctx) {
			if err != nil {
				return
			}
			g.see(state.Leader != nil && !state.Stale, now())
		}
	})
	return g
}

func (g *gaps) see(led bool, at time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case led && g.from != 0:
		g.all = append(g.all, [2]time.Duration{g.from, at})
		g.from = 0
	case !led && g.from == 0:
		g.from = at
	}
}

func (g *gaps) close() {
	g.stop()
	g.done.Wait()
}

// without is for how long there was no leader in all, except between two instants. It ends the observation.
func (g *gaps) without(from, to time.Duration) (sum time.Duration) {
	g.close()
	g.see(true, now())
	for _, gap := range g.all {
		sum += max(min(gap[1], from)-gap[0], 0) + max(gap[1]-max(gap[0], to), 0)
	}
	return sum
}
