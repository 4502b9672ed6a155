//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/terminal"
)

// The terminal's own words for a picture that begins and one that is over.
const (
	pictureBegins = "\x1b[?1049h\x1b[?25l"
	pictureEnds   = "\x1b[?25h\x1b[?1049l"
)

// TestTyped: after go run there is no elect in PATH to go on with.
func TestTyped(t *testing.T) {
	const run = "go run ./cmd/elect"
	for program, want := range map[string]string{
		"/home/u/go/bin/elect":                                 "elect",
		"/usr/bin/elect":                                       "elect",
		"/tmp/go-build3032320054/b001/elect.test":              "elect",
		"/home/u/go-build/elect":                               "elect",
		"/tmp/go-build3032320054/b001/exe/elect":               run,
		"/tmp/c/23/" + strings.Repeat("a5", 32) + "-d/elect":   run,
		"/home/u/.cache/" + strings.Repeat("a", 64) + "/elect": "elect",
	} {
		if got := typed(program); got != want {
			t.Errorf("%s is called by %q; want %q", program, got, want)
		}
	}
}

// demoScreen starts the demo on a terminal on which a picture can be shown.
func demoScreen(t *testing.T, more ...string) (s *screen, dir string) {
	t.Helper()
	long.Test(t, "the demo takes seconds")
	env := append(environment(t), "TERM=xterm", "LANG=C.UTF-8")
	dir = t.TempDir()
	env = append(env, "TMPDIR="+dir)
	s = open(t, append(env, more...), "elect", "demo")
	s.Resize(40, 120)
	return s, dir
}

// expectNothingIn wants the demo's directory to be gone.
func expectNothingIn(t *testing.T, dir string) {
	t.Helper()
	if !eventually(func() bool {
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		return len(left) == 0
	}) {
		t.Error("the demo's directory was left")
	}
}

// A person looks on, kills who leads, resizes the terminal, and quits.
func TestDemoOnTerminal(t *testing.T) {
	s, dir := demoScreen(t)
	s.Expect(pictureBegins)
	s.Expect("LEADS")
	s.Type("r")
	s.Expect("was asked to resign. It ended its job")
	s.Type("?")
	s.Expect("What you see")
	s.Type(" ")
	s.Resize(15, 50)
	s.Expect("This terminal is 50 x 15")
	s.Type("q")
	s.Expect(pictureEnds)
	s.Expect("Two jobs at the same time: ")
	s.Expect("0 times")
	s.expectEnd("0")
	expectNothingIn(t, dir)
}

func TestDemoWithoutColour(t *testing.T) {
	s, _ := demoScreen(t, "NO_COLOR=1")
	s.Expect("LEADS")
	s.Type("q")
	s.Expect(pictureEnds)
	s.expectEnd("0")
	if colours := regexp.MustCompile(`\x1b\[[0-9;]*[1-9][0-9;]*m`).FindAllString(s.Text(), -1); colours != nil {
		t.Errorf("it has colours although NO_COLOR is set: %q", colours)
	}
}

// The terminal is given back however the demo ends, and nothing is left.
func TestDemoEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *screen) error
		want string
	}{
		"Ctrl-C":  {func(s *screen) error { s.Type(terminal.CtrlC); return nil }, "130"},
		"SIGTERM": {func(s *screen) error { return s.Cmd.Process.Signal(syscall.SIGTERM) }, "143"},
		"SIGKILL": {func(s *screen) error { return s.Cmd.Process.Kill() }, "KILL"},
		"SIGABRT": {func(s *screen) error { return s.Cmd.Process.Signal(syscall.SIGABRT) }, "2"}, // as a panic of a goroutine ends it
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := demoScreen(t)
			s.Expect("LEADS")
			before := len(s.Text())
			if err := c.end(s); err != nil {
				t.Fatal(err)
			}
			s.expectEnd(c.want)
			if !eventually(func() bool { return strings.Contains(s.Text()[before:], pictureEnds) }) {
				t.Error("the terminal was not given back")
			}
			expectNothingIn(t, dir)
		})
	}
}

// Without a terminal to type on there is no picture: the script is played.
func TestDemoWithoutKeyboard(t *testing.T) {
	env := append(environment(t), "TERM=xterm", "TMPDIR="+t.TempDir())
	s := open(t, env, "sh", "-c", "exec elect demo --pause 1h </dev/null")
	s.Expect("was elected with token")
	if strings.Contains(s.Text(), pictureBegins) {
		t.Error("a picture is shown to somebody who has no keys")
	}
	s.Type(terminal.CtrlC)
	s.expectEnd("130")
}

// A reader that has seen enough ends the demo, and nothing is left.
func TestDemoPipeCloses(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "elect demo --pause 1h | head -n 1")
	cmd.Env = append(environment(t), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "Three nodes run on this machine") {
		t.Errorf("%v: %q", err, out)
	}
	expectNothingIn(t, dir)
}
