package arch

import (
	"slices"
	"strings"
	"testing"
)

// TestGuaranteesNameWhatExists holds docs/guarantees.md to the code: each test,
// invariant, situation, model and mutant that it names is there, a test in the
// package that stands before it. And the other way round: the page names each
// invariant, each situation, each model, and each mutant of the quorum protocol.
func TestGuaranteesNameWhatExists(t *testing.T) {
	e := collect(t)
	page := e.read(t, "docs/guarantees.md")
	if looked := e.lookUp(t, page); looked < 250 {
		t.Errorf("only %d names were looked up; the page or this test has lost its form", looked)
	}
	for what, all := range map[string][]string{
		"mutant": e.ofQuorum, "invariant": slices.Concat(e.simulated, e.checked), "situation": e.situation, "model": e.models,
	} {
		for _, name := range all {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("the page does not have the %s %s: which guarantee does it stand behind?", what, name)
			}
		}
	}
}
