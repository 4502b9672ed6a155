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
			safe := mu.Seen == Undisturbed || mu.Seen == Takeover
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
