//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/lab/sim"
)

// violating is a protocol that violates an invariant in some seed, with the command line that finds
// it: clocks are worse than what the machines assume.
func violating(t *testing.T) (*sim.Protocol, *simRun) {
	t.Helper()
	p, err := protocolNamed("quorum")
	if err != nil {
		t.Fatal(err)
	}
	p.Drift = func(json.RawMessage) (protocol.Drift, error) { return protocol.Drift{PPM: protocol.MaxPPM}, nil }
	return p, &simRun{options: sim.Options{Profile: "storm", Config: json.RawMessage(`{"unclocked":true}`)}, seed: 1, seeds: 300, jobs: 2, format: "table"}
}

// full is a place where nothing can be written.
func full(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestViolationIsNotLost: a file that cannot be written changes neither the exit code nor the rest
// of the answer, and the answer does not say that it was kept.
func TestViolationIsNotLost(t *testing.T) {
	for name, c := range map[string]struct {
		trace, keep string // below a directory of the test's own
		full        bool   // stdout
	}{
		"all is well":         {trace: "t.ndjson", keep: "k.json"},
		"no trace":            {trace: "/dev/full", keep: "k.json"},
		"no schedule":         {trace: "t.ndjson", keep: "/dev/full"},
		"nowhere to write it": {trace: "no/t.ndjson", keep: "no/k.json"},
		"no answer":           {trace: "t.ndjson", keep: "k.json", full: true},
	} {
		t.Run(name, func(t *testing.T) {
			if race.Enabled && !c.full {
				t.Skip("the same goroutines as with no answer")
			}
			dir := t.TempDir()
			at := func(path string) string {
				if filepath.IsAbs(path) {
					return path
				}
				return filepath.Join(dir, path)
			}
			written := func(path string) bool { return !strings.HasPrefix(path, "no/") && path != "/dev/full" }
			p, r := violating(t)
			r.trace, r.keep = at(c.trace), at(c.keep)
			var out, errs bytes.Buffer
			cmd := newSimRun()
			cmd.SetContext(t.Context())
			cmd.SetErr(&errs)
			if cmd.SetOut(&out); c.full {
				cmd.SetOut(full(t))
			}
			if code, tell := exit.Of(r.search(cmd, p)); code != exit.Safety || tell {
				t.Errorf("code %d, %t; want %d, and all told before", code, tell, exit.Safety)
			}
			failures := 0
			for _, path := range []string{c.trace, c.keep} {
				info, err := os.Stat(at(path))
				if !written(path) {
					failures++
				} else if err != nil || info.Size() == 0 {
					t.Errorf("%s: %v, empty or not there", path, err)
				}
			}
			if c.full {
				failures++
			} else if got := strings.Contains(out.String(), "\nkept "); got != written(c.keep) || got != strings.Contains(out.String(), "electlab sim replay --story") {
				t.Errorf("it says that it was kept: %t; want %t, in:\n%s", got, written(c.keep), &out)
			}
			if got := strings.Count(errs.String(), "no space left") + strings.Count(errs.String(), "no such file"); got != failures {
				t.Errorf("%d errors are told; want %d:\n%s", got, failures, &errs)
			}
			if written(c.keep) {
				if _, s, err := readSchedule(at(c.keep)); err != nil || s.Expected == nil || s.Expected.Invariant == "" {
					t.Errorf("kept was %+v, %v", s, err)
				}
			}
		})
	}
}

// TestToothless: if runs do not find a failure that they must find, that is as bad as a violation.
func TestToothless(t *testing.T) {
	p, err := protocolNamed("quorum")
	if err != nil {
		t.Fatal(err)
	}
	p.Expect = map[sim.Invariant]sim.Expectation{sim.NoStale: sim.MustFail}
	for _, c := range []struct {
		profile string
		seeds   uint64
		code    int
		says    string
	}{
		{"partitions", 200, exit.Safety, "must be found failing, and was not in 200 runs"},
		{"partitions", 2, exit.OK, "must be found failing by 200 seeds of profile partitions, and was not in 2 runs"},
		{"quiet", 200, exit.OK, "must be found failing by 200 seeds of profile partitions, and was not in 200 runs"},
	} {
		r := &simRun{options: sim.Options{Profile: c.profile, Faults: 1e8, Settle: -1}, seed: 1, seeds: c.seeds, jobs: 1, format: "table"}
		var out bytes.Buffer
		cmd := newSimRun()
		cmd.SetContext(t.Context())
		cmd.SetOut(&out)
		if code, _ := exit.Of(r.search(cmd, p)); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%d seeds of %s: code %d, and it says:\n%s", c.seeds, c.profile, code, &out)
		}
	}
}

// slow is a long schedule.
const slow = `{
  "format": 1, "protocol": "quorum", "seed": 1, "nodes": 3, "faults": 4000000000000,
  "links": {"delay": 500000}, "disks": {"sync": 500000}, "work": {"every": 50000000}, "ops": []
}`

// TestInterrupted: an interrupted run reports how far it has come.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "slow.json")
	if err := os.WriteFile(path, []byte(slow), 0o666); err != nil {
		t.Fatal(err)
	}
	traced := filepath.Join(dir, "slow.ndjson")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		args []string
		want string // on stdout
	}{
		{[]string{"replay", path}, "\ninterrupted: at event 4096\n"},
		{[]string{"replay", "-o", "json", path}, `"events":4096,`},
		{[]string{"replay", "--story", path}, "The trace has no end; nothing was violated so far."},
		{[]string{"replay", "--story", path}, "\ninterrupted: at event 4096\n"},
		{[]string{"replay", "--trace", traced, path}, "\ninterrupted: at event 4096\n"},
		{[]string{"shrink", path}, ""},
		{[]string{"run", "--seed", "1"}, "\ninterrupted "},
	} {
		var out, errs bytes.Buffer
		root := newRoot()
		root.SetArgs(append([]string{"sim"}, c.args...))
		root.SetOut(&out)
		root.SetErr(&errs)
		err := root.ExecuteContext(ctx)
		if code, _ := exit.Of(err); code != 130 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: code %d, %v\n%s%s", c.args, code, err, &out, &errs)
		}
		if c.args[0] == "shrink" && !strings.Contains(err.Error(), "interrupted at event 4096") {
			t.Errorf("shrink: %v", err)
		}
	}
	if text, err := os.ReadFile(traced); err != nil || bytes.Count(text, []byte("\n")) < 1000 || bytes.Contains(text, []byte(`"kind":"end"`)) {
		t.Errorf("the trace has %d bytes, %v; want what was run, and no end", len(text), err)
	}
}

// fuse is a context that ends after a number of looks at it.
type fuse struct {
	context.Context
	left atomic.Int64
}

func (f *fuse) Err() error {
	if f.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterruptedHunt: of a single interrupted run, the part until then counts; of many, the
// finished ones do.
func TestInterruptedHunt(t *testing.T) {
	p, err := protocolNamed("quorum")
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range []uint64{1, 2} {
		ctx := &fuse{Context: t.Context()}
		ctx.left.Store(3)
		h := &hunt{protocol: p, options: sim.Options{Profile: "quiet", Faults: 1e13}, first: 1<<64 - 2, count: count, jobs: 1}
		if err := h.run(ctx); err != nil {
			t.Fatal(err)
		}
		if got := h.tally.cut != nil; got != (count == 1) || h.tally.runs > 0 || got != (h.tally.events == 3<<14) {
			t.Errorf("%d runs: %+v", count, h.tally)
		}
	}
}

// TestGreatestSeed: the greatest seed works like any other.
func TestGreatestSeed(t *testing.T) {
	p, err := protocolNamed("quorum")
	if err != nil {
		t.Fatal(err)
	}
	h := &hunt{protocol: p, options: sim.Options{Profile: "quiet", Faults: 1e9}, first: 1<<64 - 2, count: 2, jobs: 2}
	if err := h.run(t.Context()); err != nil || h.tally.runs != 2 {
		t.Errorf("%d runs, %v; want 2", h.tally.runs, err)
	}
}
