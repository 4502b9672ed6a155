//go:build mutants

package check

import (
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol/group"
)

// TestGroupTeeth hunts each mutant that the checker has to find, each in the smallest world in which it shows.
// TestGroups explores these worlds with the machines as they are.
func TestGroupTeeth(t *testing.T) {
	hunted := 0
	for _, mu := range group.Mutants() {
		for _, w := range GroupGrounds(mu.Name) {
			hunted++
			w.Mutant = mu.Name
			r, err := ExploreGroup(w, Options{Limit: 8_000_000})
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation == nil {
				t.Errorf("%s: %s survives: %s, %d states", mu.Rule, mu.Name, r.Ending, r.States)
				continue
			}
			t.Logf("%s: %s: %d states, %d steps: %v\n%s", mu.Rule, mu.Name, r.States, len(r.Story), r.Violation, strings.Join(r.Story, "\n"))
		}
	}
	if hunted < 16 {
		t.Errorf("%d mutants are hunted", hunted)
	}
}
