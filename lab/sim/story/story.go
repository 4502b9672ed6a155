// Package story writes a trace as text: a column for each node, time downwards, and in words what
// happened. Of a long trace it shows the causes of a violation, and the last moments before it.
//
// It keeps no state between calls, and a call belongs to one goroutine. A defective trace ends the
// story with the decoder's error, after what came before.
package story

import (
	"bufio"
	"cmp"
	"io"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// Options say how to tell it. The zero value is the documented default.
type Options struct {
	// Lines is about how many lines to write at most; 0 is 60. The few lines at the end, which say
	// what was violated, are not counted.
	Lines int
	// Full writes every event.
	Full bool
	// Colour uses the escape sequences of ANSI terminals.
	Colour bool
}

// most is how many events are kept of a trace whose story is not full: earlier ones only update the
// state.
const most = 10_000

// Write writes the story.
func Write(w io.Writer, d *trace.Decoder, o Options) error {
	if o.Lines <= 0 {
		o.Lines = 60
	}
	out := bufio.NewWriter(w)
	t := newTeller(out, d.Header(), o.Colour)
	err := tell(t, d, o)
	t.close(err == nil)
	return cmp.Or(err, out.Flush())
}

func tell(t *teller, d *trace.Decoder, o Options) error {
	t.open()
	if o.Full {
		for e, err := range d.Events() {
			if err != nil {
				return err
			}
			t.event(e, true)
		}
		return nil
	}
	kept, err := keep(t, d)
	chosen := choose(kept, o.Lines)
	for _, it := range kept {
		t.event(it.event, chosen[it.event.N])
	}
	return err
}

// item is an event that may be shown.
type item struct {
	event  *trace.Event
	weight weight
	before int // the index of the event before it at the same node, or -1
}

// keep reads the trace, and keeps the last events of it. The teller follows earlier ones without a
// line.
func keep(t *teller, d *trace.Decoder) ([]item, error) {
	scales := newScales()
	var kept []item
	var broken error
	for e, err := range d.Events() {
		if err != nil {
			broken = err
			break
		}
		if len(kept) == 2*most {
			for _, it := range kept[:most] {
				t.event(it.event, false)
			}
			kept = slices.Clone(kept[most:])
		}
		kept = append(kept, item{event: e, weight: scales.weigh(e)})
	}
	last := make(map[string]int)
	for i := range kept {
		it := &kept[i]
		it.before = -1
		if node := string(it.event.Node); node != "" {
			if j, ok := last[node]; ok {
				it.before = j
			}
			last[node] = i
		}
	}
	return kept, broken
}

// few is how many events may be left out between two others without a word.
const few = 10

// choose picks the events to show, by number, so that they and the lines for the gaps between them
// are about that many lines.
func choose(kept []item, lines int) map[uint64]bool {
	end := len(kept)
	for i, it := range kept {
		if it.event.Kind == trace.Violation {
			end = i + 1
			break
		}
	}
	past := causes(kept, end)
	slices.SortFunc(past, func(a, b int) int {
		return cmp.Or(cmp.Compare(kept[b].weight, kept[a].weight), cmp.Compare(b, a))
	})
	budget := lines
	for {
		chosen := pick(kept, past, end, budget)
		over := len(chosen) + gaps(kept, chosen) - lines
		if over <= 0 || budget <= 1 {
			return chosen
		}
		budget -= min((over+1)/2, budget-1)
	}
}

// pick picks the violations; the last moments before the first of them, or before the end; then of
// the past, the weightiest and latest first.
func pick(kept []item, past []int, end, budget int) map[uint64]bool {
	chosen := make(map[uint64]bool)
	for i, it := range kept {
		if it.event.Kind == trace.Violation {
			chosen[it.event.N] = true
		} else if i < end && i >= end-budget/6 && it.weight > idle {
			chosen[it.event.N] = true
		}
	}
	for _, i := range past {
		if len(chosen) >= budget {
			break
		}
		if kept[i].weight > trifle {
			chosen[kept[i].event.N] = true
		}
	}
	return chosen
}

// gaps is how many lines the gaps take.
func gaps(kept []item, chosen map[uint64]bool) int {
	n, out := 0, 0
	for _, it := range kept {
		if !chosen[it.event.N] {
			out++
			continue
		}
		if out >= few {
			n++
		}
		out = 0
	}
	return n
}

// causes are the indices of all events that caused the violations before end: by messages, and by
// earlier events of the same node. Without a violation, and for one that names no node, it is all
// events.
func causes(kept []item, end int) []int {
	index := make(map[uint64]int, len(kept))
	for i, it := range kept {
		index[it.event.N] = i
	}
	reached := make([]bool, len(kept))
	var todo []int
	for i := range end {
		e := kept[i].event
		if e.Kind == trace.Violation && (e.Node != "" || e.Cause != 0) {
			reached[i] = true
			todo = append(todo, i)
		}
	}
	if len(todo) > 0 {
		// When two lead at once, the other one's win is among the causes.
		led := make(map[protocol.NodeID]int)
		for i := range end {
			if e := kept[i].event; e.Kind == trace.Step && e.View.Elected && kept[i].weight == turning {
				led[e.Node] = i
			}
		}
		for _, i := range led {
			if !reached[i] {
				reached[i] = true
				todo = append(todo, i)
			}
		}
	}
	if len(todo) == 0 {
		all := make([]int, end)
		for i := range all {
			all[i] = i
		}
		return all
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range []int{kept[i].before, indexOf(index, kept[i].event.Cause)} {
			if j >= 0 && !reached[j] {
				reached[j] = true
				todo = append(todo, j)
			}
		}
	}
	var past []int
	for i := range end {
		// Faults and changes of the leader belong to every story.
		if reached[i] || kept[i].weight >= turning {
			past = append(past, i)
		}
	}
	return past
}

func indexOf(index map[uint64]int, n uint64) int {
	if i, ok := index[n]; ok {
		return i
	}
	return -1
}
