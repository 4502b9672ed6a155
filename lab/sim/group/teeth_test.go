package group

import (
	"errors"
	"flag"
	"slices"
	"testing"
)

var (
	least = flag.Int("hunt", 60, "hunt each mutant on so many seeds of each of its grounds")
	only  = flag.String("only", "", "hunt this mutant only")
)

// TestMutantsDie hunts each mutant, in a build that has them. TestTeeth makes one.
func TestMutantsDie(t *testing.T) {
	all := Mutants()
	if *only != "" {
		all = slices.DeleteFunc(all, func(m Mutant) bool { return m.Name != *only })
	} else if !mutated {
		all = slices.DeleteFunc(all, func(m Mutant) bool { return m.Rule != "driver" })
	}
	_, err := HuntMutants(t.Context(), all, *least, func(k Kill) {
		if k.Seed == 0 {
			t.Errorf("%-28s SURVIVES %d runs", k.Name, k.Runs)
		} else {
			t.Logf("%-28s %5d runs, %s seed %d: %.200v", k.Name, k.Runs, k.Profile, k.Seed, k.Violation)
		}
	})
	if errors.Is(err, ErrNoMutants) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}
