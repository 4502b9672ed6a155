//go:build linux

package groups

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/mutation"
)

const worker = "../worker"

// TestStorm breaks a group of each setup.
func TestStorm(t *testing.T) {
	long.Test(t, "it breaks a group of real processes")
	program := harness.Build(t, worker)
	spoken := 0
	for _, s := range Setups() {
		t.Run(s.Name, func(t *testing.T) {
			r, err := Run(t.Context(), Options{
				Setup: s.Name, Seed: 415, For: long.FullOr(2*time.Minute, 17*time.Second), Worker: program,
				Dir: filepath.Join(t.ArtifactDir(), "run"), Progress: func(text string) { t.Log(text) },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%v", r)
			if len(r.Violations) > 0 {
				t.Errorf("promises were broken; with -artifacts the run is kept in %s", t.ArtifactDir())
			}
			if r.Lives < 2*keys || r.Terms < 2 || r.Writes < keys || r.Faults["kill-coordinator"]+r.Faults["kill-both"] == 0 {
				t.Errorf("too little was tested: %+v", r)
			}
			spoken += len(r.Spoken.Member) + len(r.Spoken.Coordinator)
		})
	}
	if spoken == 0 && !t.Failed() {
		t.Error("no process with keys has died whose keeper lived on")
	}
}

// TestTeeth: each mistake that members can be told to make is found.
func TestTeeth(t *testing.T) {
	long.Test(t, "it breaks groups of real processes")
	program := harness.Build(t, worker, "mutants")
	for mutant, of := range map[string]struct {
		faults []string
		check  string
	}{
		mutation.ReleaseBeforeJoin: {[]string{"move", "end-member"}, CheckOverlap},
		mutation.ClaimFromAnswer:   {[]string{"slow-then-mute"}, CheckOverlap},
		mutation.NoCover:           {[]string{"isolate-member", "kill-coordinator"}, CheckOverlap},
		mutation.WordAboutAMember:  {[]string{"late-word"}, CheckOverlap},
		mutation.EarlyWord:         {[]string{"kill-member", "kill-writing"}, CheckOverlap},
	} {
		t.Run(mutant, func(t *testing.T) {
			if (mutant == mutation.WordAboutAMember || mutant == mutation.EarlyWord) && os.Geteuid() != 0 {
				t.Skip("the network refuses the callers that it cannot look at, and so the keepers of an ordinary user")
			}
			t.Parallel()
			storm := func(seed uint64, mutant string) *Report {
				t.Helper()
				r, err := Run(t.Context(), Options{Setup: "group-file", Seed: seed, For: 8 * time.Second, Faults: of.faults, Mutant: mutant, Worker: program, Dir: filepath.Join(t.TempDir(), "run")})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			if r := storm(1, ""); len(r.Violations) > 0 {
				t.Errorf("without the mistake:\n%v", r)
			}
			const tries = 8
			for seed := range uint64(tries) {
				r := storm(seed+1, mutant)
				if i := slices.IndexFunc(r.Violations, func(v Violation) bool { return v.Check == of.check }); i >= 0 {
					t.Logf("caught in try %d, of %d: %s", seed+1, len(r.Violations), r.Violations[i].Text)
					return
				}
			}
			t.Errorf("it survived %d tries", tries)
		})
	}
}
