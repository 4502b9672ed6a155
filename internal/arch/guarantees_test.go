package arch

import (
	"slices"
	"strings"
	"testing"
)

// TestEvidenceNamesWhatExists holds docs/evidence.md to the code: each test,
// invariant, situation, model and mutant that it names exists, a test in the
// package that stands before it. The page names each invariant, each situation,
// each model, and each mutant of the quorum protocol. It has a section for each
// promise of docs/guarantees.md, with the same number.
func TestEvidenceNamesWhatExists(t *testing.T) {
	e := collect(t)
	page := e.read(t, "docs/evidence.md")
	promises := names(`(?m)^## ([0-9]+\. [A-Za-z ]+)`, e.read(t, "docs/guarantees.md"))
	if shown := names(`(?m)^## ([0-9]+\. [A-Za-z ]+)`, page); len(promises) < 8 || !slices.Equal(promises, shown) {
		t.Errorf("docs/guarantees.md promises %q, and there is evidence of %q", promises, shown)
	}
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
