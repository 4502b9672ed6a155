package play

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/lab/sim"
)

type logPage struct {
	Lines []Line `json:"lines"`
	All   int    `json:"all"`
	Fit   int    `json:"fit"`
	First int    `json:"first"`
}

// A letter that leaves has led to its arrival, and came of the step that sent it.
func TestCauseOfLetters(t *testing.T) {
	type cone struct{ Past, Future []int }
	p := New()
	whole(t, p, &World{Protocol: "raft", Seconds: 3})
	leaves := call[logPage](t, p, "log", logParams{From: 1, Kinds: []string{"send"}, Count: 20}).Lines
	arrived := 0
	for _, l := range leaves {
		of := call[cone](t, p, "cause", causeParams{Line: l.Number})
		if len(of.Future) == 0 {
			t.Errorf("line %d, %q, led to nothing", l.Number, l.Says)
			continue
		}
		first := call[logPage](t, p, "log", logParams{Numbers: of.Future[:1]}).Lines[0]
		if first.Letter != l.Letter {
			t.Errorf("line %d, %q, led to %q first; want the same letter", l.Number, l.Says, first.Says)
		}
		if n := len(of.Past); n == 0 || of.Past[n-1] != l.Cause {
			t.Errorf("line %d came of %v; want the step %d last", l.Number, of.Past, l.Cause)
		}
		if first.Kind == "receive" {
			arrived++
			past := call[cone](t, p, "cause", causeParams{Line: first.Number}).Past
			if n := len(past); n < 2 || past[n-1] != l.Number || past[n-2] != l.Cause {
				t.Errorf("the receipt %d came of %v; want the letter's leaving %d and its step %d last", first.Number, past, l.Number, l.Cause)
			}
		}
	}
	if arrived < 10 {
		t.Errorf("%d of %d letters arrived; want 10 at least", arrived, len(leaves))
	}
}

// The log of a node has its own end of each letter.
func TestLogOfANode(t *testing.T) {
	p := New()
	whole(t, p, &World{Protocol: "quorum", Seconds: 3})
	for _, kind := range []string{"send", "receive"} {
		lines := call[logPage](t, p, "log", logParams{From: 1, Node: "n2", Kinds: []string{kind}}).Lines
		if len(lines) == 0 {
			t.Errorf("n2 has no line %s", kind)
		}
		for _, l := range lines {
			if l.Node != "n2" || l.Other == "" {
				t.Errorf("the log of n2 has line %d of %s and %s: %s", l.Number, l.Node, l.Other, l.Says)
			}
		}
	}
}

// The state says how long timers and leases are in all: what is left of one is never more, and all of it when it begins.
func TestLengths(t *testing.T) {
	for _, c := range []struct {
		w     *World
		lease time.Duration // how long one is, but for the time that it took to renew it
	}{
		{&World{Protocol: "quorum", Seconds: 5}, time.Second}, {&World{Protocol: "lease", Scenario: "gc-pause"}, 30 * time.Second}, {&World{Protocol: "raft", Seconds: 5}, 0},
	} {
		p := New()
		o := whole(t, p, c.w)
		next := map[int]sim.Time{}
		longest, most := 0., time.Duration(0) // the greatest part of a lease that is left, and the longest one
		for e := uint64(0); e <= min(o.Events, 3000); e++ {
			s := call[*State](t, p, "state", map[string]any{"event": e})
			for _, n := range s.Nodes {
				if n.Next > s.At {
					if n.Timer <= 0 || time.Duration(n.Next-s.At) > n.Timer {
						t.Fatalf("%s, event %d: %s waits for %s of a timer of %s", c.w.Protocol, e, n.ID, time.Duration(n.Next-s.At), n.Timer)
					}
					if was := next[n.Place]; time.Duration(n.Next-was).Abs() > time.Millisecond && time.Duration(n.Next-s.At) != n.Timer {
						t.Fatalf("%s, event %d: %s begins to wait for %s, and the timer has %s", c.w.Protocol, e, n.ID, time.Duration(n.Next-s.At), n.Timer)
					}
				}
				next[n.Place] = n.Next
				if n.Proven && n.Left > 0 {
					if n.Left > n.Lease {
						t.Fatalf("%s, event %d: %s has %s left of a lease of %s", c.w.Protocol, e, n.ID, n.Left, n.Lease)
					}
					most = max(most, n.Lease)
					longest = max(longest, float64(n.Left)/float64(n.Lease))
				}
			}
		}
		if c.lease > 0 && longest < 0.999 {
			t.Errorf("%s: the greatest part of a lease that was left is %g; want all", c.w.Protocol, longest)
		}
		if most > c.lease || most < c.lease/2 {
			t.Errorf("%s: the longest lease has %s; want half of %s at least", c.w.Protocol, most, c.lease)
		}
	}
}

// What is over at once does not go on, and neither does what was meant for a leader that there was not.
func TestGoesOn(t *testing.T) {
	p := New()
	o := whole(t, p, &World{Protocol: "quorum", Seconds: 20, Hands: []sim.Op{
		{Kind: sim.OpIsolate, Node: sim.Leader, At: 0, For: 2e9}, {Kind: sim.OpStep, Node: "n2", At: 5e9, By: 1e9},
		{Kind: sim.OpPause, Node: "n3", At: 6e9, For: 2e9}, {Kind: sim.OpRate, Node: "n1", Value: 100, At: 10e9},
	}})
	if m := o.Marks[0]; m.Until > 1 {
		t.Errorf("what was meant for nobody goes on until %s", m.Until)
	}
	for at, want := range map[sim.Time][]int{1e9: {}, 5.5e9: {}, 7e9: {2}, 9e9: {}, 11e9: {3}, 19e9: {3}} {
		if got := call[*State](t, p, "state", map[string]any{"time": at}).Ops; !slices.Equal(got, want) {
			t.Errorf("at %s the operations %v go on; want %v", at, got, want)
		}
	}
}

// The catalogue says what a protocol can do, as its worlds show it.
func TestCatalogueIsTrue(t *testing.T) {
	for _, info := range call[*Catalogue](t, New(), "catalogue", nil).Protocols {
		t.Run(info.Name, func(t *testing.T) {
			t.Parallel()
			if _, err := New().Call("open", fmt.Appendf(nil, `{"protocol": %q, "nodes": %d}`, info.Name, info.Nodes)); err != nil {
				t.Errorf("with %d nodes: %v", info.Nodes, err)
			}
			if _, err := New().Call("open", fmt.Appendf(nil, `{"protocol": %q, "nodes": %d}`, info.Name, info.Nodes+1)); err == nil {
				t.Errorf("it has a world of %d nodes; want %d at most", info.Nodes+1, info.Nodes)
			}
			if info.Naive {
				return // nobody asks those for anything
			}
			p := New()
			if _, err := p.Call("open", fmt.Appendf(nil, `{"protocol": %q, "hands": [{"at": 1, "kind": "transfer", "node": "leader"}]}`, info.Name)); (err == nil) != info.Members {
				t.Errorf("a transfer: %v; the catalogue says that there are some: %t", err, info.Members)
			}
			o := whole(t, p, &World{Protocol: info.Name, Seconds: 60})
			voted := false
			for _, turn := range o.Turns {
				if turn.Kind == "elected" {
					for _, n := range call[*State](t, p, "state", map[string]any{"event": turn.Event}).Nodes {
						voted = voted || len(n.Votes) > 0
					}
				}
			}
			if voted != info.Votes {
				t.Errorf("a leader has votes: %t; the catalogue says %t", voted, info.Votes)
			}
		})
	}
}

// The runs that are kept are looked at together, each as it would be alone.
func TestKept(t *testing.T) {
	p := New()
	worlds := []*World{{Protocol: "quorum", Seconds: 5}, {Protocol: "bully", Seconds: 2}}
	for i, w := range worlds {
		whole(t, p, w)
		if n := call[int](t, p, "keep", nil); n != i+1 {
			t.Errorf("%d runs are kept; want %d", n, i+1)
		}
	}
	if _, err := p.Call("keep", nil); err == nil || !strings.Contains(err.Error(), "call open first") {
		t.Errorf("without a run: %v; want a refusal", err)
	}
	for _, at := range []sim.Time{0, 1.3e9, 4e9} {
		all := call[[]*State](t, p, "states", map[string]any{"time": at})
		for i, w := range worlds {
			alone := New()
			whole(t, alone, w)
			want, _ := json.Marshal(call[*State](t, alone, "state", map[string]any{"time": at}))
			if got, _ := json.Marshal(all[i]); string(got) != string(want) {
				t.Errorf("%s at %s is %s; want %s", w.Protocol, at, got, want)
			}
		}
	}
	for range MaxKept - len(worlds) {
		call[*Overview](t, p, "open", worlds[1])
		call[int](t, p, "keep", nil)
	}
	call[*Overview](t, p, "open", worlds[1])
	if _, err := p.Call("keep", nil); err == nil || !strings.Contains(err.Error(), "7 runs are kept; want no more") {
		t.Errorf("an eighth run: %v; want a refusal", err)
	}
}

// A line of the log is found by its place among those that are chosen, in both directions, also while the run grows.
func TestLogByPlace(t *testing.T) {
	p := New()
	o := call[*Overview](t, p, "open", &World{Protocol: "quorum", Seconds: 10})
	filters := []logParams{{}, {Turns: true}, {Node: "n2"}, {Kinds: []string{"send", "lost"}, Node: "n1"}, {Kinds: []string{"violation"}}}
	for range 2 {
		for _, f := range filters {
			f.From, f.Count = 1, 500
			var all []Line // by number, a page after the other
			for {
				l := call[logPage](t, p, "log", f)
				all = append(all, l.Lines...)
				if len(l.Lines) < 500 {
					if l.Fit != len(all) {
						t.Errorf("%+v: %d lines fit; want %d", f, l.Fit, len(all))
					}
					break
				}
				f.From = all[len(all)-1].Number + 1
			}
			f.From = 0
			for _, at := range []int{0, 1, 7, len(all) / 2, len(all) - 1, len(all), len(all) + 9} {
				if at < 0 {
					continue
				}
				f.Index, f.Count = &at, 5
				l := call[logPage](t, p, "log", f)
				want := all[min(at, len(all)):min(at+5, len(all))]
				if len(l.Lines) != len(want) || len(want) > 0 && (l.Lines[0].Number != want[0].Number || l.First != at) {
					t.Errorf("%+v from place %d: %d lines from place %d; want %d", f, at, len(l.Lines), l.First, len(want))
				}
			}
			f.Index = nil
			for e := uint64(0); e <= o.Events; e += 501 {
				f.Event, f.Back, f.Count = &e, true, 1
				l := call[logPage](t, p, "log", f)
				k := 0
				for k < len(all) && all[k].Event <= e {
					k++
				}
				if k == 0 != (len(l.Lines) == 0) || k > 0 && (l.Lines[0].Number != all[k-1].Number || l.First != k-1) {
					t.Errorf("%+v at event %d: %+v at place %d; want place %d", f, e, l.Lines, l.First, k-1)
				}
			}
		}
		for !o.Over {
			o = call[*Overview](t, p, "grow", growParams{})
		}
	}
}
