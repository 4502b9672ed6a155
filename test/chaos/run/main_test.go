//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/internal/race"
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

// TestCommand: what is said to repeat a storm is what make knows.
func TestCommand(t *testing.T) {
	race.Alone(t)
	text, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	o := storm.Options{Seed: 7, For: 60e9, Setup: "peers-fast", Network: "proxies", Faults: []string{"halves", "reset"}, Mutant: "late-kill"}
	got := command(o)
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
}
