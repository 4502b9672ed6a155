package electtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// transfer transfers leadership several times, so that a successor chosen at random is detected.
func transfer(s *suite) {
	first := s.participant()
	s.lists(first, driver.AbilityTransfer)
	m := s.win(first)
	if _, ok := m.(driver.MandateTransferrer); !ok {
		s.release(m)
		s.missing(driver.AbilityTransfer)
	}
	holder, strays := 0, 0
	candidates := []Participant{first, s.participant(), s.participant(), s.participant()}
	outside := s.participant()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	results := make([]<-chan result, len(candidates))
	for round := range 6 {
		for i, c := range candidates {
			if i != holder && results[i] == nil {
				results[i] = s.stand(ctx, c)
			}
		}
		s.still(outside, 50*time.Millisecond, "the holder leads")
		next := (holder + 1 + round%2) % len(candidates)
		s.judges(m, fmt.Sprintf("p%d", holder+1), fmt.Sprintf("p%d", next+1))
		if err := m.(driver.MandateTransferrer).Transfer(ctx, fmt.Sprintf("p%d", next+1)); err != nil {
			s.Fatalf("Transfer: %v", err)
		}
		s.ended(m)
		who, n := s.takesOver(first, results, next, &strays, fmt.Sprintf("although leadership was transferred to %d", next+1))
		s.rose(m, n)
		results[who], holder, m = nil, who, n
	}
	s.retire(cancel, results) // before the last release, which would elect one of them
	s.release(m)
}

// judges checks that a holder knows its possible successors: not itself, nor an unknown id, but a
// waiting candidate as soon as the holder has heard of it.
func (s *suite) judges(m driver.Mandate, self, waiting string) {
	s.Helper()
	t := m.(driver.MandateTransferrer)
	for _, to := range []string{self, "p0"} {
		if err := t.Eligible(to); !errors.Is(err, driver.ErrIneligible) {
			s.Errorf("Eligible of %s, which cannot take over from %s, returned %v; want ErrIneligible", to, self, err)
		}
	}
	if err := s.retry(func(error) bool { return true }, func() error { return t.Eligible(waiting) }); err != nil {
		s.Errorf("Eligible of %s, which waits: %v", waiting, err)
	}
}

// appoints asks a leader to hand over to a waiting candidate. It repeats this until the leader has
// heard of the candidate; before, the leader rightly refuses.
func (s *suite) appoints(ctx context.Context, a driver.Transferrer, m driver.Mandate, to string) {
	s.Helper()
	passes := func(err error) bool {
		return (errors.Is(err, driver.ErrIneligible) || unheard(err)) && m.Context().Err() == nil
	}
	if err := s.retry(passes, func() error { return a.Transfer(ctx, m.Token(), to) }); err != nil {
		s.Fatalf("Transfer of %s, which waits: %v", to, err)
	}
}

// appointRefused asks for a transfer that has to be refused.
func (s *suite) appointRefused(ctx context.Context, a driver.Transferrer, token fence.Token, to string) error {
	return s.retry(unheard, func() error { return a.Transfer(ctx, token, to) })
}

// appoint transfers leadership several times from outside.
func appoint(s *suite) {
	first, outside := s.participant(), s.participant()
	s.lists(outside, driver.AbilityTransfer)
	a, ok := outside.Elector.(driver.Transferrer)
	if !ok {
		s.missing(driver.AbilityTransfer)
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	if err := s.appointRefused(ctx, a, 0, "p3"); !errors.Is(err, driver.ErrNoLeader) {
		s.Errorf("Transfer without a leader returned %v; want ErrNoLeader", err)
	}
	m := s.win(first)
	candidates := []Participant{first, s.participant(), s.participant(), s.participant()}
	name := func(i int) string { return []string{"p1", "p3", "p4", "p5"}[i] }
	results := make([]<-chan result, len(candidates))
	holder, strays := 0, 0
	for round := range 4 {
		for i, c := range candidates {
			if i != holder && results[i] == nil {
				results[i] = s.stand(ctx, c)
			}
		}
		next := (holder + 1 + round%2) % len(candidates)
		if slices.Contains(first.Limits().Abilities, driver.AbilityTransfer) {
			s.judges(m, name(holder), name(next))
		}
		if err := s.appointRefused(ctx, a, m.Token()+1, name(next)); !errors.Is(err, driver.ErrSuperseded) {
			s.Errorf("Transfer with another token returned %v; want ErrSuperseded", err)
		}
		for _, to := range []string{name(holder), "p0"} {
			if err := s.appointRefused(ctx, a, m.Token(), to); !errors.Is(err, driver.ErrIneligible) {
				s.Errorf("Transfer of %s, which cannot take over from %s, returned %v; want ErrIneligible", to, name(holder), err)
			}
		}
		if m.Context().Err() != nil {
			s.Fatalf("Transfer returned an error, and the mandate ended: %v", context.Cause(m.Context()))
		}
		s.appoints(ctx, a, m, name(next))
		receive(s, m.Context().Done(), s.cfg.Patience, "the end of the context of a leader that was asked to hand over")
		if cause := context.Cause(m.Context()); !errors.Is(cause, driver.ErrResigned) {
			s.Errorf("the cause of its end is %v; want ErrResigned", cause)
		}
		s.still(outside, 50*time.Millisecond, "the leader that was asked to hand over was not released")
		s.alone(results, "and the leader that was asked to hand over was not released")
		s.release(m)
		who, n := s.takesOver(first, results, next, &strays, fmt.Sprintf("although %s was appointed", name(next)))
		s.rose(m, n)
		results[who], holder, m = nil, who, n
	}
	s.retire(cancel, results)
	s.release(m)
}

// takesOver waits until one of the candidates has won, which must be next. In real time a busy
// computer may delay that one, and then another may win: at most twice.
func (s *suite) takesOver(p Participant, waiting []<-chan result, next int, strays *int, although string) (who int, m driver.Mandate) {
	s.Helper()
	deadline := time.After(s.takeover(p))
	for {
		for i, c := range waiting {
			select {
			case r := <-c: // nil channels never deliver
				switch {
				case r.err != nil:
					s.Fatalf("Campaign: %v", r.err)
				case i != next && (s.cfg.Bubble || *strays == 2):
					s.Fatalf("candidate %d won %s", i+1, although)
				case i != next:
					*strays++
				}
				return i, r.m
			default:
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			s.Fatalf("waited %v for a victory of candidate %d", s.takeover(p), next+1)
		}
	}
}

// alone checks that none of the waiting candidates has won.
func (s *suite) alone(waiting []<-chan result, although string) {
	s.Helper()
	for i, r := range waiting {
		if r == nil {
			continue
		}
		select {
		case <-r:
			s.Fatalf("candidate %d won %s", i+1, although)
		default:
		}
	}
}

// retire makes all waiting candidates give up.
func (s *suite) retire(cancel func(), waiting []<-chan result) {
	s.Helper()
	cancel()
	for _, r := range waiting {
		if r != nil {
			receive(s, r, s.cfg.Patience, "a cancelled Campaign")
		}
	}
}

// priority: of the waiting candidates the one with the greatest priority wins, in whatever order
// they came; one that never leads does not, even without another candidate.
func priority(s *suite) {
	p, never := s.participant(), s.participant()
	s.lists(p, driver.AbilityPriority)
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	none, end := context.WithTimeout(ctx, 300*time.Millisecond)
	defer end()
	if m, err := never.Campaign(none, driver.Candidacy{Exclusive: true, Priority: driver.NeverLead}); err == nil {
		s.Errorf("a candidate that is never to lead won with token %v", m.Token())
		s.release(m)
	}
	for _, wrong := range []int{driver.NeverLead - 1, driver.MaxPriority + 1} {
		if _, err := p.Campaign(ctx, driver.Candidacy{Exclusive: true, Priority: wrong}); !driver.IsPermanent(err) {
			s.Errorf("Campaign with priority %d returned %v; want an error that is marked as permanent", wrong, err)
		}
	}
	m := s.win(p)
	priorities := []int{0, driver.MaxPriority, 1, driver.DefaultPriority + 1}
	results := make([]<-chan result, len(priorities))
	for i, n := range priorities {
		results[i] = s.standAs(ctx, s.participant(), driver.Candidacy{Exclusive: true, Priority: n})
	}
	left := []int{1, 3, 0, 2} // in the order of their priorities
	for strays := 0; len(left) > 0; {
		pause(ctx, max(p.Limits().Lease/2, 100*time.Millisecond)) // the leader hears of the candidates
		s.alone(results, "while somebody leads")
		s.release(m)
		who, n := s.takesOver(p, results, left[0], &strays, fmt.Sprintf("although one of priority %d waits", priorities[left[0]]))
		s.rose(m, n)
		left = slices.DeleteFunc(left, func(i int) bool { return i == who })
		results[who], m = nil, n
	}
	s.release(m)
}
