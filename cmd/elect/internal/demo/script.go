package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/cmd/elect/internal/printable"
)

// scriptLimit bounds each wait of the script, except for promises that run out.
const scriptLimit = 20 * time.Second

// Script plays without a terminal: each fault of a leader, one after the other, with a line for each. It returns an
// error if anything went wrong. If ctx ends it early it returns the cause.
func Script(ctx context.Context, cfg Config) error {
	t, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	s := &script{Demo: t, out: &printer{to: cfg.Out, colour: cfg.Colour}}
	return t.conclude(1+s.lives, s.play())
}

type script struct {
	*Demo
	out   *printer
	told  int // the key of the last printed sentence
	lives int // lives of the job that must follow the first one
}

// step is one fault of the leader, and its repair.
type step struct {
	act, mend act
	mends     bool
}

// steps are the faults of leaders.
var steps = []step{
	{act: kill, mend: start, mends: true},
	{act: killJob},
	{act: pause, mend: wake, mends: true},
	{act: cut, mend: heal, mends: true},
	{act: resign},
}

func (s *script) play() error {
	m := s.model
	for _, text := range []string{
		"Three nodes run on this machine, each a process of its own, and elect among themselves:",
		"",
		"    elect run --election peer://n1@…,n2@…,n3@… --id n1 -- job",
		"",
		"The job must never run twice at a time. Only the leader runs it; the other two stand by.",
		fmt.Sprintf("It writes a line to a log every %s. Profile %s: a leader is promised %s at a time.", span(beat), m.profile, span(m.promise)),
		"",
	} {
		style := normal
		if text != "" && text[0] == ' ' {
			style = strong
		}
		s.out.say(piece{text, style})
	}
	for i := range ids {
		s.do(start, i)
	}
	if err := s.until("the first election", (*model).settled); err != nil {
		return err
	}
	for _, step := range steps {
		if err := s.rest(); err != nil {
			return err
		}
		if err := s.blow(step); err != nil {
			return err
		}
		if step.act == cut {
			if err := s.late(); err != nil {
				return err
			}
		}
	}
	return s.rest()
}

// blow does one step to the present leader, and waits until another leads and all is well again.
func (s *script) blow(step step) error {
	old, lives := -1, 0
	if err := s.until("a leader", func(m *model) bool {
		old, lives = m.worker(), len(m.ledger.lives)
		return old >= 0
	}); err != nil {
		return err
	}
	s.do(step.act, old)
	s.lives++
	what := fmt.Sprintf("the takeover from %s", ids[old])
	if err := s.until(what, func(m *model) bool { return len(m.ledger.lives) > lives && m.worker() >= 0 }); err != nil {
		return err
	}
	if step.mends {
		if err := s.rest(); err != nil {
			return err
		}
		s.do(step.mend, old)
	}
	return s.until("the calm after "+what, (*model).settled)
}

// late shows that the log refuses late writes.
func (s *script) late() error {
	before := -1
	if err := s.until("an old token", func(m *model) bool { before = m.ledger.late + m.ledger.leaked; return true }); err != nil {
		return err
	}
	s.do(late, 0)
	return s.until("the answer to a late write", func(m *model) bool { return m.ledger.late+m.ledger.leaked > before })
}

// until waits for something, and prints what happens meanwhile.
func (s *script) until(what string, ok func(m *model) bool) error {
	late := s.now() + scriptLimit + 3*s.model.promise
	for is := false; !is; {
		var fresh []sentence
		trouble := ""
		err := s.await(max(late-s.now(), time.Millisecond), func(m *model) bool {
			is = ok(m)
			fresh = m.toldSince(s.told, is)
			if m.hint != "" {
				trouble = m.hint
			}
			return is || len(fresh) > 0 || trouble != ""
		})
		s.print(fresh)
		switch {
		case err != nil && s.ctx.Err() != nil:
			return err
		case err != nil:
			return fmt.Errorf("%s: %w%s", what, err, s.lastWords())
		case trouble != "":
			return errors.New(trouble)
		}
	}
	return nil
}

// lastWords are the last lines of each node, for the search for a fault.
func (s *script) lastWords() (words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.model.nodes {
		if said := s.model.nodes[i].said; len(said) > 0 {
			words += fmt.Sprintf("; %s said last: %s", ids[i], printable.Text(said[len(said)-1]))
		}
	}
	return words
}

// rest gives the reader, and the job, time.
func (s *script) rest() error {
	over := s.now() + s.cfg.Pause
	for s.now() < over {
		var fresh []sentence
		err := s.await(over-s.now(), func(m *model) bool {
			fresh = m.toldSince(s.told, false)
			return len(fresh) > 0
		})
		s.print(fresh)
		if s.ctx.Err() != nil {
			return err
		}
	}
	return nil
}

func (s *script) print(sentences []sentence) {
	for _, one := range sentences {
		style := [...]style{plain: normal, good: leading, struck: strong, bad: failed}[one.mood]
		s.out.say(piece{fmt.Sprintf("%6.1f s  ", one.at.Seconds()), faint}, piece{one.text, style})
		s.told = one.key
	}
}

// toldSince returns the complete sentences after the one with the key, or all.
func (m *model) toldSince(key int, all bool) []sentence {
	var fresh []sentence
	for _, s := range m.story {
		if s.key <= key {
			continue
		}
		if s.open && !all {
			break
		}
		fresh = append(fresh, s)
	}
	return slices.Clone(fresh)
}
