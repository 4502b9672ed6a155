//go:build linux

package storm

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
)

// unlessHere fails the test in CI, and skips it elsewhere, if something is not available.
func unlessHere(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED: " + why)
}

// programs builds the programs of storms, once for all tests.
func programs(t *testing.T) (cluster.Programs, *cluster.Programs) {
	t.Helper()
	this, next, err := Build(t.Context(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	return this, next
}

// abilities is what root has on a CI computer, with a network of that kind: without one of them a
// storm would be a lesser one, unnoticed.
func abilities(o Options) []Ability {
	if o.Setup == "file" {
		return []Ability{Filling, Quota}
	}
	return []Ability{Ability(o.Network), Clocks, FUSE, Filling, Zones, Quota, Next}
}

// whole lists what a storm lacked: abilities for which it was not drawn, and missing evidence.
func whole(o Options, s *Schedule, r *judge.Report) (lacks []string) {
	for _, a := range abilities(o) {
		if !s.has(a) {
			lacks = append(lacks, "the ability "+string(a))
		}
	}
	counts := map[string]int{"watchers": r.Watchers - 1, "states that watchers saw": r.Observations, "pieces for porcupine": r.Pieces}
	if o.Setup != "file" {
		counts["flight records"], counts["steps in flight records"], counts["leases in flight records"] = r.Segments, r.Steps, r.Leases
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		if counts[what] < 1 {
			lacks = append(lacks, what)
		}
	}
	return lacks
}

// TestWhole: each missing thing is named.
func TestWhole(t *testing.T) {
	o := Options{Setup: "peers-lan", Network: "proxies"}
	s := &Schedule{Abilities: abilities(o)}
	r := judge.Report{Watchers: 2, Observations: 1, Pieces: 1, Segments: 1, Steps: 1, Leases: 1}
	if lacks := whole(o, s, &r); len(lacks) > 0 {
		t.Errorf("nothing is missing, and it says %q", lacks)
	}
	for i, a := range s.Abilities {
		less := &Schedule{Abilities: slices.Delete(slices.Clone(s.Abilities), i, i+1)}
		if lacks := whole(o, less, &r); !slices.Equal(lacks, []string{"the ability " + string(a)}) {
			t.Errorf("without %s: %q", a, lacks)
		}
	}
	if lacks := whole(o, s, &judge.Report{Watchers: 1}); len(lacks) != 6 {
		t.Errorf("nothing was judged, and it says %q; want six things", lacks)
	}
}

// TestStorm runs real storms, of each setup and over each network.
func TestStorm(t *testing.T) {
	long.Test(t, "it breaks a cluster of real processes")
	this, next := programs(t)
	for _, o := range []Options{
		{Setup: "peers-lan", Network: "namespaces", Seed: 5, For: 30 * time.Second},
		{Setup: "peers-fast", Network: "proxies", Seed: 4, For: 30 * time.Second},
		{Setup: "file", Seed: 6, For: 20 * time.Second},
	} {
		t.Run(o.Setup, func(t *testing.T) {
			if o.Network == "namespaces" && os.Geteuid() != 0 {
				unlessHere(t, "network namespaces are for root")
			}
			o.For = long.FullOr(o.For, o.For/3)
			o.Dir, o.Programs, o.Next = filepath.Join(t.ArtifactDir(), "run"), this, next
			var last Progress
			o.Progress = func(p Progress) { last = p; t.Log(p) }
			report, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := report.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			t.Log(text.String())
			if !report.OK() {
				t.Errorf("promises were broken; with -artifacts the run is kept in %s", o.Dir)
			}
			for _, line := range []string{"violations    none\n", "\nrun ", "\navailability ", "\nfaults ", "\njudged "} {
				if report.OK() && !strings.Contains("\n"+text.String(), line) {
					t.Errorf("the report has no %q", line)
				}
			}
			s, err := Load(filepath.Join(o.Dir, ScheduleFile))
			if err != nil {
				t.Fatal(err)
			}
			if lacks := whole(o, s, &report); len(lacks) > 0 && os.Getenv("CI") == "true" && os.Geteuid() == 0 {
				t.Errorf("the storm did without %s", strings.Join(lacks, ", "))
			} else if len(lacks) > 0 {
				t.Logf("the storm did without %s", strings.Join(lacks, ", "))
			}
			if last.Faults < 3 || report.Elections == 0 || report.Ops == 0 {
				t.Errorf("%d faults, %d elections, %d operations: the storm did not blow", last.Faults, report.Elections, report.Ops)
			}
			if !t.Failed() {
				if err := os.RemoveAll(o.Dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestStormInterrupted: an interrupted storm undoes its faults, and what exists is judged.
func TestStormInterrupted(t *testing.T) {
	long.Test(t, "it breaks a cluster of real processes")
	this, next := programs(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(2*time.Minute, cancel).Stop() // there was a leader long before
	o := Options{Setup: "peers-fast", Network: "proxies", Seed: 2, For: time.Hour, Dir: filepath.Join(t.TempDir(), "run"), Programs: this, Next: next}
	o.Progress = func(p Progress) {
		if p.Elections > 0 && p.Faults > 0 {
			cancel()
		}
	}
	report, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if !report.OK() || report.Elections == 0 {
		t.Errorf("%d elections; broken: %v", report.Elections, report.Violations)
	}
	if again, err := Judge(o.Dir); err != nil || again.Elections != report.Elections {
		t.Errorf("judged again: %d elections, %v; want %d", again.Elections, err, report.Elections)
	}
	for _, file := range []string{ScheduleFile, ReportFile} {
		if _, err := os.Stat(filepath.Join(o.Dir, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestCheck(t *testing.T) {
	for want, o := range map[string]Options{
		"no setup":    {Setup: "x"},
		"10 promises": {For: time.Second},
		"no network":  {Network: "x"},
		"no fault":    {Faults: []string{"x"}},
		"among peers": {Setup: "file", Faults: []string{"halves"}},
	} {
		if err := Check(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q in it", o, err, want)
		}
		o.Dir = t.TempDir()
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a run of %+v: %v; want %q in it", o, err, want)
		}
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Dir: full}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Error(err)
	}
}

// TestCopyFlight: what was copied stays, what has grown is replaced, and what comes after a loss gets
// a place of its own.
func TestCopyFlight(t *testing.T) {
	from, a := t.TempDir(), &flightCopies{dir: t.TempDir()}
	put := func(name, text string, lost bool) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.copy(from, lost); err != nil {
			t.Fatal(err)
		}
	}
	want := func(at, text string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(a.dir, at)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v; want %q", at, got, err, text)
		}
	}
	none := func(at string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(a.dir, at)); err == nil {
			t.Errorf("%s was copied", at)
		}
	}
	put("flight-00000001.ndjson", "head\n", false)
	none("1")
	put("flight-00000001.ndjson", "head\nfirst\n", false)
	put("flight-00000001.ndjson", "head\nfirst\nsecond\n", false)
	put("flight-00000002.ndjson", "head\nthird\n", true)
	want("1/flight-00000001.ndjson", "head\nfirst\nsecond\n")
	want("1/flight-00000002.ndjson", "head\nthird\n")
	put("flight-00000002.ndjson", "head\nthird\n\x00\x00\x00\x00\x00\x00\n", false)
	put("flight-00000003.ndjson", "head\nfourth\n", false)
	put("ballot", "b", false)
	none("2/flight-00000001.ndjson")
	none("2/flight-00000002.ndjson")
	want("2/flight-00000003.ndjson", "head\nfourth\n")
	want("2/ballot", "b")
	put("flight-00000003.ndjson", "head\nanother\n", false)
	want("2/flight-00000003.ndjson", "head\nfourth\n")
	want("3/flight-00000003.ndjson", "head\nanother\n")
}
