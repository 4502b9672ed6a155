//go:build linux

package main

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/test/chaos/lives"
)

// scripted answers Check as its test says, call by call from 1, and records the times.
type scripted struct {
	answer func(call int) error
	now    func() int64
	calls  []asked
}

type asked struct {
	from, to int64 // a time before the answer was given, and one after
	err      error
}

func (s *scripted) Token() elect.Token { return 7 }

func (s *scripted) Check() error {
	a := asked{from: s.now()}
	a.err = s.answer(len(s.calls) + 1)
	a.to = s.now()
	s.calls = append(s.calls, a)
	return a.err
}

var errOver = errors.New("over")

func stamped(t *testing.T, answer func(call int) error) (s *scripted, all []lives.Life, hurried bool) {
	t.Helper()
	l, err := lives.Open(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s = &scripted{answer: answer, now: l.Now}
	hurry := make(chan struct{}, 1)
	p := &program{surroundings: surroundings{node: 3}, ledger: l, kind: lives.Library}
	p.stamp(t.Context(), s, hurry)
	return s, l.Lives(), len(hurry) > 0
}

// TestStampsAreHonest: a life lies within the answers of Check, from after the first to before the
// last.
func TestStampsAreHonest(t *testing.T) {
	for _, good := range []int{2, 3, 20} {
		s, all, _ := stamped(t, func(call int) error {
			if call > good {
				return errOver
			}
			return nil
		})
		if len(all) != 1 || len(s.calls) != good+1 {
			t.Fatalf("%d good answers: %d calls, %+v", good, len(s.calls), all)
		}
		l, first, last := all[0], s.calls[0], s.calls[good-1]
		if l.Token != 7 || l.Node != 3 || l.Kind != lives.Library || l.Keeper != 0 {
			t.Errorf("%+v", l)
		}
		if l.Start < first.to || l.Last > last.from || l.Last < s.calls[good-2].to {
			t.Errorf("%d good answers, in %+v and %+v: %+v", good, first, last, l)
		}
	}
}

// TestNothingProvenNothingStamped: one good answer is an instant of unknown time, and none is no
// life.
func TestNothingProvenNothingStamped(t *testing.T) {
	for good := range 2 {
		if _, all, _ := stamped(t, func(call int) error {
			if call > good {
				return errOver
			}
			return nil
		}); len(all) != 0 {
			t.Errorf("%d good answers: %+v", good, all)
		}
	}
	s, all, _ := stamped(t, func(call int) error {
		if call <= 5 {
			return elect.ErrNotExclusive
		}
		if call > 10 {
			return errOver
		}
		return nil
	})
	if len(all) != 1 || all[0].Start < s.calls[5].to {
		t.Errorf("it was exclusive from call 6 on: %+v in %+v", all, s.calls)
	}
}

// TestBurst: a program that runs late calls Check again and again at once, and lets the writer
// write.
func TestBurst(t *testing.T) {
	const slow = 3 // the call that takes long
	most := 0
	for range 5 { // the machine may take the processor away just then
		s, all, hurried := stamped(t, func(call int) error {
			if call == slow {
				<-time.After(100 * time.Millisecond)
			}
			if call > slow+20 {
				return errOver
			}
			return nil
		})
		if len(all) != 1 || !hurried {
			t.Fatalf("%+v, %t", all, hurried)
		}
		if l := all[0]; l.Resumed-l.Paused < int64(100*time.Millisecond) {
			t.Errorf("the pause is not told: %+v", l)
		}
		short := 0
		for i := slow; i < len(s.calls); i++ {
			if s.calls[i].from-s.calls[i-1].to < int64(look)/2 {
				short++
			}
		}
		if most = max(most, short); most >= 15 {
			return
		}
	}
	t.Errorf("at most %d of 20 calls came at once", most)
}
