package elect_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/store/memory"
)

var stormSeed = flag.Uint64("storm", 0, "run TestStorm with this seed only; it repeats the faults, not the scheduler's choices")

// TestStorm puts several participants that lead through random faults, and asks
// of every instant what the package promises: at most one term that goes on,
// tokens that rise, and, once the faults are over, a leader that everybody sees.
func TestStorm(t *testing.T) {
	seeds := []uint64{rand.Uint64(), rand.Uint64()}
	for seed := range uint64(18) {
		seeds = append(seeds, seed+1)
	}
	if *stormSeed != 0 {
		seeds = []uint64{*stormSeed}
	}
	elections := 0
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStorm(t, seed)
				s.run()
				elections += s.elections
				if t.Failed() {
					t.Logf("repeat with: go test -run TestStorm -storm %d", seed)
				}
			})
		})
	}
	t.Logf("%d elections", elections)
}

const (
	stormNodes = 5
	storms     = 8
	stormLasts = 30 * time.Second

	// calmWithin is how long after the last fault somebody must lead: what the
	// work began in the storm ends (2 leases), an old lease or a store made anew
	// keeps others out (1), an answer under way comes (2), a pause of the
	// back-off (1), standing aside (1), and as much again for them to meet badly.
	calmWithin = 14 * lease
)

// storm is one run.
type storm struct {
	*testing.T
	store *memory.Store
	dice  *rand.Rand // of the faults
	seed  uint64
	start time.Time
	ctx   context.Context

	mu        sync.Mutex
	calm      bool
	nodes     [stormNodes]*node
	terms     map[*elect.Term]bool // whose work is under way
	highest   elect.Token          // that was ever proven
	elections int
	faults    []string
}

// node is one participant from its start to its crash.
type node struct {
	id   string
	e    *elect.Election
	link *memory.Elector

	mu   sync.Mutex
	seen elect.State // the last that it watched
}

func newStorm(t *testing.T, seed uint64) *storm {
	return &storm{
		T: t, store: memory.NewStore(0), seed: seed, start: time.Now(),
		dice: rand.New(rand.NewPCG(seed, 0)), terms: map[*elect.Term]bool{},
	}
}

func (s *storm) run() {
	ctx, cancel := context.WithCancel(context.Background())
	s.ctx = ctx
	var lives sync.WaitGroup
	defer lives.Wait()
	defer cancel()
	for i := range stormNodes {
		lives.Go(func() { s.live(i, rand.New(rand.NewPCG(s.seed, uint64(i+1)))) })
	}
	lives.Go(s.keepLooking)
	synctest.Wait()
	for range storms {
		s.rage()
		s.heal()
		wait(ctx, calmWithin)
		synctest.Wait()
		s.settled()
		if s.Failed() {
			return
		}
	}
}

// live is the life of one participant after another in the same place.
func (s *storm) live(place int, dice *rand.Rand) {
	for generation := 0; s.ctx.Err() == nil; generation++ {
		id := fmt.Sprintf("n%d.%d", place, generation)
		link, err := s.store.New("job", id, memory.Config{Lease: lease})
		if err != nil {
			s.Error(err)
			return
		}
		e, err := elect.New(link, elect.Config{MaxBackoff: lease, StandAside: lease, Metadata: map[string]string{"id": id}})
		if err != nil {
			s.Error(err)
			return
		}
		n := &node{id: id, e: e, link: link}
		s.mu.Lock()
		s.nodes[place] = n
		s.mu.Unlock()
		var watching sync.WaitGroup
		pace := rand.New(rand.NewPCG(s.seed, dice.Uint64()))
		watching.Go(func() { n.watch(s, pace) })
		for crashed := false; !crashed && s.ctx.Err() == nil; {
			err := e.Lead(s.ctx, func(ctx context.Context, term *elect.Term) error { return s.work(ctx, n, term, dice) })
			crashed = errors.Is(err, elect.ErrClosed)
			if err != nil && !crashed && s.ctx.Err() == nil {
				s.Errorf("Lead returned %v", err)
			}
			wait(s.ctx, time.Millisecond)
		}
		_ = e.Close()
		watching.Wait()
		wait(s.ctx, s.upTo(dice, 2*lease))
	}
}

// upTo is a random duration.
func (s *storm) upTo(dice *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(dice.Int64N(int64(d)))
}

// work does one of the things that work does, well behaved or not.
func (s *storm) work(ctx context.Context, n *node, term *elect.Term, dice *rand.Rand) error {
	s.begin(n, term)
	defer s.end(term)
	s.mu.Lock()
	calm := s.calm
	other := s.nodes[dice.IntN(stormNodes)]
	s.mu.Unlock()
	if other == nil {
		other = n // the rest is yet to start
	}
	if calm {
		return until(ctx, term)
	}
	wait(ctx, s.upTo(dice, lease/4))
	switch dice.IntN(8) {
	default:
		return nil
	case 0:
		return until(ctx, term)
	case 1:
		term.Resign()
	case 2:
		_ = term.Transfer(other.id)
	case 3:
		_ = other.e.Resign(ctx, term.Token())
	case 4:
		_ = term.Confirm(ctx)
	}
	if dice.IntN(4) == 0 {
		wait(context.Background(), s.upTo(dice, 2*lease)) // whatever ctx says
		return nil
	}
	return until(ctx, term)
}

func (s *storm) begin(n *node, term *elect.Term) {
	s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elections++
	s.terms[term] = true
	if term.Check() != nil {
		return // it was lost already
	}
	if term.Token() <= s.highest {
		s.fail("%s leads with token %v after %v", n.id, term.Token(), s.highest)
	}
	s.highest = term.Token()
}

func (s *storm) end(term *elect.Term) {
	s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.terms, term)
}

// look asserts that not two terms go on. A term's context ends before its lease
// does, so it is held to that, which is more than Check promises.
func (s *storm) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	proven, running := 0, 0
	for term := range s.terms {
		if term.Context().Err() == nil {
			running++
		}
		if term.Check() == nil {
			proven++
		}
	}
	if proven > 1 || running > 1 {
		s.fail("%d terms are proven, %d run", proven, running)
	}
}

func (s *storm) keepLooking() {
	for wait(s.ctx, 7*time.Millisecond) {
		s.look()
	}
}

// fail reports what went wrong, with the faults that led there. The caller
// holds s.mu.
func (s *storm) fail(format string, args ...any) {
	s.Errorf("at %v: "+format, append([]any{time.Since(s.start)}, args...)...)
	for _, f := range s.faults[max(0, len(s.faults)-20):] {
		s.Log(f)
	}
}

// watch follows the election at its own speed. Tokens never fall.
func (n *node) watch(s *storm, dice *rand.Rand) {
	var highest elect.Token
	for state, err := range n.e.Watch(s.ctx) {
		if err != nil {
			if !errors.Is(err, elect.ErrClosed) && s.ctx.Err() == nil {
				s.Errorf("%s: Watch ended with %v", n.id, err)
			}
			return
		}
		if !state.Stale && state.Leader != nil {
			if state.Leader.Token < highest {
				s.Errorf("%s: watched token %v after %v", n.id, state.Leader.Token, highest)
			}
			highest = state.Leader.Token
		}
		n.mu.Lock()
		n.seen = state
		n.mu.Unlock()
		if dice.IntN(3) == 0 {
			wait(s.ctx, s.upTo(dice, lease/2))
		}
	}
}

// rage inflicts faults for a while.
func (s *storm) rage() {
	s.mu.Lock()
	s.calm = false
	s.mu.Unlock()
	for end := time.Now().Add(stormLasts); time.Now().Before(end); {
		wait(s.ctx, s.upTo(s.dice, lease/2))
		s.mu.Lock()
		n := s.nodes[s.dice.IntN(stormNodes)]
		s.mu.Unlock()
		on := s.dice.IntN(3) == 0
		what := ""
		switch kind := s.dice.IntN(100); {
		case kind < 25:
			what = fmt.Sprintf("cut %s %v", n.id, on)
			n.link.Cut(on)
		case kind < 45:
			what = fmt.Sprintf("freeze %s %v", n.id, on)
			n.link.Freeze(on)
		case kind < 60:
			lose := s.dice.IntN(4)
			what = fmt.Sprintf("lose %d answers of %s", lose, n.id)
			n.link.LoseAnswers(lose)
		case kind < 75:
			d := s.upTo(s.dice, 2*lease)
			what = fmt.Sprintf("delay an answer of %s by %v", n.id, d)
			n.link.DelayAnswer(d)
		case kind < 80:
			what = fmt.Sprintf("outage %v", on)
			s.store.Outage(on)
		case kind < 85:
			what = "outage false"
			s.store.Outage(false)
		case kind < 90:
			what = "restart"
			s.store.Restart()
		case kind < 93:
			what = "recreate"
			s.store.Recreate()
		default:
			what = "crash " + n.id
			n.link.Crash()
		}
		s.mu.Lock()
		s.faults = append(s.faults, fmt.Sprintf("%v %s", time.Since(s.start), what))
		s.mu.Unlock()
	}
}

// heal ends all faults.
func (s *storm) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = true
	s.faults = append(s.faults, fmt.Sprintf("%v calm", time.Since(s.start)))
	s.store.Outage(false)
	for _, n := range s.nodes {
		n.link.LoseAnswers(0)
		n.link.DelayAnswer(0)
		n.link.Freeze(false)
		n.link.Cut(false)
	}
}

// settled asserts that one leads and everybody knows.
func (s *storm) settled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var leader *elect.Term
	for term := range s.terms {
		if term.Check() == nil {
			leader = term
		}
	}
	if leader == nil {
		s.fail("nobody leads %v after the last fault", calmWithin)
		return
	}
	for _, n := range s.nodes {
		n.mu.Lock()
		seen := n.seen
		n.mu.Unlock()
		if seen.Stale || token(seen) != leader.Token() || seen.Leader.Metadata["id"] != seen.Leader.ID {
			s.fail("%s last watched %+v; want the leader with token %v", n.id, seen, leader.Token())
		}
	}
}

// wait returns whether d passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
