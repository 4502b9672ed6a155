package group

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/electd/elect/internal/long"
)

var (
	most  = flag.Int("hunt", 600, "hunt each mutant on so many seeds of each of its grounds")
	only  = flag.String("only", "", "hunt this mutant only")
	fresh = flag.Bool("fresh", false, "hunt from the first seed on, and not where a mutant died before")
)

const killsPath = "testdata/kills.md"

// TestTeeth hunts all mutants, in a build that has them.
func TestTeeth(t *testing.T) {
	long.Test(t, "it compiles a build with mutants, and hunts")
	args := []string{"test", "-tags", "mutants", "-count=1", "-run", "TestMutantsDie", "-v", "."}
	if long.FullOr(true, false) {
		args = append(args, "-fresh")
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// TestMutantsDie hunts each mutant that this build has: first where it died before, then from the first seed on. With
// -rewrite it writes down where.
func TestMutantsDie(t *testing.T) {
	all := Mutants()
	if *only != "" {
		all = slices.DeleteFunc(all, func(m Mutant) bool { return m.Name != *only })
	} else if !mutated {
		all = slices.DeleteFunc(all, func(m Mutant) bool { return m.Rule != "driver" })
	}
	known := died(t)
	if *fresh {
		known = nil
	}
	kills, err := HuntMutants(t.Context(), all, known, *most, func(k Kill) {
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
	if !*rewrite || !mutated || *only != "" {
		return
	}
	var b strings.Builder
	b.WriteString("# What killed each mutant of groups\n\nWritten by `go test -tags mutants ./lab/sim/group -run TestMutantsDie -rewrite`. The seeds of a profile are those of\n`electlab sim group`. A test runs them again; one that does not kill any more is hunted anew.\n\n| mutant | rule | what it does | killed by | profile | seed |\n|---|---|---|---|---|---|\n")
	for _, k := range kills {
		if k.Violation != nil {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d |\n", k.Name, k.Rule, strings.TrimSuffix(k.Says, "."), k.Violation.Invariant, k.Profile, k.Seed)
		}
	}
	b.WriteString("\nHarmless in this world:\n\n")
	for _, name := range slices.Sorted(maps.Keys(Harmless())) {
		fmt.Fprintf(&b, "- *%s*: %s.\n", name, Harmless()[name])
	}
	if err := os.WriteFile(killsPath, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// died reads where each mutant died.
func died(t *testing.T) map[string]Kill {
	text, err := os.ReadFile(killsPath)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]Kill{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z0-9-]+) \|.*\| ([a-z]+) \| (\d+) \|$`).FindAllStringSubmatch(string(text), -1) {
		seed, err := strconv.ParseUint(m[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		known[m[1]] = Kill{Profile: m[2], Seed: seed}
	}
	return known
}
