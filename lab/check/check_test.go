package check

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// worlds are explored for every change: 3 nodes, terms up to 3, 4 messages in flight, 1 crash, all
// losses. In the first no node has led; in the second n1 leads, and is replaced twice.
func worlds() []World {
	return []World{
		{Name: "idle", Mode: Async, Nodes: 3, Terms: 3, Messages: 4, Fires: 2, Crashes: 1},
		{Name: "led", Mode: Async, Nodes: 3, Terms: 3, Messages: 4, Fires: 2, Crashes: 1, Hints: 2, Begin: Led},
		{Name: "operator", Mode: Async, Nodes: 3, Terms: 2, Messages: 2, Fires: 1, Saves: 1, Resigns: 1, Transfers: 1, Changes: 1, Begin: Led, Memberships: memberships("n1,n2")},
		{Name: "leases", Mode: Timed, Nodes: 3, Terms: 2, Messages: 2, Fires: 2, Hints: 1, Ticks: 4, Candidates: 2, Rates: []int{80, 120}, Begin: Apart},
		{Name: "disturbed", Mode: Async, Nodes: 3, Terms: 2, Messages: 2, Fires: 1, Crashes: 1, Candidates: 1, Duplicates: 1, Waits: 1, Failures: 1, Witnesses: 1, Pauses: 1, Begin: Led},
		{Name: "one in flight", Mode: Async, Nodes: 3, Terms: 2, Messages: 1, Fires: 1, Crashes: 1, Duplicates: 1, Waits: 1, Failures: 1, Witnesses: 1, Pauses: 1, Begin: Led},
		{Name: "keepers", Mode: Async, Nodes: 3, Terms: 2, Messages: 2, Fires: 2, Crashes: 1, Candidates: 2, Duplicates: 1, Failures: 1, Witnesses: 1, Begin: Led},
		{Name: "cold", Mode: Async, Nodes: 3, Terms: 2, Messages: 2, Fires: 3, Voters: 2, Duplicates: 1, Failures: 1, Begin: Cold},
		{Name: "witness", Mode: Timed, Nodes: 3, Terms: 2, Messages: 2, Fires: 1, Crashes: 1, Witnesses: 1, Ticks: 3, Candidates: 2, Rates: []int{80, 120}, Swing: true, Outlives: true, Begin: Apart},
		{Name: "restarts", Mode: Timed, Nodes: 3, Terms: 2, Messages: 2, Fires: 1, Crashes: 1, Ticks: 4, Candidates: 2, Promise: 6, Outlives: true, Begin: Apart},
	}
}

// small are smaller versions of them, for the race detector and for short runs.
func small() []World {
	all := worlds()
	for i := range all {
		all[i].Messages = min(all[i].Messages, 2)
		all[i].Fires = min(all[i].Fires, 1)
		all[i].Ticks = min(all[i].Ticks, 3)
		all[i].Saves, all[i].Transfers, all[i].Waits, all[i].Pauses = 0, 0, 0, 0
	}
	return all
}

// TestExhaust explores all worlds.
func TestExhaust(t *testing.T) {
	all, full := worlds(), long.Many()
	if !full {
		all = slices.DeleteFunc(small(), func(w World) bool { return w.Name == "witness" }) // most of the states are its
	}
	for _, w := range all {
		t.Run(w.Name, func(t *testing.T) {
			r, err := Explore(w, Options{Cores: 2})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d states, %d steps, depth %d, %.0f bytes a state", w.String(), r.States, r.Steps, r.Depth, r.PerState())
			if r.Violation != nil {
				t.Fatal(story(t, r.Trail))
			}
			if r.Ending != Exhausted {
				t.Errorf("it is %s", r.Ending)
			}
			if full && r.Won < w.Terms {
				t.Errorf("no node wins a term above %d: the world is not what it is meant to be", r.Won)
			}
		})
	}
}

func story(t *testing.T, trail *Trail) string {
	t.Helper()
	var b strings.Builder
	if err := trail.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// tiny worlds can be explored many times.
func tiny() []World {
	return []World{
		{Mode: Async, Nodes: 3, Terms: 2, Messages: 2, Fires: 2},
		{Mode: Async, Nodes: 2, Terms: 2, Messages: 3, Fires: 2, Crashes: 1, Saves: 1, Failures: 1, Waits: 1, Begin: Cold},
		{Mode: Timed, Nodes: 3, Terms: 2, Messages: 2, Fires: 1, Hints: 1, Ticks: 2, Rates: []int{80, 120}, Swing: true, Begin: Apart},
	}
}

// TestCores: the result does not depend on the number of cores.
func TestCores(t *testing.T) {
	for _, w := range tiny() {
		var first Progress
		for cores := 1; cores <= long.Or(3, 2); cores++ {
			r, err := Explore(w, Options{Cores: cores})
			if err != nil {
				t.Fatal(err)
			}
			p := r.Progress
			p.Bytes = 0 // tables grow at other moments
			if cores == 1 {
				first = p
			} else if p != first {
				t.Errorf("%s: on %d cores %+v, on one %+v", w.String(), cores, p, first)
			}
			if r.Ending != Exhausted {
				t.Errorf("%s: %s", w.String(), r.Ending)
			}
		}
	}
}

// TestReductions compares the states with the reductions with those without them: a network that
// loses any message at any moment, and drops nothing by itself. Each node must reach the same
// states, and so must all of them together.
func TestReductions(t *testing.T) {
	for _, w := range []World{
		{Mode: Async, Nodes: 2, Terms: 2, Messages: 2, Fires: 3, Saves: 1},
		{Mode: Async, Nodes: 2, Terms: 2, Messages: 2, Fires: 2, Crashes: 1, Duplicates: 1},
		{Mode: Async, Nodes: 3, Terms: 1, Messages: 2, Fires: 2},
		{Mode: Async, Nodes: 3, Terms: 2, Messages: 2, Fires: 1, Hints: 2, Resigns: 1, Begin: Led},
		{Mode: Timed, Nodes: 3, Terms: 2, Messages: 2, Fires: 1, Hints: 1, Ticks: 1, Candidates: 2, Begin: Apart},
	} {
		reduced, plain := reach(t, w, false), reach(t, w, true)
		if len(reduced.states) >= len(plain.states) {
			t.Errorf("%s: %d states with the reductions, %d without", w.String(), len(reduced.states), len(plain.states))
		}
		t.Logf("%s: %d states with the reductions, %d without; %d states of all nodes", w.String(), len(reduced.states), len(plain.states), len(plain.nodes))
		for nodes := range plain.nodes {
			if !reduced.nodes[nodes] {
				t.Errorf("%s: the nodes get into %v only without the reductions", w.String(), nodes)
				break
			}
		}
		for nodes := range reduced.nodes {
			if !plain.nodes[nodes] {
				t.Errorf("%s: the nodes get into %v only with the reductions", w.String(), nodes)
				break
			}
		}
	}
}

type reached struct {
	states map[uint64]bool
	nodes  map[string]bool // their states and budgets, without what is in flight
}

// reach explores without optimizations.
func reach(t *testing.T, w World, plain bool) reached {
	t.Helper()
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(&w)
	if err != nil {
		t.Fatal(err)
	}
	e.plain = plain
	all, wrong := e.first()
	if wrong != nil {
		t.Fatal(wrong)
	}
	x := &expander{e: e}
	got := reached{map[uint64]bool{}, map[string]bool{}}
	type at struct {
		s    state
		tick int
	}
	var queue, later []at
	see := func(s *state, tick int, to *[]at) {
		if f := e.fingerprint(s); !got.states[f] {
			got.states[f] = true
			var b bytes.Buffer
			for i := range w.Nodes {
				fmt.Fprintf(&b, "%x ", e.nodes.at(s.node[i]).hash)
			}
			fmt.Fprint(&b, s.spent, s.elected, s.led, s.rate)
			got.nodes[b.String()] = true
			*to = append(*to, at{*s, tick})
		}
	}
	for i := range all {
		see(&all[i], 0, &queue)
	}
	for len(queue) > 0 {
		here := slices.Clone(queue)
		for len(queue) > 0 {
			q := queue[0]
			queue = queue[1:]
			x.expand(&q.s)
			for _, n := range slices.Clone(x.succ) {
				if n.wrong != nil {
					t.Fatal(n.wrong)
				}
				before := len(queue)
				see(&n.state, q.tick, &queue)
				here = append(here, queue[before:]...)
			}
		}
		for _, q := range here {
			if q.tick == w.Ticks {
				continue
			}
			x.tick(&q.s)
			for _, n := range slices.Clone(x.succ) {
				see(&n.state, q.tick+1, &later)
			}
		}
		queue, later = later, nil
	}
	return got
}

// TestBounds: an exploration that is stopped reports that.
func TestBounds(t *testing.T) {
	w := worlds()[0]
	r, err := Explore(w, Options{Limit: 20_000})
	if err != nil || r.Ending != Bounded || r.States < 20_000 || r.States > 60_000 || r.Queue == 0 {
		t.Errorf("with a limit of 20000 states: %+v, %v", r, err)
	}
	r, err = Explore(w, Options{Memory: 8 << 20})
	if err != nil || r.Ending != Bounded || r.Bytes < 8<<20 || r.Bytes > 32<<20 {
		t.Errorf("with 8 MiB: %+v, %v", r, err)
	}
	looks := 0
	r, err = Explore(w, Options{Look: func(Progress) bool { looks++; return looks < 3 }})
	if err != nil || r.Ending != Stopped || looks != 3 {
		t.Errorf("told to stop: %+v, %v after %d looks", r, err, looks)
	}
}

func TestValidate(t *testing.T) {
	for want, w := range map[string]World{
		"nodes: 6; want 1 to 5":          {Mode: Async, Nodes: 6, Terms: 1, Messages: 1},
		"terms: 0; want 1 to 7":          {Mode: Async, Nodes: 3, Messages: 1},
		"messages in flight: 9; want":    {Mode: Async, Nodes: 3, Terms: 1, Messages: 9},
		"candidates: 4; want 0 to 3":     {Mode: Async, Nodes: 3, Candidates: 4, Terms: 1, Messages: 1},
		`mode ""; want async or timed`:   {Nodes: 3, Terms: 1, Messages: 1},
		"are of mode timed":              {Mode: Async, Nodes: 3, Terms: 1, Messages: 1, Ticks: 3},
		"ticks: 0; want 1 to 255":        {Mode: Timed, Nodes: 3, Terms: 1, Messages: 1},
		"waits are of mode async":        {Mode: Timed, Nodes: 3, Terms: 1, Messages: 1, Ticks: 3, Waits: 1},
		`begins "x"`:                     {Mode: Async, Nodes: 3, Terms: 1, Messages: 1, Begin: "x"},
		"has 3 nodes or more":            {Mode: Async, Nodes: 2, Terms: 1, Messages: 1, Begin: Apart},
		`a membership with "n7"`:         {Mode: Async, Nodes: 2, Terms: 1, Messages: 1, Memberships: [][]protocol.NodeID{{"n7"}}},
		"a rate of 70 %; want 80 to 120": {Mode: Timed, Nodes: 2, Terms: 1, Messages: 1, Ticks: 1, Rates: []int{70, 100}},
	} {
		if err := w.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", w, err, want)
		}
	}
	if _, err := Explore(World{}, Options{}); err == nil {
		t.Error("a world of nothing is explored")
	}
}

// TestFields: messages are numbered by their JSON, so that no field may be missing in it.
func TestFields(t *testing.T) {
	var walk func(typ reflect.Type, name string)
	walk = func(typ reflect.Type, name string) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for f := range typ.Fields() {
			if !f.IsExported() || f.Tag.Get("json") == "-" {
				t.Errorf("%s.%s is not in the JSON of a message", name, f.Name)
			}
			walk(f.Type, name+"."+f.Name)
		}
	}
	walk(reflect.TypeFor[protocol.Message](), "Message")
}

// A machine that panics is a violation.
func TestPanic(t *testing.T) {
	w := World{Mode: Async, Nodes: 1, Terms: 1, Messages: 1, Fires: 1}
	e, err := newEngine(&w)
	if err != nil {
		t.Fatal(err)
	}
	all, wrong := e.first()
	if wrong != nil {
		t.Fatal(wrong)
	}
	o := e.step(all[0].node[0], 31) // there is no such input
	if o.wrong == nil || o.wrong.Invariant != NoPanic {
		t.Errorf("%+v", o.wrong)
	}
	var err2 error = o.wrong
	if v, ok := errors.AsType[*Violation](err2); !ok || !strings.Contains(v.Error(), "no-panic: n1: ") {
		t.Errorf("%v", err2)
	}
}
