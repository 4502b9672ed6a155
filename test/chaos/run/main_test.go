//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/storm"
)

// say runs the program.
func say(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, trouble bytes.Buffer
	code = run(t.Context(), args, &out, &trouble)
	return code, out.String(), trouble.String()
}

func TestUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "schedule.json")
	if err := os.WriteFile(bad, []byte(`{"format": 3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-x"}, "not defined"},
		{[]string{"-for", "soon"}, "invalid value"},
		{[]string{"-for", "1s"}, "10 promises"},
		{[]string{"-setup", "x"}, "no setup"},
		{[]string{"-network", "x"}, "no network"},
		{[]string{"-faults", "kill-node,x"}, `no fault "x"`},
		{[]string{"-setup", "file", "-faults", "halves"}, "among peers"},
		{[]string{"-faults", "kill-node, x"}, "--list"},
		{[]string{"-faults", " , "}, "want names"},
		{[]string{"-for", "60"}, "want a time such as 60s"},
		{[]string{"-for", "0"}, "want a time above 0"},
		{[]string{"-mutant", "nosuch"}, "late-kill"},
		{[]string{"-setup", "file", "-network", "proxies"}, "has no network"},
		{[]string{"-setup", "group-x"}, "group-file"},
		{[]string{"-setup", "group-file", "-network", "proxies"}, "want no NETWORK"},
		{[]string{"-setup", "group-file", "-faults", "kill-node"}, "kill-coordinator"},
		{[]string{"-seed", "3", bad}, "SEED and a schedule"},
		{[]string{"-for", "1m", bad}, "FOR and a schedule"},
		{[]string{"-setup", "file", bad}, "SETUP and a schedule"},
		{[]string{"-network", "proxies", bad}, "NETWORK and a schedule"},
		{[]string{"-faults", "halves", bad}, "FAULTS and a schedule"},
		{[]string{"a", "b"}, "at most one"},
		{[]string{"-list", "a"}, "at most one"},
		{[]string{bad}, "format 3"},
		{[]string{bad + ".not"}, "no such file"},
	} {
		if code, out, trouble := say(t, c.args...); code != codeUsage || out != "" || !strings.Contains(trouble, c.want) {
			t.Errorf("%q: %d, %q, %q; want %d and %q", c.args, code, out, trouble, codeUsage, c.want)
		}
	}
	if code, _, help := say(t, "-h"); code != codeClean || !strings.Contains(help, "-setup") {
		t.Errorf("-h: %d, %s", code, help)
	}
}

// TestFaultsAreTrimmed: spaces and empty items between commas are no names.
func TestFaultsAreTrimmed(t *testing.T) {
	f, _, err := parse([]string{"-faults", " halves, ,reset ,"}, io.Discard)
	if err != nil || !slices.Equal(f.options.Faults, []string{"halves", "reset"}) {
		t.Errorf("%q, %v", f.options.Faults, err)
	}
}

// TestInterruptedAtOnce: a storm that is ended before its first fault says that nothing was judged,
// and of no violations that there are not.
func TestInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, trouble bytes.Buffer
	dir := filepath.Join(t.TempDir(), "run")
	code := run(ctx, []string{"-setup", "file", "-seed", "6", "-dir", dir}, &out, &trouble)
	if code != codeInterrupted || !strings.Contains(out.String(), "nothing was judged") || !strings.Contains(out.String(), "building the programs…\n") || strings.Contains(out.String(), "violations") {
		t.Errorf("%d\n%s%s", code, &out, &trouble)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory: %v; want none", err)
	}
}

func TestList(t *testing.T) {
	code, out, _ := say(t, "--list")
	if code != codeClean {
		t.Error(code)
	}
	for _, f := range storm.Faults() {
		if !strings.Contains(out, "  "+f.Name+" ") || !strings.Contains(out, f.Text) {
			t.Errorf("%s is not listed", f.Name)
		}
	}
	for _, s := range storm.Setups() {
		if !strings.Contains(out, s.Name) {
			t.Errorf("%s is not listed", s.Name)
		}
	}
}

func TestJudgeNothing(t *testing.T) {
	if code, _, trouble := say(t, "-judge", t.TempDir()); code != codeHarness || trouble == "" {
		t.Errorf("%d, %q", code, trouble)
	}
}

// TestCommand: the printed command that repeats a storm is one that make knows.
func TestCommand(t *testing.T) {
	long.Test(t, "it breaks a cluster of real processes")
	text, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	o := storm.Options{Seed: 7, For: 60e9, Setup: "peers-fast", Network: "proxies", Faults: []string{"halves", "reset"}, Mutant: "late-kill"}
	got := command(o, "")
	if want := "make chaos SEED=7 FOR=1m0s SETUP=peers-fast NETWORK=proxies FAULTS=halves,reset MUTANT=late-kill"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	for _, word := range strings.Fields(got)[2:] {
		name, _, _ := strings.Cut(word, "=")
		flag := strings.ToLower(name)
		if !strings.Contains(string(text), "$(if $("+name+"),-"+flag+" '$("+name+")')") {
			t.Errorf("make does not hand on %s", name)
		}
	}
	// A given schedule is not that of any seed.
	if got, want := command(o, "kept/schedule.json"), "make chaos SCHEDULE=kept/schedule.json MUTANT=late-kill"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	if !strings.Contains(string(text), "$(SCHEDULE)") {
		t.Error("make does not hand on SCHEDULE")
	}
}

// TestOverdue: each time that is too long is listed, with its faults, and no other.
func TestOverdue(t *testing.T) {
	const second = int64(time.Second)
	report := judge.Report{From: 5 * second, Leaderless: []judge.Leaderless{
		{From: 65 * second, Length: 4 * time.Second, Set: []int{0, 1}, During: []string{"halves", "starve"}},
		{From: 9 * second, Length: 3001 * time.Millisecond, Set: []int{1, 2}, After: "reset", Since: time.Millisecond},
		{From: 7 * second, Length: 3 * time.Second, Set: []int{1, 2}, During: []string{"apart"}},
	}}
	var out bytes.Buffer
	overdue(&out, &report, promise(storm.Options{Setup: "peers-lan"}))
	for _, want := range []string{"overdue       2 times", "more than 3 promises, 3s", "  at 1m0s: 4s", "n1 n2", "during halves, starve", "  at 4s: 3.001s", "after reset"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "apart") {
		t.Errorf("three promises are not too long:\n%s", &out)
	}
	if got := promise(storm.Options{Setup: "peers-lan", Schedule: &storm.Schedule{Promise: time.Minute}}); got != time.Minute {
		t.Errorf("a schedule has its own promise, and it says %v", got)
	}
}

// runs runs a program, and returns how it ended. While it runs, look gets each line of its stdout.
func runs(t *testing.T, look func(line string, p *os.Process), program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out strings.Builder
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		out.WriteString(lines.Text() + "\n")
		if look != nil {
			look(lines.Text(), cmd.Process)
		}
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("%v: %s%s", err, out.String(), trouble.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), trouble.String()
}

// TestProgram runs the program as people do: each exit code occurs, and the output beside it is
// right.
func TestProgram(t *testing.T) {
	long.Test(t, "it breaks a cluster of real processes")
	dir := t.TempDir()
	program := harness.Build(t, "../run")
	want := func(code, wanted int, out, trouble string, words ...string) {
		t.Helper()
		if code != wanted {
			t.Errorf("exit code %d; want %d: %s%s", code, wanted, out, trouble)
		}
		for _, w := range words {
			if !strings.Contains(out+trouble, w) {
				t.Errorf("it does not say %q: %s%s", w, out, trouble)
			}
		}
	}
	code, out, trouble := runs(t, nil, program, "-faults", "nonsense")
	want(code, codeUsage, out, trouble, `no fault "nonsense"`)
	code, out, trouble = runs(t, nil, program, "-list")
	want(code, codeClean, out, trouble, "setups:", "faults:")

	// Interrupted, when there is something to judge. The directory is kept, because
	// that was asked for.
	kept := filepath.Join(dir, "kept")
	var once sync.Once // a second one would not wait
	interrupt := func(line string, p *os.Process) {
		if strings.Contains(line, " faults, ") {
			once.Do(func() { _ = p.Signal(os.Interrupt) }) // one that has ended was not interrupted, which its code says
		}
	}
	code, out, trouble = runs(t, interrupt, program, "-setup", "file", "-for", "1h", "-seed", "6", "-keep", "-dir", kept)
	want(code, codeInterrupted, out, trouble, "again: make chaos SEED=6 FOR=1h0m0s SETUP=file\n", "violations    none\n", "the run is kept in "+kept)
	for _, file := range []string{storm.ScheduleFile, storm.ReportFile} {
		if _, err := os.Stat(filepath.Join(kept, file)); err != nil {
			t.Error(err)
		}
	}
	code, out, trouble = runs(t, nil, program, "-judge", kept)
	want(code, codeClean, out, trouble, "violations    none\n", "times without a leader for more than 3 promises, 600ms,")

	// The same directory again.
	code, out, trouble = runs(t, nil, program, "-setup", "file", "-dir", kept)
	want(code, codeHarness, out, trouble, "is not empty", "the harness failed")

	// To its end, with the programs that were built; nothing is left of it.
	programs := filepath.Join(kept, "bin", "this")
	o := storm.Options{
		Setup: "file", Seed: 6, For: 3 * time.Second, Dir: filepath.Join(dir, "whole"),
		Programs: cluster.Programs{Elect: filepath.Join(programs, "elect"), Worker: filepath.Join(programs, "worker")},
	}
	var said, wrong bytes.Buffer
	code = storms(t.Context(), o, "", false, &said, &wrong)
	want(code, codeClean, said.String(), wrong.String(), "file, seed 6, for 3s, in "+o.Dir, "violations    none\n", "\nfaults ", "load ")
	if _, err := os.Stat(o.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of a run in which nothing was broken: %v; want none", err)
	}

	// A broken promise: a node has reported an earlier term than before.
	h, err := judge.NewHistory(kept)
	if err != nil {
		t.Fatal(err)
	}
	h.Add(judge.Event{Kind: judge.Told, Node: 0, Term: 9})
	h.Add(judge.Event{Kind: judge.Told, Node: 0, Term: 8})
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, trouble = runs(t, nil, program, "-judge", kept)
	want(code, codeBroken, out, trouble, "violations    1: memory 1\n")
}
