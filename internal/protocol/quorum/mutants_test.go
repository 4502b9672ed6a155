//go:build mutants

package quorum

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
)

var most = flag.Uint64("most", 400, "the number of seeds after which a mutant counts as survived")

// TestMutants switches each rule off and counts the random worlds until an invariant is violated.
// Mutants that break no safety are left to the simulator, which also judges availability; here they
// must not break safety.
func TestMutants(t *testing.T) {
	for _, mu := range Mutants() {
		t.Run(mu.Name, func(t *testing.T) {
			if mu.Seen == Alike {
				for _, b := range bentStories() {
					if wrong := b.play(t, func(c *Config) { c.Mutate(mu.Name) }); wrong != "" {
						t.Logf("%s: killed by the story %s: %s", mu.Rule, b.name, wrong)
						return
					}
				}
				for phase := range 12 {
					if wrong := halfHeard(t, phase, func(c *Config) { c.Mutate(mu.Name) }); wrong != "" {
						t.Logf("%s: killed by TestHalfHeard, phase %d: %s", mu.Rule, phase, wrong)
						return
					}
				}
				if wrong := toldApart(t, func(c *Config) { c.Mutate(mu.Name) }); wrong != "" {
					t.Logf("%s: killed: %s", mu.Rule, wrong)
					return
				}
				t.Errorf("%s: survived all stories of bent clocks", mu.Rule)
				return
			}
			safe := mu.Seen == Undisturbed || mu.Seen == Takeover || mu.Seen == Joined
			limit := *most
			if safe {
				limit = 20
			}
			for seed := uint64(1); seed <= limit; seed++ {
				w := chaos(seed, func(c *Config) { c.Mutate(mu.Name) })
				w.run(chaosTime + 700*time.Millisecond)
				if len(w.violations) > 0 {
					t.Logf("%s: killed by seed %d: %s", mu.Rule, seed, w.violations[0])
					if safe {
						t.Errorf("it is said to break %s only", mu.Seen)
					}
					return
				}
			}
			violated, other := tell(t, func(c *Config) { c.Mutate(mu.Name) })
			switch {
			case violated != "":
				t.Logf("%s: survived %d seeds; killed by the story %s", mu.Rule, limit, violated)
				if safe {
					t.Errorf("it is said to break %s only", mu.Seen)
				}
			case other != "":
				t.Logf("%s: survived %d seeds; noticed: another transcript of %s", mu.Rule, limit, other)
			case !safe:
				t.Errorf("%s: survived %d seeds", mu.Rule, limit)
			}
		})
	}
}

// TestTwinBites shows that the twin notices a wrong derived value.
func TestTwinBites(t *testing.T) {
	for _, name := range []string{
		"promise-forgotten-on-restart", "no-sticky", "own-earlier-life-ignored", "residual-of-holder-only", "no-residual-wait", "no-own-residual",
		"lease-from-ack-arrival", "ignore-drift", "probe-extends-lease", "duplicate-ack-extends", "old-heartbeat-extends",
		"release-by-node-id", "witness-any-incarnation", "boot-residual-waived",
		"leader-without-quorum-keeps-promising",
		"handover-any-seq", "priority-never-ignored", "outranked-at-once", "position-not-asked",
		"reconfigure-without-quorum", "reconfigure-two-at-once", "held-before-saved", "new-term-not-stamped", "standing-by-place",
		"vote-twice-in-a-term", "vote-while-work-runs",
	} {
		if !slices.ContainsFunc(Mutants(), func(mu Mutant) bool { return mu.Name == name }) {
			t.Fatalf("there is no mutant %s", name)
		}
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 1000; seed++ {
				if _, diff := compare(seed, func(c *Config) { c.Mutate(name) }); diff != "" {
					t.Log(diff)
					return
				}
			}
			t.Error("not noticed")
		})
	}
}

// tell runs the transcripts until one shows a violation. Of those that differ it returns the first.
func tell(t *testing.T, change func(*Config)) (violated, other string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var told [2]strings.Builder
		for i, change := range [...]func(*Config){nil, change} {
			s := &script{fail: t.Fatalf, change: change}
			err := golden.Play(string(text), func(c golden.Command) string {
				out := s.do(c)
				told[i].WriteString(out)
				return out
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.w.violations) > 0 {
				return file + ": " + s.w.violations[0], other
			}
		}
		if other == "" && told[0].String() != told[1].String() {
			other = file
		}
	}
	return "", other
}
