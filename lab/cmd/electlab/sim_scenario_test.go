package main

import (
	"bytes"
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim/scenario"
)

// TestScenarioThatDoesNotHold: all machines of this repository meet their expectations, so the
// output and the code of a failure are tested here.
func TestScenarioThatDoesNotHold(t *testing.T) {
	p := &played{
		Scenario: "rejoin", Protocol: "raft", Says: "A follower is cut off, and comes back.", Expected: "deposed", Outcome: "n1 leads all the time.",
		Runs: 20, Wrong: []string{"seed 1: it leads on", "seed 2", "seed 3", "seed 4", "seed 5", "seed 6", "seed 7"},
	}
	var out bytes.Buffer
	p.write(&out)
	for _, want := range []string{"runs      20, and the story is of the first\n", "held      no: seed 1: it leads on\n          seed 2\n", "          seed 5\n          and 2 more\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%s\nwithout %q", out.String(), want)
		}
	}
	if p.code() != exit.Safety {
		t.Errorf("it ends with %d", p.code())
	}
	out.Reset()
	writeScenarios(&out, []*played{p, {Scenario: "crash", Protocol: "raft", Held: true, Outcome: "As told."}})
	if want := "rejoin    raft      NO    seed 1: it leads on\ncrash     raft      yes   As told.\n\n1 of 2 came to what is expected\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("the table is\n%s\nwant it to end with\n%s", out.String(), want)
	}
}

// TestWideScenarios: a row of the table is no wider than a terminal, and shows that it is cut; a
// single scenario is shown in full.
func TestWideScenarios(t *testing.T) {
	p := &played{Scenario: "chain", Protocol: "raft", Held: true, Outcome: strings.TrimSpace(strings.Repeat("one word after the other ", 20)), Runs: 1}
	var out bytes.Buffer
	writeScenarios(&out, []*played{p})
	if text := out.String(); !strings.Contains(text, " …\n") || !strings.Contains(text, "-o json") {
		t.Errorf("the table is\n%s\nwant it cut, and to say so", text)
	}
	p.write(&out)
	for line := range strings.Lines(out.String()) {
		if len(line) > 130 {
			t.Errorf("a line has %d bytes: %s", len(line), line)
		}
	}
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, p.Outcome) {
		t.Errorf("it is\n%s\nwithout all of %q", &out, p.Outcome)
	}
}

// TestPairings: every scenario with every protocol to which it applies, and no
// other.
func TestPairings(t *testing.T) {
	all, err := pairings(allScenarios, "")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range scenario.All() {
		n += len(s.Protocols())
	}
	if len(all) != n || n < 150 {
		t.Errorf("%d pairs; want %d", len(all), n)
	}
	of, err := pairings(allScenarios, "lease")
	if err != nil || len(of) < 8 || len(of) > 15 {
		t.Errorf("%d with lease, %v", len(of), err)
	}
	for _, p := range of {
		if p.protocol != "lease" || p.scenario.Expected("lease") == "" {
			t.Errorf("%s with %s", p.scenario.Name, p.protocol)
		}
	}
}

// TestScenarioInterrupted: an interrupted scenario ends, and says so.
func TestScenarioInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"--protocol", "queue"}, {}} {
		var out, errs bytes.Buffer
		root := newRoot()
		root.SetArgs(append([]string{"sim", "run", "--scenario", "thundering-herd"}, args...))
		root.SetOut(&out)
		root.SetErr(&errs)
		code, _ := exit.Of(root.ExecuteContext(ctx))
		if code != exit.BySignal(syscall.SIGINT) || errs.String() != "electlab: interrupted\n" || out.Len() > 0 {
			t.Errorf("%v: code %d, %q, %q", args, code, &errs, &out)
		}
	}
}
