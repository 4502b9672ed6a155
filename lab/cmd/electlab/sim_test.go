package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// TestCodeOf: no machine of this repository panics in a script, so the codes are compared here, for
// every invariant.
func TestCodeOf(t *testing.T) {
	if got := codeOf(nil); got != exit.OK {
		t.Errorf("nothing violated: %d", got)
	}
	for _, p := range sim.Promises() {
		want := exit.Safety
		switch p.Invariant {
		case sim.Live:
			want = exit.Liveness
		case sim.NoPanic:
			want = exit.Crash
		}
		if got := codeOf(&sim.Violation{Invariant: p.Invariant}); got != want {
			t.Errorf("%s: %d, want %d", p.Invariant, got, want)
		}
	}
}

// TestHuntFindsTheSmallestSeed: where the world's clocks are worse than what the machines assume,
// some seed violates exclusivity, and it is the same for any number of concurrent runs.
func TestHuntFindsTheSmallestSeed(t *testing.T) {
	p, err := protocolNamed("quorum")
	if err != nil {
		t.Fatal(err)
	}
	p.Drift = func(json.RawMessage) (protocol.Drift, error) { return protocol.Drift{PPM: protocol.MaxPPM}, nil }
	var seeds []uint64
	for _, jobs := range []int{1, 2, 5} {
		h := &hunt{protocol: p, options: sim.Options{Profile: "clocks"}, first: 1, count: 300, jobs: jobs}
		if err := h.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.tally.worst == nil {
			t.Fatalf("%d runs, and nothing was violated", h.tally.runs)
		}
		if h.tally.runs >= 300 {
			t.Error("it went on after the violation")
		}
		seeds = append(seeds, h.tally.worst.Schedule.Seed)
	}
	if seeds[0] != seeds[1] || seeds[0] != seeds[2] {
		t.Errorf("the seeds %v violate something first", seeds)
	}
}

// TestHuntEnds: a hunt ends with its context, and an impossible schedule is an error.
func TestHuntEnds(t *testing.T) {
	p, err := protocolNamed("quorum")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &hunt{protocol: p, first: 1, count: 1 << 40, jobs: 2}
	if err := h.run(ctx); err != nil || h.tally.runs > 2 {
		t.Errorf("%d runs, %v", h.tally.runs, err)
	}
	h = &hunt{protocol: p, options: sim.Options{Nodes: 99}, first: 1, count: 1 << 40, jobs: 2}
	if err := h.run(t.Context()); err == nil {
		t.Error("99 nodes are no error")
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1<<64 - 1: "18,446,744,073,709,551,615"} {
		if got := thousands(n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		done, all uint64
		want      string
	}{
		{0, 0, "[                        ]"},
		{1, 2, "[############            ]"},
		{2, 2, "[########################]"},
		{1, 1 << 40, "[                        ]"},
	} {
		if got := bar(c.done, c.all); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.done, c.all, got, c.want)
		}
	}
}

// TestListHasEverything: electlab sim list has every fault, profile and invariant, with what it says.
func TestListHasEverything(t *testing.T) {
	want := map[string]string{}
	for _, f := range sim.Faults() {
		want[string(f.Kind)] = f.Says
	}
	for _, p := range sim.Profiles() {
		want["profile "+p.Name] = p.Says
	}
	for _, p := range sim.Promises() {
		want["invariant "+string(p.Invariant)] = p.Says
	}
	code, out := runSim(t, "list")
	if code != exit.OK {
		t.Errorf("it ends with %d", code)
	}
	for name, says := range want {
		name = name[strings.Index(name, " ")+1:]
		if row := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(name) + ` +` + regexp.QuoteMeta(says) + `$`); !row.MatchString(out) {
			t.Errorf("there is no line %q", row)
		}
	}
}
