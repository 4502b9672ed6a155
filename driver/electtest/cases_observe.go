package electtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// watcher follows an election in the background.
type watcher struct {
	states chan driver.State
	ended  chan error
}

func (s *suite) watch(ctx context.Context, p Participant) watcher {
	w := watcher{make(chan driver.State, 1000), make(chan error, 1)}
	s.running.Go(func() {
		var last error
		for st, err := range p.Watch(ctx) {
			if err != nil {
				last = err
				continue
			}
			w.states <- st
		}
		w.ended <- last
	})
	return w
}

// sees waits for a state; other states before it are allowed.
func (s *suite) sees(w watcher, what string, want func(driver.State) bool) driver.State {
	s.Helper()
	deadline := time.After(s.cfg.Patience)
	for {
		select {
		case st := <-w.states:
			if want(st) {
				return st
			}
		case err := <-w.ended:
			for range len(w.states) {
				if st := <-w.states; want(st) {
					w.ended <- err
					return st
				}
			}
			s.Fatalf("observing ended (%v) before it showed %s", err, what)
		case <-deadline:
			s.Fatalf("waited %v to see %s", s.cfg.Patience, what)
		}
	}
}

func nobody(st driver.State) bool { return st.Leader == nil && !st.Stale }

func leads(m driver.Mandate) func(driver.State) bool {
	return func(st driver.State) bool { return st.Leader != nil && !st.Stale && st.Leader.Token == m.Token() }
}

// observe: the first state is the current one, and the last state of each series of changes is
// always seen.
func observe(s *suite) {
	p, q, o := s.participant(), s.participant(), s.participant()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	w := s.watch(ctx, o)
	if first := receive(s, w.states, s.cfg.Patience, "the first state"); !nobody(first) {
		s.Errorf("the first state of an election in which nobody stood is %+v", first)
	}
	var last fence.Token
	for _, candidate := range []Participant{p, q, p} {
		m := s.win(candidate)
		st := s.sees(w, "the leader", leads(m))
		if st.Leader.Token <= last {
			s.Errorf("observed token %v after %v", st.Leader.Token, last)
		}
		last = st.Leader.Token
		late := s.watch(ctx, o)
		if first := receive(s, late.states, s.cfg.Patience, "the first state of a late observer"); !leads(m)(first) {
			s.Errorf("a late observer first saw %+v; want the leader with token %v", first, m.Token())
		}
		s.release(m)
		s.sees(w, "that nobody leads", nobody)
		s.sees(late, "that nobody leads", nobody)
	}
	cancel()
	if err := receive(s, w.ended, s.cfg.Patience, "the end of observing"); err != nil {
		s.Errorf("the end of the context ended observing with the error %v", err)
	}
}

// observeEnds: Close ends observers too.
func observeEnds(s *suite) {
	o := s.participant()
	w := s.watch(s.Context(), o)
	receive(s, w.states, s.cfg.Patience, "the first state")
	if err := o.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	receive(s, w.ended, s.cfg.Patience, "the end of observing after Close")
	w = s.watch(s.Context(), o)
	receive(s, w.ended, s.cfg.Patience, "the end of observing what was closed before")
	if len(w.states) > 0 {
		s.Errorf("a closed elector shows the state %+v", <-w.states)
	}
}

// observeTrouble: an observer that is cut off reports that, shows the last known state, and
// afterwards the current one.
func observeTrouble(s *suite) {
	p, q, o := s.participant(), s.participant(), s.participant()
	s.needs(Cut, o.Cut != nil)
	w := s.watch(s.Context(), o)
	m := s.win(p)
	s.sees(w, "the leader", leads(m))
	o.Cut(true)
	st := s.sees(w, "that its view is stale", func(st driver.State) bool { return st.Stale })
	if st.Leader == nil || st.Leader.Token != m.Token() {
		s.Errorf("observed %+v while cut off; want the leader that was last known, with token %v", st, m.Token())
	}
	if st.Cause == nil {
		s.Error("a stale state has no cause")
	}
	s.release(m)
	n := s.win(q)
	o.Cut(false)
	if st := s.sees(w, "a fresh state", func(st driver.State) bool { return !st.Stale }); !leads(n)(st) {
		s.Errorf("the first fresh state is %+v; want the leader with token %v", st, n.Token())
	}
	s.release(n)
	s.sees(w, "that nobody leads", nobody)
}

func metadata(s *suite) {
	p, o := s.participant(), s.participant()
	want := map[string]string{"address": "10.0.0.1:8080", "empty": "", "text": "größe \"x\"\n"}
	ctx, cancel := context.WithTimeout(s.Context(), s.cfg.Patience)
	defer cancel()
	m, err := p.Campaign(ctx, driver.Candidacy{Exclusive: true, Metadata: want})
	if err != nil {
		s.Fatal(err)
	}
	st := s.sees(s.watch(ctx, o), "the leader", leads(m))
	if st.Leader.ID != "p1" || !maps.Equal(st.Leader.Metadata, want) {
		s.Errorf("observed %+v; want id p1 and metadata %v", st.Leader, want)
	}
	s.release(m)
}

// changedMetadata: a leader changes what is shown beside it, and nothing else
// changes. What it was is gone with the term.
func changedMetadata(s *suite) {
	p, q, o := s.participant(), s.participant(), s.participant()
	s.lists(p, driver.AbilityMetadata)
	ctx, cancel := context.WithTimeout(s.Context(), 2*s.takeover(p))
	defer cancel()
	w := s.watch(ctx, o)
	first := map[string]string{"address": "10.0.0.1:8080"}
	m, err := campaignAs(ctx, p, driver.Candidacy{Exclusive: true, Metadata: first})
	if err != nil {
		s.Fatal(err)
	}
	setter, ok := m.(driver.MetadataSetter)
	if !ok {
		s.release(m)
		s.missing(driver.AbilityMetadata)
	}
	shows := func(m driver.Mandate, want map[string]string) func(driver.State) bool {
		return func(st driver.State) bool { return leads(m)(st) && maps.Equal(st.Leader.Metadata, want) }
	}
	s.sees(w, "the leader with its first metadata", shows(m, first))
	for _, want := range []map[string]string{{"address": "10.0.0.1:9090", "text": "größe \"x\"\n"}, {"version": "2"}, nil, first} {
		if err := setter.SetMetadata(ctx, maps.Clone(want)); err != nil {
			s.Fatalf("SetMetadata of a leader: %v", err)
		}
		st := s.sees(w, fmt.Sprintf("the leader with the changed metadata %v", want), shows(m, want))
		if st.Leader.ID != "p1" {
			s.Errorf("observed %+v after a change of metadata; want id p1", st.Leader)
		}
		late := s.watch(ctx, o)
		if st := receive(s, late.states, s.cfg.Patience, "the first state of a late observer"); !shows(m, want)(st) {
			s.Errorf("a late observer first saw %+v; want the changed metadata %v", st.Leader, want)
		}
	}
	if err := setter.SetMetadata(ctx, map[string]string{"k": strings.Repeat("x", driver.MaxMetadata)}); err == nil {
		s.Error("SetMetadata took more than MaxMetadata")
	}
	if err := m.Check(); err != nil {
		s.Errorf("Check after metadata was changed: %v", err)
	}
	s.release(m)
	s.sees(w, "that nobody leads", nobody)
	n := s.win(q)
	if err := setter.SetMetadata(ctx, map[string]string{"address": "the former leader's"}); err == nil {
		s.Error("SetMetadata of a mandate that was released returned nil")
	}
	if st := s.sees(w, "the next leader", leads(n)); len(st.Leader.Metadata) > 0 {
		s.Errorf("the next leader is shown with metadata %v; it has none", st.Leader.Metadata)
	}
	s.release(n)
}

func confirm(s *suite) {
	p, q := s.participant(), s.participant()
	s.lists(p, driver.AbilityConfirm)
	m := s.win(p)
	c, ok := m.(driver.Confirmer)
	if !ok {
		s.release(m)
		s.missing(driver.AbilityConfirm)
	}
	ctx, cancel := context.WithTimeout(s.Context(), s.cfg.Patience)
	defer cancel()
	if err := c.Confirm(ctx); err != nil {
		s.Errorf("Confirm of a leader: %v", err)
	}
	if p.Cut != nil {
		p.Cut(true)
		n := s.win(q)
		if c.Confirm(ctx) == nil {
			s.Error("Confirm of a leader that is cut off and was replaced returned nil")
		}
		p.Cut(false)
		if c.Confirm(ctx) == nil {
			s.Error("Confirm revived a lost mandate")
		}
		s.release(n)
		return
	}
	s.release(m)
}

func resign(s *suite) {
	p, o := s.participant(), s.participant()
	s.lists(o, driver.AbilityResign)
	if _, ok := o.Elector.(driver.Resigner); !ok {
		s.missing(driver.AbilityResign)
	}
	if err := s.resign(o, 0, unheard); !errors.Is(err, driver.ErrNoLeader) {
		s.Errorf("Resign without a leader returned %v; want ErrNoLeader", err)
	}
	for _, exact := range []bool{false, true} {
		var wrong error
		for range 5 {
			var lapsed bool
			if wrong, lapsed = resigned(s, p, o, exact); !lapsed {
				break
			}
		}
		if wrong != nil {
			s.Error(wrong)
		}
	}
}

// resigned elects p, has o ask it to resign, and returns what was wrong with that. It reports
// lapsed if the lease ended by itself, as it does where a machine starves the leader.
// Then all that was wrong may come of that.
func resigned(s *suite, p, o Participant, exact bool) (wrong error, lapsed bool) {
	m := s.win(p)
	defer s.release(m)
	ask := func(token fence.Token) error {
		return s.resign(o, token, func(err error) bool {
			// A leader that was elected a moment ago may be known to itself only.
			return (errors.Is(err, driver.ErrNoLeader) || unheard(err)) && m.Context().Err() == nil
		})
	}
	note := func(format string, args ...any) { wrong = errors.Join(wrong, fmt.Errorf(format, args...)) }
	if err := ask(m.Token() + 1); !errors.Is(err, driver.ErrSuperseded) {
		note("Resign of another token returned %v; want ErrSuperseded", err)
	}
	if m.Context().Err() != nil {
		note("Resign of another token ended this mandate")
	}
	var token fence.Token
	if exact {
		token = m.Token()
	}
	if err := ask(token); err != nil {
		note("Resign: %w", err)
	} else {
		receive(s, m.Context().Done(), s.cfg.Patience, "the end of a resigned mandate's context")
	}
	if cause := context.Cause(m.Context()); cause != nil && !errors.Is(cause, driver.ErrResigned) {
		note("the cause of a resigned mandate's end is %w; want ErrResigned", cause)
		lapsed = errors.Is(cause, driver.ErrExpired) || errors.Is(cause, driver.ErrUnreachable)
	}
	begin := time.Now()
	left, bounded := m.Remaining()
	ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
	defer cancel()
	if n, err := campaign(ctx, o); err == nil {
		note("another won with token %v although the resigned leader was not released", n.Token())
		lapsed = lapsed || bounded && time.Since(begin) >= left
		s.release(n)
	}
	return wrong, lapsed
}

// resign has o ask for the end of a leadership, and again while the error passes.
func (s *suite) resign(o Participant, token fence.Token, passes func(error) bool) error {
	ctx, cancel := context.WithTimeout(s.Context(), s.cfg.Patience)
	defer cancel()
	return s.retry(passes, func() error { return o.Elector.(driver.Resigner).Resign(ctx, token) })
}
