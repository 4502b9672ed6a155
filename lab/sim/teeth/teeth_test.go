package teeth

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/lab/check"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// TestHunt hunts every mutant, in a build that has them, and compares what killed it
// with testdata/kills.txt. A survivor fails it.
func TestHunt(t *testing.T) {
	long.Test(t, "it hunts for minutes")
	out, err := exec.CommandContext(t.Context(), "go", "run", "-tags", "mutants", "./hunt", "-check", recordPath).CombinedOutput()
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
	all := []Kill{
		{Mutant: m, Ground: Ground{Name: "swarm"}, Runs: 7, Seed: 3, Violation: &sim.Violation{Invariant: sim.Exclusive, Event: 512}},
		{Mutant: Mutant{"queue", "other", "Q1", "survives"}, Runs: 4000},
		{Mutant: Mutant{"quorum", "both", "R4", "wins"}, Ground: Ground{Name: "storm"}, Runs: 1, Seed: 1, Violation: &sim.Violation{Invariant: sim.Once, Event: 9}, Checked: &Checked{"once", 77, 8}},
		{Mutant: Mutant{"quorum", "one", "R4", "wins"}, Ground: Ground{Name: "storm"}, Runs: 1, Seed: 1, Violation: &sim.Violation{Invariant: sim.Once, Event: 9}},
	}
	var page, record strings.Builder
	Table(&page, all)
	Record(&record, all)
	const rows = "\n\nlease no-wait | exclusive | swarm | 3 | 7 | -\nqueue other | **nothing** | - | 0 | 4000 | -\n" +
		"quorum both | once | storm | 1 | 1 | once, 77, 8\nquorum one | once | storm | 1 | 1 | -\n"
	if !strings.HasSuffix(record.String(), rows) {
		t.Errorf("the record is\n%s\nand does not end with\n%s", record.String(), rows)
	}
	for _, want := range []string{
		"| no-wait | L4 | Takes what it can \\| gets | exclusive |\n",
		"| other | Q1 | Survives | **nothing** |\n",
		"| send-at-once | A message leaves before the save that it names | `TestSendsAfterSaves` |",
		"4 such mutants of 3\nprotocols", "the toughest took\n7 runs",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
}

var (
	exactly = flag.Int("seeds", 0, "have the machines as they are hold for so many seeds of each ground, and of each profile; 0 is as docs/teeth.md says")
	rewrite = flag.Bool("rewrite", false, "write docs/teeth.md as testdata/kills.txt has it")
)

// The unchanged machines pass wherever mutants of them are hunted: a ground that they fail on shows
// nothing. And they pass more seeds than the hardest mutant takes there, or the ground shows
// nothing about them.
func TestGroundsAreFair(t *testing.T) {
	enough := table(t)
	for _, p := range protocols.All() {
		t.Run(p.Name, func(t *testing.T) {
			for _, g := range groundsOf(t, p.Name) {
				seeds := enough[[2]string{p.Name, g.Name}]
				switch {
				case *exactly > 0:
					seeds = *exactly
				case !long.Many():
					seeds = 2
				case seeds == 0:
					continue // a profile, which TestSuite of package sim has
				}
				t.Run(g.Name, func(t *testing.T) {
					t.Parallel()
					holds(t, p, g, seeds)
				})
			}
		})
	}
}

func holds(t *testing.T, p *sim.Protocol, g Ground, seeds int) {
	events, violated := uint64(0), 0
	for seed := range uint64(seeds) {
		r, err := g.Run(p, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		events += r.Events
		if r.Violation != nil {
			violated++
			t.Errorf("seed %d: %v", seed+1, r.Violation)
		}
		if violated == 10 {
			t.Fatal("10 seeds violate something; this is enough")
		}
	}
	t.Logf("%s, %s: %d seeds, %d events, %d violations", p.Name, g.Name, seeds, events, violated)
}

// groundsOf are the grounds of a protocol's mutants, each once; with -seeds, all
// profiles, too.
func groundsOf(t *testing.T, name string) []Ground {
	var all []Ground
	if *exactly > 0 {
		for _, f := range sim.Profiles() {
			all = append(all, Ground{Name: f.Name, Options: sim.Options{Profile: f.Name}})
		}
	}
	for _, m := range Mutants() {
		if m.Protocol != name {
			continue
		}
		for _, g := range grounds(m) {
			i := slices.IndexFunc(all, func(o Ground) bool { return o.Name == g.Name })
			if i < 0 {
				all = append(all, g)
			} else if o := all[i]; !reflect.DeepEqual(o.Options, g.Options) || (o.script == nil) != (g.script == nil) || (o.judge == nil) != (g.judge == nil) {
				t.Errorf("%s: two different grounds are called %q; %s is hunted on one of them", name, g.Name, m.Name)
			}
		}
	}
	return all
}

const recordPath = "testdata/kills.txt"

// recorded is the result of the hunt that wrote testdata/kills.txt.
func recorded(t *testing.T) []Kill {
	t.Helper()
	text, err := os.ReadFile(recordPath)
	if err != nil {
		t.Fatal(err)
	}
	all := kills()
	for i := range all {
		k := &all[i]
		row := regexp.MustCompile(`(?m)^` + k.Protocol + ` ` + k.Name + ` \| ([^|]+) \| ([^|]+) \| (\d+) \| (\d+) \| ([a-z-]+)(?:, (\d+), (\d+))?$`).FindStringSubmatch(string(text))
		if row == nil {
			t.Fatalf("%s has no %s %s; run: make generate", recordPath, k.Protocol, k.Name)
		}
		number := func(text string) int {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("%s: %s %s: %v", recordPath, k.Protocol, k.Name, err)
			}
			return n
		}
		k.Violation, k.Ground.Name = &sim.Violation{Invariant: sim.Invariant(row[1])}, row[2]
		k.Seed, k.Runs = uint64(number(row[3])), number(row[4])
		if row[6] != "" {
			k.Checked = &Checked{check.Invariant(row[5]), uint64(number(row[6])), number(row[7])}
		}
	}
	var again strings.Builder
	if Record(&again, all); again.String() != string(text) {
		t.Errorf("%s is not a record of these mutants; run: make generate", recordPath)
	}
	return all
}

// TestPage: docs/teeth.md shows what testdata/kills.txt records.
func TestPage(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "teeth.md")
	var want strings.Builder
	Table(&want, recorded(t))
	if *rewrite {
		if err := os.WriteFile(path, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want.String() {
		t.Errorf("docs/teeth.md is not what %s records (%v); run: go test ./lab/sim/teeth -run TestPage -rewrite", recordPath, err)
	}
}

// table is how many seeds the unchanged machine has to pass, by protocol and ground.
func table(t *testing.T) map[[2]string]int {
	enough := map[[2]string]int{}
	for _, f := range Figures(recorded(t)) {
		enough[[2]string{f.Protocol, f.Ground}] = f.Enough()
	}
	return enough
}

// kills is a hunt in which none has died.
func kills() []Kill {
	var all []Kill
	for _, m := range Mutants() {
		all = append(all, Kill{Mutant: m})
	}
	return all
}

// TestFigures: the figure of a ground is that of the mutant that took most seeds there.
func TestFigures(t *testing.T) {
	all := kills()
	all[0].Ground, all[0].Seed = Ground{Name: "storm"}, 70
	all[1].Ground, all[1].Seed = Ground{Name: "storm"}, 7
	seen := false
	for _, f := range Figures(all) {
		switch {
		case f.Protocol == all[0].Protocol && f.Ground == "storm":
			seen = true
			if f.Seeds != 70 || f.Enough() != 210 {
				t.Errorf("%+v, enough are %d; want 70 and 210", f, f.Enough())
			}
		case f.Seeds != 0 || f.Enough() != Least:
			t.Errorf("%+v: want no mutant, and %d seeds", f, Least)
		}
	}
	if !seen {
		t.Error("no figure of the ground storm")
	}
}
