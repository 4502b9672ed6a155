//go:build mutants

package mutation

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestChosen has a process for each choice, because a process chooses once.
func TestChosen(t *testing.T) {
	const child = "MUTATION_TEST_CHILD"
	if os.Getenv(child) != "" {
		t.Logf("check: %v", Check())
		for _, name := range Names() {
			if Is(name) {
				t.Logf("made: %s", name)
			}
		}
		return
	}
	for _, c := range []struct{ chosen, want string }{
		{"", "check: <nil>"},
		{VoteNotSynced, "made: " + VoteNotSynced},
		{LapseNotFinal, "check: <nil>"},
		{"vote-not-sync", `check: ELECT_MUTANT="vote-not-sync"; want one of ` + strings.Join(Names(), ", ")},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChosen$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1", Env+"="+c.chosen)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v, and no %q in\n%s", c.chosen, err, c.want, out)
		}
		if made := strings.Count(string(out), "made:"); made != strings.Count(c.want, "made:") {
			t.Errorf("%q: %d mistakes are made", c.chosen, made)
		}
	}
}
