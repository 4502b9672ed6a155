package spin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// patience is for one run of one program. A verifier needs a few seconds; it gets more on a busy
// machine.
const patience = 10 * time.Minute

// world is one model within its bounds.
type world struct {
	model  string
	bounds string // -D flags of spin, and no others
	states string // their number, which changes with the model
}

func (w world) name() string { return strings.TrimSpace(w.model + " " + w.bounds) }

// worlds are explored to the last state. README.md has the same figures.
var worlds = []world{
	{"election", "", "850181"},
	{"lease", "-DN=2 -DT=3", "54686"},
	{"lease", "-DT=2", "1325753"},
	{"lease", "-DT=3 -DDV=2", "2513555"},
	{"transfer", "", "2958968"},
	{"transfer", "-DT=2 -DABORT_IN_TERM", "116816"},
	{"membership", "-DT=2", "388811"},
	{"membership", "-DT=2 -DMIN=1", "418455"},
	{"membership", "-DT=3 -DV=1", "1840932"},
	{"membership", "-DT=2 -DV=1 -DLEASES", "1509400"},
}

// mutants are rules that are broken. Spin finds each, by the shortest way.
var mutants = []struct{ model, bounds, rule string }{
	{"election", "", "ANSWER_BEFORE_SAVE"},
	{"election", "", "WIN_BEFORE_SAVE"},
	{"election", "", "IN_FLIGHT_FORBIDS_NOTHING"},
	{"election", "", "REANCHOR_BLIND"},
	{"election", "", "RENEW_OVERTAKEN"},
	{"election", "", "VOTE_WHILE_WORKING"},
	{"election", "", "IGNORE_RESIDUAL"},
	{"election", "", "FORGET_OWN_LIFE"},
	{"election", "", "NO_BOOT_RESIDUAL"},
	{"election", "", "REVIVE"},
	{"lease", "", "LEASE_FROM_ACK"},
	{"lease", "", "IGNORE_DRIFT"},
	{"lease", "", "IGNORE_RESIDUAL"},
	{"lease", "", "FORGET_EARLIER_PROMISE"},
	{"lease", "", "NO_BOOT_RESIDUAL"},
	{"lease", "", "CLAIM_NOT_KEPT"},
	{"lease", "", "VOTE_WHILE_WORKING"},
	{"lease", "", "RELEASE_BEFORE_JOIN"},
	{"lease", "", "WITNESS_EARLY"},
	{"lease", "-DT=3 -DDV=2", "RELEASE_BY_NODE"},
	{"lease", "-DT=3 -DDV=2", "RELEASE_WAIVES_BOOT"},
	{"lease", "-DT=3 -DDV=2", "WITNESS_BY_NODE"},
	{"transfer", "", "TOKEN_BEFORE_JOIN"},
	{"transfer", "", "TOKEN_ANY_TERM"},
	{"transfer", "-DABORT_IN_TERM", "TOKEN_ANY_SEQ"},
	{"transfer", "", "TOKEN_ANY_LIFE"},
	{"transfer", "", "TOKEN_WAIVES_ALL"},
	{"transfer", "", "TOKEN_WAIVES_BOOT"},
	{"membership", "-DT=2", "RECONFIGURE_WITHOUT_QUORUM"},
	{"membership", "-DT=2", "TWO_AT_ONCE"},
	{"membership", "-DT=2", "ANY_CONFIG"},
	{"membership", "-DT=2", "NOT_STAMPED"},
	{"membership", "-DT=2", "STAND_AT_CONFIG_TERM"},
	{"membership", "-DT=2", "ROUND_OUTLIVES_CONFIG"},
	{"membership", "-DT=2", "INSTALL_BEFORE_SAVE"},
	{"membership", "-DT=2 -DMIN=3 -DLEASES", "CLAIM_FORGOTTEN"},
}

// sometimes lists what must be able to happen: a model in which it cannot would hold for the wrong
// reason. The numbers are those in the models.
var sometimes = []struct {
	model, bounds string
	number        int
	what          string
}{
	{"election", "", 1, "a running tenure goes on in a new ballot"},
	{"election", "", 2, "there are tenures in the terms 1 and 3, and term 2 was won as well"},
	{"election", "", 3, "a tenure of term 3 follows one of term 2, with a crash"},
	{"lease", "", 1, "a tenure starts after a boot residual has run out"},
	{"lease", "", 2, "a tenure starts after a release"},
	{"transfer", "", 1, "the successor leads"},
	{"transfer", "", 2, "the old leader leads again"},
	{"transfer", "", 3, "so does its next life"},
	{"membership", "-DT=2 -DV=1", 1, "a voter that was added wins"},
	{"membership", "-DT=2 -DV=1", 2, "a node wins with the last version"},
	{"membership", "-DT=2 -DV=1 -DLEASES", 3, "a voter that was added has a tenure"},
}

var (
	stored   = regexp.MustCompile(`(?m)^\s*(\d+) states, stored`)
	flaws    = regexp.MustCompile(`(?m)^.*(not completed|too small|out of memory|[Ww]arning|error:).*$`)
	verdict  = regexp.MustCompile(`errors: (\d+)`)
	violated = regexp.MustCompile(`(?m)^pan.*assertion violated.*$`)
)

// TestModels: no state of the models violates their assertions.
func TestModels(t *testing.T) {
	tools(t)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range worlds {
		t.Run(w.name(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			began := time.Now()
			out := verify(t, dir, w.model, strings.Fields(w.bounds), "-O2", "-DCOLLAPSE")
			if found := violated.FindString(out); found != "" {
				t.Fatalf("%s\n%s", found, trail(t, dir, w.model, strings.Fields(w.bounds)))
			}
			if bad := flaws.FindString(out); bad != "" || !slices.Equal(verdict.FindStringSubmatch(out), []string{"errors: 0", "0"}) {
				t.Fatalf("the search is not complete: %s\n%s", bad, out)
			}
			states := stored.FindStringSubmatch(out)
			if states == nil {
				t.Fatalf("no number of states:\n%s", out)
			}
			t.Logf("%s states, %v with generating and compiling", states[1], time.Since(began).Round(100*time.Millisecond))
			if states[1] != w.states {
				t.Errorf("%s states; there were %s. If the model was meant to change, change the number here and in README.md", states[1], w.states)
			}
			if row := fmt.Sprintf("| `%s` | %s |", w.name(), w.states); !strings.Contains(string(readme), row) {
				t.Errorf("README.md has no row that begins with %q", row)
			}
		})
	}
}

// TestMutants: a model without one of the rules fails.
func TestMutants(t *testing.T) {
	tools(t)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.model+" "+m.rule, func(t *testing.T) {
			t.Parallel()
			refute(t, m.model, append(strings.Fields(m.bounds), "-D"+m.rule))
			if row := fmt.Sprintf("| %s | `%s` |", m.model, m.rule); !strings.Contains(string(readme), row) {
				t.Errorf("README.md has no row that begins with %q", row)
			}
		})
	}
}

// TestSometimes: the models are not empty.
func TestSometimes(t *testing.T) {
	tools(t)
	for _, s := range sometimes {
		t.Run(fmt.Sprintf("%s %d", s.model, s.number), func(t *testing.T) {
			t.Parallel()
			t.Log(s.what)
			refute(t, s.model, append(strings.Fields(s.bounds), fmt.Sprintf("-DSOMETIMES=%d", s.number)))
		})
	}
}

// TestSwitches: each rule that a model can do without is a mutant, and each event that happens
// sometimes is tested.
func TestSwitches(t *testing.T) {
	bounds := []string{"N", "T", "S", "V", "DV", "MIN", "SOMETIMES", "LEASES", "ABORT_IN_TERM"}
	test := regexp.MustCompile(`(?m)^#\s*(?:ifn?def|if defined|elif defined)\s*\(?([A-Z_]+)`)
	number := regexp.MustCompile(`sometimes\((\d+),`)
	for _, model := range models(t) {
		text, err := os.ReadFile(model + ".pml")
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range test.FindAllStringSubmatch(string(text), -1) {
			rule := found[1]
			if !slices.Contains(bounds, rule) && !slices.ContainsFunc(mutants, func(m struct{ model, bounds, rule string }) bool { return m.model == model && m.rule == rule }) {
				t.Errorf("%s.pml can be broken by -D%s, and no test does", model, rule)
			}
		}
		looked := 0
		for _, s := range sometimes {
			if s.model == model {
				looked++
			}
		}
		if n := len(number.FindAllString(string(text), -1)); n != looked || n == 0 {
			t.Errorf("%s.pml has %d things that happen sometimes, and %d are looked for", model, n, looked)
		}
	}
}

// models are the names of the models in this folder.
func models(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.pml")
	if err != nil || len(all) == 0 {
		t.Fatalf("no models here: %v", err)
	}
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], ".pml")
	}
	return all
}

// refute requires an error of a model, and logs the shortest way to it.
func refute(t *testing.T, model string, flags []string) {
	t.Helper()
	dir := t.TempDir()
	out := verify(t, dir, model, flags, "-O0", "-DBFS") // most of the time goes into compiling
	if violated.FindString(out) == "" {
		t.Fatalf("nothing is found wrong with %s.pml %s\n%s", model, strings.Join(flags, " "), out)
	}
	t.Log("\n" + trail(t, dir, model, flags))
}

// verify generates, compiles and runs the verifier of a model, and returns what
// it says.
func verify(t *testing.T, dir, model string, flags []string, how ...string) string {
	t.Helper()
	text, err := os.ReadFile(model + ".pml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, model+".pml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "spin", append(slices.Clone(flags), "-a", model+".pml")...)
	run(t, dir, "gcc", append(how, "-w", "-DSAFETY", "-DNOFAIR", "-DMEMLIM=2048", "-o", "pan", "pan.c")...)
	return run(t, dir, "./pan", "-E", "-m10000", "-w22")
}

// trail replays the error that the verifier has found, in the terms of the model.
func trail(t *testing.T, dir, model string, flags []string) string {
	t.Helper()
	out := run(t, dir, "spin", append(slices.Clone(flags), "-T", "-t", model+".pml")...)
	said, _, _ := strings.Cut(out, "spin: trail ends")
	return said
}

// run runs a program to its end. That a verifier has found an error is no failure.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && (ctx.Err() != nil || !ended || name != "./pan") {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// tools skips the test where spin or the compiler is missing.
func tools(t *testing.T) {
	t.Helper()
	long.Test(t, "spin goes through some ten million states")
	for _, name := range []string{"spin", "gcc"} {
		harness.Need(t, name, name)
	}
}
