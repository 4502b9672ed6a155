package electtest

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

func win(s *suite) {
	p := s.participant()
	m := s.win(p)
	if !m.Token().Valid() {
		s.Errorf("token %d is not valid", uint64(m.Token()))
	}
	if m.Context().Err() != nil {
		s.Errorf("the context of a fresh mandate has ended: %v", context.Cause(m.Context()))
	}
	d, bounded := m.Remaining()
	if l := p.Limits(); bounded != (l.Lease > 0) {
		s.Errorf("Remaining reports bounded=%v and Limits a lease of %v", bounded, l.Lease)
	} else if bounded && (d <= 0 || d > l.Lease) {
		s.Errorf("Remaining is %v right after a victory; want above 0 and at most the lease, %v", d, l.Lease)
	}
	s.release(m)
}

// abilities compares Limits().Abilities with the implemented interfaces.
func abilities(s *suite) {
	p := s.participant()
	l := p.Limits()
	if l.Assumes == "" {
		s.Error("Limits().Assumes is empty; say what exclusivity rests on")
	}
	if l.Lease > 0 && (l.Lease < l.MinLease || l.Lease > l.MaxLease || l.Takeover == 0) {
		s.Errorf("limits do not fit together: lease %v of %v to %v, takeover %v", l.Lease, l.MinLease, l.MaxLease, l.Takeover)
	}
	m := s.win(p)
	defer s.release(m)
	for _, a := range l.Abilities {
		ok := false
		switch a {
		case driver.AbilityConfirm:
			_, ok = m.(driver.Confirmer)
		case driver.AbilityTransfer:
			_, ok = m.(driver.MandateTransferrer)
			_, from := p.Elector.(driver.Transferrer)
			ok = ok && from
		case driver.AbilityResign:
			_, ok = p.Elector.(driver.Resigner)
		case driver.AbilityPriority:
			ok = true // the case with that name tests it
		case driver.AbilityMetadata:
			_, ok = m.(driver.MetadataSetter)
		case driver.AbilityInherit:
			_, ok = m.(driver.Inheritable)
			ok = ok || remote(p)
		case driver.AbilityWitness:
			_, ok = m.(driver.Attestable)
			ok = ok || remote(p)
		}
		if !ok {
			s.Errorf("ability %q is listed and not implemented", a)
		}
	}
}

// remote reports whether a participant has a process of its own: open files do not cross that
// boundary.
func remote(p Participant) bool {
	_, is := p.Elector.(*process)
	return is
}

// exclusion has many candidates compete. It checks that no two of them have a proven lease at one
// time, and that tokens rise in the order of the victories.
func exclusion(s *suite) {
	const terms = 3
	ctx, cancel := context.WithTimeout(context.Background(), 10*s.cfg.Patience)
	defer cancel()
	var (
		candidates sync.WaitGroup
		mu         sync.Mutex
		last       fence.Token
		inside     = map[driver.Mandate]bool{}
	)
	// enter checks whether another holder is proven at this instant. A holder whose lease lapsed
	// while it was inside does not count.
	enter := func(m driver.Mandate) {
		mu.Lock()
		defer mu.Unlock()
		for other := range inside {
			if other.Check() == nil && m.Check() == nil {
				s.Errorf("two holders at once, with tokens %v and %v", other.Token(), m.Token())
			}
		}
		inside[m] = true
		if m.Token() <= last {
			s.Errorf("token %v after %v", m.Token(), last)
		}
		last = m.Token()
	}
	leave := func(m driver.Mandate) {
		mu.Lock()
		defer mu.Unlock()
		delete(inside, m)
	}
	for range s.cfg.Candidates {
		p := s.participant()
		candidates.Go(func() {
			for range terms {
				m, err := campaign(ctx, p)
				if err != nil {
					s.Errorf("Campaign: %v", err)
					return
				}
				if m.Check() == nil {
					enter(m)
					pause(ctx, time.Millisecond)
					leave(m)
				}
				if err := m.Release(ctx); err != nil {
					s.Errorf("Release: %v", err)
				}
			}
		})
	}
	candidates.Wait()
}

// again: the same elector wins again after its own release.
func again(s *suite) {
	p := s.participant()
	var last fence.Token
	for range 5 {
		m := s.win(p)
		if m.Token() <= last {
			s.Fatalf("token %v after %v", m.Token(), last)
		}
		last = m.Token()
		s.release(m)
		if m.Check() == nil {
			s.Fatal("a released mandate proves itself")
		}
	}
}

// handover: a released lease is free at once and does not have to run out. One quick round of five
// is enough, because the computer may be busy.
func handover(s *suite) {
	p, q := s.participant(), s.participant()
	best := time.Duration(math.MaxInt64)
	for range 5 {
		m := s.win(p)
		next := s.stand(s.Context(), q)
		start := time.Now()
		s.release(m)
		n := s.victory(q, next)
		best = min(best, time.Since(start))
		s.rose(m, n)
		s.release(n)
	}
	if lease := p.Limits().Lease; lease > 0 && best >= lease/2 {
		s.Errorf("after a release it took %v at best until another won; want well below the lease, %v", best, lease)
	}
}

// reopen: tokens go on rising when all participants have closed and opened again.
func reopen(s *suite) {
	var last fence.Token
	for range 3 {
		p := s.participant()
		m := s.win(p)
		if m.Token() <= last {
			s.Fatalf("token %v after %v, across a new participant", m.Token(), last)
		}
		last = m.Token()
		s.release(m)
		if err := p.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
}

func restart(s *suite) {
	p := s.participant()
	s.needs(Restart, s.cfg.Restart != nil)
	rises(s, p, s.cfg.Restart)
}

func recreate(s *suite) {
	p := s.participant()
	s.needs(Recreate, s.cfg.Recreate != nil)
	rises(s, p, s.cfg.Recreate)
}

// rises checks that after do has changed the store no two holders are proven, and tokens rise.
func rises(s *suite, p Participant, do func(testing.TB)) {
	s.Helper()
	m := s.win(p)
	do(s.T)
	q := s.participant()
	next := s.stand(s.Context(), q)
	deadline := time.After(s.takeover(p))
	for lost := false; !lost; {
		select {
		case r := <-next:
			if r.err != nil {
				s.Fatal(r.err)
			}
			if m.Check() == nil {
				s.Fatal("two holders are proven")
			}
			s.rose(m, r.m)
			_ = m.Release(s.Context())
			s.release(r.m)
			return
		case <-m.Context().Done():
			lost = true
		case <-time.After(max(time.Millisecond, p.Limits().Takeover)):
			// It survived. Then it can be released, and another participant wins.
			lost = true
		case <-deadline:
			s.Fatal("neither lost nor kept")
		}
	}
	_ = m.Release(s.Context())
	n := s.victory(q, next)
	s.rose(m, n)
	s.release(n)
}

func (s *suite) rose(before, after driver.Mandate) {
	s.Helper()
	if after.Token() <= before.Token() {
		s.Errorf("token %v after %v", after.Token(), before.Token())
	}
}

// frozenHolder: with a lease, the frozen holder loses it and knows when it resumes. Held by the
// kernel, a frozen holder still leads, and no other participant does.
func frozenHolder(s *suite) {
	p, q := s.participant(), s.participant()
	s.needs(Freeze, p.Freeze != nil)
	m := s.win(p)
	p.Freeze(true)
	if hangsUnnoticed(p) {
		s.still(q, 200*time.Millisecond, "the holder is only frozen, and nothing runs out")
		p.Freeze(false)
		if err := m.Check(); err != nil {
			s.Errorf("Check of a holder that was frozen and lost nothing: %v", err)
		}
		s.release(m)
		return
	}
	n := s.win(q)
	p.Freeze(false)
	if m.Check() == nil {
		s.Error("the old holder is proven right after it woke, while another is")
	}
	s.rose(m, n)
	s.told(m, p)
	s.ended(m)
	s.neverRevives(m, p)
	s.release(n)
}

func cutOffHolder(s *suite) {
	p, q := s.participant(), s.participant()
	s.needs(Cut, p.Cut != nil)
	m := s.win(p)
	p.Cut(true)
	n := s.win(q)
	if m.Check() == nil {
		s.Error("the old holder, cut off, is proven while another is")
	}
	s.told(m, p)
	s.ended(m)
	p.Cut(false)
	s.neverRevives(m, p)
	s.rose(m, n)
	s.release(n)
}

// unansweredHolder: its requests leave and no answer comes back in time.
func unansweredHolder(s *suite) {
	p, q := s.participant(), s.participant()
	s.needs(Delay, p.Delay != nil)
	m := s.win(p)
	p.Delay(5*p.Limits().Lease + 5*time.Second)
	n := s.win(q)
	if m.Check() == nil {
		s.Error("the old holder, waiting for an answer, is proven while another is")
	}
	s.rose(m, n)
	s.told(m, p)
	s.ended(m)
	s.release(n)
}

// anchored: a lease counts from before the request that won it was sent, not from the arrival of
// the answer.
func anchored(s *suite) {
	p, q := s.participant(), s.participant()
	s.needs(Delay, p.Delay != nil)
	s.needs(Cut, p.Cut != nil)
	lease := p.Limits().Lease
	p.Delay(lease / 2)
	m := s.win(p)
	p.Cut(true)
	if d, bounded := m.Remaining(); bounded && d > lease/2 {
		s.Errorf("Remaining is %v after a request whose answer took half the lease of %v", d, lease)
	}
	n := s.win(q)
	if m.Check() == nil {
		s.Error("the first holder, whose answer was slow, is proven while another is")
	}
	s.rose(m, n)
	p.Cut(false)
	s.release(n)
}

// neverRevives gives a lost mandate time to renew; it must not.
func (s *suite) neverRevives(m driver.Mandate, p Participant) {
	s.Helper()
	end := time.Now().Add(min(p.Limits().Lease, time.Second))
	for time.Now().Before(end) {
		if m.Check() == nil {
			s.Fatal("a mandate that had ended is proven again")
		}
		pause(s.Context(), 10*time.Millisecond)
	}
}

func crashedHolder(s *suite) {
	p, q := s.participant(), s.participant()
	s.needs(Crash, p.Crash != nil)
	m := s.win(p)
	token := m.Token()
	next := s.stand(s.Context(), q)
	p.Crash()
	n := s.victory(q, next)
	if n.Token() <= token {
		s.Errorf("token %v after %v, across a crash", n.Token(), token)
	}
	s.release(n)
	// The crashed participant is started again with its old id.
	back := s.open(s.T, election, "p1")
	s.Cleanup(func() { _ = back.Close() })
	b := s.win(back)
	s.rose(n, b)
	s.release(b)
}

// lostAnswers: a request that was carried out without an answer is resolved, not assumed.
func lostAnswers(s *suite) {
	p, q := s.participant(), s.participant()
	s.needs(Lose, p.Lose != nil)
	p.Lose(1)
	m := s.win(p)
	s.still(q, 2*p.Limits().Lease, "the first holder leads")
	p.Lose(2) // renewals
	s.still(q, 2*p.Limits().Lease, "the first holder leads, some of its renewals unanswered")
	if err := m.Check(); err != nil {
		s.Errorf("Check after two lost answers: %v", err)
	}
	p.Lose(1) // the release
	s.release(m)
	n := s.win(q)
	s.rose(m, n)
	s.release(n)
}

// lapsedWhileWaiting: an answer that comes after its lease is not a victory.
func lapsedWhileWaiting(s *suite) {
	p, q := s.participant(), s.participant()
	s.needs(Delay, p.Delay != nil)
	lease := p.Limits().Lease
	p.Delay(lease + lease/2)
	first := s.stand(s.Context(), p)
	pause(s.Context(), lease/2) // p's request has been carried out and its answer is on its way
	second := s.stand(s.Context(), q)
	var won []driver.Mandate
	for range 2 {
		var r result
		select {
		case r = <-first:
		case r = <-second:
		case <-time.After(s.takeover(p)):
			s.Fatal("nobody won")
		}
		if r.err != nil {
			s.Fatal(r.err)
		}
		if err := r.m.Check(); err != nil {
			s.Errorf("Campaign returned a victory that is not proven: %v", err)
		}
		for _, before := range won {
			if before.Check() == nil {
				s.Error("two holders are proven")
			}
			s.rose(before, r.m)
		}
		won = append(won, r.m)
		s.release(r.m)
	}
}

// cancelWaiting: a candidate that stopped waiting leaves nothing behind that could win.
func cancelWaiting(s *suite) {
	holder, waiting, next := s.participant(), s.participant(), s.participant()
	m := s.win(holder)
	why := errors.New("had enough")
	ctx, cancel := context.WithCancelCause(s.Context())
	c := s.stand(ctx, waiting)
	s.still(next, 50*time.Millisecond, "somebody leads") // meanwhile waiting waits
	cancel(why)
	if r := receive(s, c, s.cfg.Patience, "a cancelled Campaign"); !errors.Is(r.err, why) {
		s.Errorf("a cancelled Campaign returned %v; want the cause of its context", r.err)
	}
	s.release(m)
	pause(s.Context(), 100*time.Millisecond) // time in which a remainder could win
	n := s.win(next)
	s.rose(m, n)
	if err := n.Check(); err != nil {
		s.Errorf("Check: %v", err)
	}
	s.release(n)
	// The cancelled participant can stand again.
	n = s.win(waiting)
	s.release(n)
}

// lateRelease: the release of an old mandate never touches a newer one.
func lateRelease(s *suite) {
	p, q, third := s.participant(), s.participant(), s.participant()
	if hangsUnnoticed(p) {
		s.Skip("a live holder cannot be overtaken here")
	}
	lose := p.Cut
	if lose == nil && p.Freeze != nil {
		lose = p.Freeze // a replacement where no cut is possible
	} else {
		s.needs(Cut, lose != nil)
	}
	m := s.win(p)
	lose(true)
	n := s.win(q)
	lose(false)
	ctx, cancel := context.WithTimeout(s.Context(), s.cfg.Patience)
	defer cancel()
	_ = m.Release(ctx) // the result for a lost mandate is the back end's choice
	if err := n.Check(); err != nil {
		s.Errorf("Check of the new holder after the release of the old one: %v", err)
	}
	s.still(third, p.Limits().Lease/2, "the new holder leads")
	s.release(n)
}

func closeCampaigning(s *suite) {
	holder, waiting := s.participant(), s.participant()
	m := s.win(holder)
	c := s.stand(s.Context(), waiting)
	s.still(s.participant(), 50*time.Millisecond, "somebody leads")
	if err := waiting.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	if r := receive(s, c, s.cfg.Patience, "the Campaign of a closed elector"); !errors.Is(r.err, driver.ErrClosed) {
		s.Errorf("Campaign returned %v after Close; want ErrClosed", r.err)
	}
	if _, err := waiting.Campaign(s.Context(), driver.Candidacy{Exclusive: true}); !errors.Is(err, driver.ErrClosed) {
		s.Errorf("Campaign on a closed elector returned %v; want ErrClosed", err)
	}
	if err := waiting.Close(); err != nil {
		s.Errorf("a second Close: %v", err)
	}
	s.release(m)
}

func closeLeading(s *suite) {
	p, q := s.participant(), s.participant()
	m := s.win(p)
	if err := p.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	s.ended(m)
	_ = m.Release(s.Context())
	n := s.win(q)
	s.rose(m, n)
	s.release(n)
}
