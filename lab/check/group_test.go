package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol/group"
)

// groupWorlds are explored for every change, and more of them where there is time.
func groupWorlds() []GroupWorld {
	all := []GroupWorld{cold(), {Members: 2, Tenures: 2, Versions: 2, Kills: 1, Moves: 2, Settled: 2}}
	seen := map[string]bool{}
	for _, w := range all {
		seen[w.String()] = true
	}
	for _, mu := range group.Mutants() {
		for _, w := range GroupGrounds(mu.Name) {
			if large := mu.Name == "unadmitted-vouches"; !seen[w.String()] && (!large || long.Many()) {
				seen[w.String()] = true
				all = append(all, w)
			}
		}
	}
	if long.Many() {
		all = append(all,
			GroupWorld{Members: 3, Tenures: 3, Versions: 3, Moves: 1, Settled: 2},
			GroupWorld{Members: 3, Tenures: 2, Versions: 3, Cuts: 1, Moves: 1, Settled: 2},
			GroupWorld{Members: 3, Tenures: 2, Versions: 3, Cuts: 1, Settled: 1, Vouchers: 1},
			GroupWorld{Members: 2, Tenures: 3, Versions: 3, Cuts: 1, Kills: 1, Moves: 1, Settled: 1},
		)
	}
	return all
}

// TestGroups explores all worlds of groups.
func TestGroups(t *testing.T) {
	for i, w := range groupWorlds() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r, err := ExploreGroup(w, Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s: %d states, %d steps, depth %d, made of %d states of machines, %d messages, %d steps of machines; %d steps left out, %.0f bytes a state", w.String(), r.Ending, r.States, r.Steps, r.Depth, r.NodeStates, r.Messages, r.NodeSteps, r.Cut, r.PerState())
			if r.Ending != Exhausted {
				t.Errorf("it is %s", r.Ending)
			}
			if r.Won < w.Tenures {
				t.Errorf("no tenure above %d begins: the world is not what it is meant to be", r.Won)
			}
			if r.Violation != nil {
				t.Errorf("%v\n%s", r.Violation, strings.Join(r.Story, "\n"))
			}
		})
	}
}
