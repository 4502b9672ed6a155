//go:build linux

package storm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/test/chaos/crew"
)

// unlessHere fails the test in CI, and skips it elsewhere, if nothing can be had.
func unlessHere(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED: " + why)
}

// programs builds what storms run, once for all tests that want it.
func programs(t *testing.T) (crew.Programs, *crew.Programs) {
	t.Helper()
	this, next, err := Build(t.Context(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	return this, next
}

// TestStorm has real storms go on, of each setup and over each network.
func TestStorm(t *testing.T) {
	race.Alone(t)
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
			if testing.Short() {
				o.For /= 3
			}
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
				t.Errorf("promises were broken; the run is in %s", o.Dir)
			} else if err := os.RemoveAll(o.Dir); err != nil {
				t.Error(err)
			}
			if last.Faults < 3 || report.Elections == 0 || report.Ops == 0 {
				t.Errorf("%d faults, %d elections, %d operations: the storm did not blow", last.Faults, report.Elections, report.Ops)
			}
		})
	}
}

// TestStormInterrupted: a storm that is broken off undoes its faults, and what there
// was is judged.
func TestStormInterrupted(t *testing.T) {
	race.Alone(t)
	this, next := programs(t)
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	o := Options{Setup: "peers-fast", Network: "proxies", Seed: 2, For: time.Hour, Dir: filepath.Join(t.TempDir(), "run"), Programs: this, Next: next}
	report, err := Run(ctx, o)
	if !errors.Is(err, context.DeadlineExceeded) {
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

// TestAside: what was put aside stays, what has grown is replaced, and what comes
// after a loss gets a place of its own.
func TestAside(t *testing.T) {
	from, a := t.TempDir(), &aside{dir: t.TempDir()}
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
			t.Errorf("%s was put aside", at)
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
