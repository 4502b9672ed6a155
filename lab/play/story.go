package play

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/lab/sim"
)

// Story is a guided tour through one or more worlds.
type Story struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Says  string `json:"says"` // what it is about, in a sentence
	Steps []Step `json:"steps"`
	// Asks is a question of an interview that the story answers, Answers the answer in short; empty if none.
	Asks    string `json:"asks,omitempty"`
	Answers string `json:"answers,omitempty"`
}

// Step is one moment of a story.
type Step struct {
	World *World `json:"world"`
	Says  string `json:"says"` // one sentence
	// Look is the panel to look at: world, lanes, log or invariants.
	Look string `json:"look"`
	// Event is the number of the event of the moment, set when the world has been run.
	Event uint64 `json:"event"`

	when when
}

// when describes the moment of a step in the run of its world.
type when struct {
	kind string // of a turn, or "letter", "time", "start"
	says string // a part of the turn's sentence, or the letter's type
	nth  int    // the number among those that match, from 1; 0 is the first
	at   time.Duration
	plus time.Duration // this long after it
}

func start() when                { return when{kind: "start"} }
func after(d time.Duration) when { return when{kind: "time", at: d} }
func turn(kind, says string, nth int) when {
	return when{kind: kind, says: says, nth: nth}
}
func sent(kind string, nth int) when { return when{kind: "letter", says: kind, nth: nth} }

func (w when) later(d time.Duration) when {
	w.plus = d
	return w
}

// find returns the event of a moment.
func (r *run) find(w when) (uint64, error) {
	at := sim.Time(-1)
	event, seen := uint64(0), 0
	switch w.kind {
	case "start":
		return 0, nil
	case "time":
		at = sim.Time(w.at)
	case "letter":
		for i := range r.all {
			if r.types[r.all[i].kind] != w.says {
				continue
			}
			if seen++; seen == max(w.nth, 1) {
				at = r.all[i].sent
				event = r.lines[r.all[i].sender-1].event
				break
			}
		}
	default:
		for i := range r.turns {
			t := &r.turns[i]
			if t.Kind != w.kind || !strings.Contains(t.Says, w.says) {
				continue
			}
			if seen++; seen == max(w.nth, 1) {
				at, event = t.At, t.Event
				break
			}
		}
	}
	if at < 0 {
		return 0, fmt.Errorf("no %s %q, number %d", w.kind, w.says, max(w.nth, 1))
	}
	if w.kind == "time" || w.plus > 0 {
		at += sim.Time(w.plus)
		return r.event(moment{Time: &at})
	}
	return event, nil
}

type storyParams struct {
	Name string `json:"name"`
}

// story runs the worlds of a story, and finds the events of its steps. The present run stays.
func (p *Player) story(a *storyParams) (any, error) {
	all := stories()
	i := slices.IndexFunc(all, func(s *Story) bool { return s.Name == a.Name })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("story %q; want %s", a.Name, strings.Join(names, ", "))
	}
	s := all[i]
	var r *run
	for k := range s.Steps {
		step := &s.Steps[k]
		if r == nil || r.world != step.World {
			var err error
			if r, err = begin(step.World); err != nil {
				return nil, fmt.Errorf("story %s: %w", s.Name, err)
			}
			for !r.over {
				r.grow(MaxEvents)
			}
		}
		event, err := r.find(step.when)
		if err != nil {
			return nil, fmt.Errorf("story %s, step %d: %w", s.Name, k+1, err)
		}
		step.Event = event
	}
	return s, nil
}
