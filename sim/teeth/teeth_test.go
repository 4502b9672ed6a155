package teeth

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/sim"
	"github.com/electd/elect/sim/protocols"
)

// TestHunt hunts every mutant, in a build that has them, and compares the table
// with docs/teeth.md. A survivor fails it.
func TestHunt(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("builds a program of its own, without the race detector, and hunts for a minute or two")
	}
	page := filepath.Join("..", "..", "docs", "teeth.md")
	out, err := exec.CommandContext(t.Context(), "go", "run", "-tags", "mutants", "./hunt", "-check", page).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func TestHuntNeedsMutants(t *testing.T) {
	if _, err := Protocol(Mutants()[0]); err == nil {
		t.Skip("this build has mutants")
	}
	if _, err := Hunt(t.Context(), Mutants(), 1, nil); !errors.Is(err, ErrNoMutants) {
		t.Errorf("error %v; want %v", err, ErrNoMutants)
	}
}

// Names are what -only takes and what the table shows.
func TestMutants(t *testing.T) {
	all := Mutants()
	if len(all) < 25 {
		t.Errorf("%d mutants; want at least 25", len(all))
	}
	seen := make(map[string]bool)
	for _, m := range all {
		key := m.Protocol + " " + m.Name
		if seen[key] || m.Name == "" || m.Rule == "" || m.Says == "" {
			t.Errorf("mutant %+v is doubled or says too little", m)
		}
		seen[key] = true
		if _, ok := protocols.ByName(m.Protocol); !ok {
			t.Errorf("%s: no protocol %s", m.Name, m.Protocol)
		}
	}
	for _, h := range Equivalent() {
		if seen[h.Protocol+" "+h.Name] || h.Why == "" {
			t.Errorf("%s is said to be equivalent, and is hunted or without a reason", h.Name)
		}
	}
}

func TestTable(t *testing.T) {
	m := Mutant{"lease", "no-wait", "L4", "takes what it can | gets."}
	var page strings.Builder
	Table(&page, []Kill{
		{Mutant: m, Ground: Ground{Name: "swarm"}, Runs: 7, Seed: 3, Violation: &sim.Violation{Invariant: sim.Exclusive, Event: 512}},
		{Mutant: Mutant{"queue", "other", "Q1", "survives"}, Runs: 4000},
		{Mutant: Mutant{"quorum", "both", "R4", "wins"}, Ground: Ground{Name: "storm"}, Runs: 1, Seed: 1, Violation: &sim.Violation{Invariant: sim.Once, Event: 9}, Checked: &Checked{"once", 77, 8}},
		{Mutant: Mutant{"quorum", "one", "R4", "wins"}, Ground: Ground{Name: "storm"}, Runs: 1, Seed: 1, Violation: &sim.Violation{Invariant: sim.Once, Event: 9}},
	})
	for _, want := range []string{
		"| no-wait | L4 | Takes what it can \\| gets | exclusive | 7 | 512 | swarm |",
		"| other | Q1 | Survives | **nothing** | 4000 | – | – |",
		"| storm | once in 77 states, 8 steps |", "| storm | – |",
		"| send-at-once | A message leaves before the save that it names | `TestSendsAfterSaves` |",
		"4 such mutants of 3 protocols", "the toughest took 7 runs",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
}

// The machines as they are hold wherever mutants of them are hunted: a ground
// that they fail on shows nothing.
func TestGroundsAreFair(t *testing.T) {
	seeds := race.Or[uint64](20, 2)
	done := make(map[string]bool)
	for _, m := range Mutants() {
		p, ok := protocols.ByName(m.Protocol)
		if !ok {
			t.Fatalf("%s: no protocol %s", m.Name, m.Protocol)
		}
		for _, g := range grounds(m) {
			key := m.Protocol + " " + g.Name
			if done[key] {
				continue
			}
			done[key] = true
			for seed := uint64(1); seed <= seeds; seed++ {
				r, err := g.Run(p, seed)
				if err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				if r.Violation != nil {
					t.Errorf("%s, for %s: seed %d: %v", key, m.Name, seed, r.Violation)
					break
				}
			}
		}
	}
}
