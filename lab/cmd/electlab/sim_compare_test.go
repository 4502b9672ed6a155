package main

import (
	"testing"

	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/compare"
)

// The violation decides the exit code, safety before liveness and crashes.
func TestCodeOfReport(t *testing.T) {
	violated := func(all ...sim.Invariant) *compare.Report {
		r := &compare.Report{Lines: []compare.Line{{Protocol: "fine"}}}
		for _, inv := range all {
			r.Lines = append(r.Lines, compare.Line{Protocol: "broken", Violation: &compare.Violation{Seed: 1, Invariant: inv}})
		}
		return r
	}
	for _, test := range []struct {
		report *compare.Report
		code   int
	}{
		{violated(), exit.OK},
		{violated(sim.Exclusive), exit.Safety},
		{violated(sim.NoPanic), exit.Crash},
		{violated(sim.NoPanic, sim.OneVote), exit.Safety},
		{violated(sim.OneVote, sim.NoPanic), exit.Safety},
	} {
		if got := codeOfReport(test.report); got != test.code {
			t.Errorf("%+v: exit code %d; want %d", test.report.Violations(), got, test.code)
		}
	}
}
