//go:build mutants

package check

import (
	"errors"
	"fmt"
	"testing"

	"github.com/electd/elect/internal/protocol/quorum"
)

// TestTeeth hunts each mutant that the checker has to find, and explores the same worlds with the
// unchanged machine.
func TestTeeth(t *testing.T) {
	hunted := 0
	explored := map[string]bool{} // some mutants share a world
	for _, mu := range quorum.Mutants() {
		grounds := HuntingGrounds(mu.Name)
		if len(grounds) == 0 {
			continue
		}
		hunted++
		t.Run(mu.Name, func(t *testing.T) {
			k, err := Hunt(mu.Name, Options{Cores: 2, Limit: 8_000_000})
			if err != nil {
				t.Fatal(err)
			}
			if k == nil {
				t.Fatal("it survives")
			}
			t.Logf("%s: killed after %d states, in %d steps: %v", mu.Rule, k.States, len(k.Trail.Steps), k.Violation)
			v, err := k.Trail.Replay()
			if err != nil || v == nil || v.Invariant != k.Violation.Invariant {
				t.Errorf("its trail, replayed: %v, %v", v, err)
			}
			for _, w := range grounds {
				world := fmt.Sprintf("%+v", w)
				if explored[world] {
					continue
				}
				explored[world] = true
				r, err := Explore(w, Options{Cores: 2})
				if err != nil {
					t.Fatal(err)
				}
				if r.Ending != Exhausted {
					t.Errorf("the machine as it is: %s\n%s", r.Ending, story(t, r.Trail))
				}
			}
			healthy := k.Trail
			healthy.World.Mutant = ""
			if v, err := healthy.Replay(); err == nil && v != nil {
				t.Errorf("the machine as it is, on the way of its mutant: %v", v)
			}
		})
	}
	if hunted < 25 {
		t.Errorf("%d mutants are hunted", hunted)
	}
}

func TestUnknownMutant(t *testing.T) {
	w := tiny()[0]
	w.Mutant = "no-such-rule"
	if err := w.Validate(); err == nil || errors.Is(err, ErrNoMutants) {
		t.Errorf("%v", err)
	}
	if k, err := Hunt("clock-jump-ignored", Options{}); k != nil || err != nil {
		t.Errorf("what has no world: %v, %v", k, err)
	}
}
