//go:build linux

package storm

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
)

// TestGray runs a quarter of an hour of each gray failure: the leader's disk needs 2 s for each sync, its processes get
// a fifth of a processor, which its work would use up alone, and, with profile calm, a third of all packets is lost. The
// leader changes twice at most. See docs/chaos.md.
func TestGray(t *testing.T) {
	long.Test(t, "it breaks clusters of real processes for a quarter of an hour")
	if long.Or(1, 0) == 0 {
		t.Skip("it takes a quarter of an hour")
	}
	this, next := programs(t)
	for _, name := range []string{"gray-disk", "gray-busy", "gray-loss"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := Load(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() != 0 {
				unlessHere(t, "network namespaces are for root")
			}
			report, err := Run(t.Context(), Options{Schedule: plan, Setup: plan.Setup, Network: plan.Network, Seed: plan.Seed, For: plan.For,
				Dir: filepath.Join(t.ArtifactDir(), "run"), Programs: this, Next: next})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d leader changes, longest without %v", report.LeaderChanges, report.Longest)
			if !report.OK() || report.LeaderChanges > 2 || name == "gray-disk" && report.LeaderChanges < 1 {
				t.Errorf("%d leader changes in %v; want 2 at most, and of a slow disk one at least; broken: %v", report.LeaderChanges, 15*time.Minute, report.Violations)
			}
		})
	}
}
