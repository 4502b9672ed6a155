//go:build mutants

package scenario

import (
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/lab/sim/protocols"
)

// TestNaive: a quorum protocol without the rule in question fails the judgement.
func TestNaive(t *testing.T) {
	for _, c := range []struct{ scenario, mutant, says string }{
		{"voter-restart", "promise-forgotten-on-restart", "it violates exclusive"},
		{"double-vote", "vote-twice-in-a-term", "it violates one-vote-per-term"},
		{"double-vote", "vote-not-durable", "it violates vote-saved"},
		{"stranded-term", "re-anchor-always", "another can have won: a tenure"},
		{"ping-pong", "no-sticky", "the term of n1 with token 1"},
		{"chain", "no-sticky", "the term of n1 with token 1"},
		{"constrained", "position-not-asked", "it violates not-behind"},
		{"transfer-race", "handover-before-the-work-returned", "it violates exclusive"},
		{"reconfig-fork", "reconfigure-without-quorum", "5 voters in the end"},
		{"lease-reconfig", "membership-before-durable", "it violates durable-first"},
	} {
		t.Run(c.scenario+"/"+c.mutant, func(t *testing.T) {
			t.Parallel()
			p, err := protocols.Mutated("quorum", c.mutant)
			if err != nil {
				t.Fatal(err)
			}
			s, _ := ByName(c.scenario)
			st, all := s.stageOf(p)
			runs, err := st.perform(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			r := s.judge(st, runs, "quorum")
			if !slices.ContainsFunc(r.Wrong, func(w string) bool { return strings.Contains(w, c.says) }) {
				t.Errorf("%s; what is wrong is %q, without %q", r.Outcome, r.Wrong[:min(len(r.Wrong), 5)], c.says)
			}
		})
	}
}
