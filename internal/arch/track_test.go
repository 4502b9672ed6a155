package arch

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTrackRecordNamesWhatExists holds docs/track-record.md to the code, as
// docs/evidence.md is, and to the history: each commit that it names is an ancestor
// of this one. The page names each schedule that is replayed and is not a mutant's.
func TestTrackRecordNamesWhatExists(t *testing.T) {
	e := collect(t)
	page := e.read(t, "docs/track-record.md")
	if looked := e.lookUp(t, page); looked < 120 {
		t.Errorf("only %d names were looked up; the page or this test has lost its form", looked)
	}
	paths, err := filepath.Glob(filepath.Join(e.root, schedules, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no schedules: %v", err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		rule := protocols.ReplaceAllString(strings.TrimSuffix(name, ".json"), "")
		if !slices.Contains(e.mutants, rule) && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not have %s: what was found by it?", name)
		}
	}
	var commits []string
	for _, cell := range names(`(?m)^\| .* \| ([0-9a-f, ]+) \| .* \|$`, page) {
		commits = append(commits, strings.Split(cell, ", ")...)
	}
	if len(commits) < 40 {
		t.Errorf("only %d commits were found; the page or this test has lost its form", len(commits))
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", e.root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		t.Logf("SKIPPED: no commit was looked up, because the history is not here (shallow: %q, %v)", shallow, err)
		return
	}
	for _, c := range commits {
		if _, err := git("merge-base", "--is-ancestor", c, "HEAD"); err != nil {
			t.Errorf("commit %s is none that has led here: %v", c, err)
		}
	}
}

// protocols is what names of schedules begin with.
var protocols = regexp.MustCompile(`^(?:quorum|lease|queue-zookeeper|queue)-`)
