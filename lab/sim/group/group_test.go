package group

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/race"
)

func TestMain(m *testing.M) { os.Exit(race.Main(m)) }

var (
	seeds = flag.Int("seeds", 0, "run so many seeds of each profile")
	from  = flag.Uint64("from", 1, "the first of them")
)

// TestSuite runs seeds of every profile. Together they have to meet every situation.
func TestSuite(t *testing.T) {
	n := long.Or(long.FullOr(3000, 200), 25)
	if *seeds > 0 {
		n = *seeds
	}
	all := map[string]int{}
	for _, p := range Profiles() {
		t.Run(p[0], func(t *testing.T) {
			n := n
			if p, _ := profileNamed(p[0]); p.election != "" { // its runs take longer
				n = (n + 4) / 5
			}
			r, err := Hunt(t.Context(), Options{Profile: p[0]}, *from, n, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range r.Situation {
				all[s.Name] += s.Seen
			}
			if w := r.Worst; w != nil {
				keep(t, p[0], w.Seed)
				t.Errorf("seed %d: %v", w.Seed, w.Violation)
			}
			t.Logf("%d runs, %d events, %.0f s: %d tenures, %d terms, %d adopted, cover by account %d, by time %d, settled p50 %v, p99 %v, max %v", r.Runs, r.Events, r.Virtual,
				r.Stats.Tenures, r.Stats.Terms, r.Stats.Adopted, r.Stats.ByAccount, r.Stats.ByTime, r.Stats.SettledAt(0.5), r.Stats.SettledAt(0.99), r.Stats.SettledAt(1))
		})
	}
	for _, s := range sayings {
		if all[s[0]] == 0 && n >= 200 {
			t.Errorf("no run has met %s: %s", s[0], s[1])
		}
		t.Logf("%6d %s", all[s[0]], s[0])
	}
}

// keep writes the story of a seed.
func keep(t *testing.T, profile string, seed uint64) {
	s, err := Generate(seed, Options{Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.ArtifactDir(), "story.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Run(s, f); err != nil {
		t.Fatal(err)
	}
}
