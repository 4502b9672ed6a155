//go:build mutants

package quorum

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
)

var most = flag.Uint64("most", 400, "after how many seeds a mutant has survived")

// TestMutants switches each rule off and counts the random worlds until an
// invariant is violated. What breaks no safety is left to the simulator, which
// also judges availability, but it must not break safety either.
func TestMutants(t *testing.T) {
	for _, mu := range Mutants() {
		t.Run(mu.Name, func(t *testing.T) {
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
			if story := tell(t, func(c *Config) { c.Mutate(mu.Name) }); story != "" {
				t.Logf("%s: survived %d seeds; killed by the story %s", mu.Rule, limit, story)
			} else if !safe {
				t.Errorf("%s: survived %d seeds", mu.Rule, limit)
			}
		})
	}
}

// TestTwinBites shows that the twin notices when a derived value is wrong.
func TestTwinBites(t *testing.T) {
	for _, name := range []string{
		"promise-forgotten-on-restart", "no-sticky", "own-earlier-life-ignored", "residual-of-holder-only", "no-own-residual",
		"lease-from-ack-arrival", "ignore-drift", "probe-extends-lease", "duplicate-ack-extends", "old-heartbeat-extends",
		"release-by-node-id", "witness-any-incarnation", "boot-residual-waived",
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 200; seed++ {
				if _, diff := compare(seed, func(c *Config) { c.Mutate(name) }); diff != "" {
					t.Log(diff)
					return
				}
			}
			t.Error("not noticed")
		})
	}
}

// tell runs the transcripts until one shows a violation.
func tell(t *testing.T, change func(*Config)) string {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := &script{fail: t.Fatalf, change: change}
		if err := golden.Play(string(text), s.do); err != nil {
			t.Fatal(err)
		}
		if len(s.w.violations) > 0 {
			return file + ": " + s.w.violations[0]
		}
	}
	return ""
}
