package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// echo answers with the command's parts.
func echo(c Command) string {
	return strings.Join(c.Args, " ") + "|" + c.Get("k", "none") + "\n" + c.Input
}

const story = `# A comment stays.

say hello k=v
input
----
hello k=v|v
input

say
----
|none
`

func TestReplay(t *testing.T) {
	actual, diffs, err := replay(story, echo)
	if err != nil || len(diffs) > 0 || actual != story {
		t.Errorf("got %q, differences %q, error %v", actual, diffs, err)
	}

	wrong := strings.Replace(story, "hello k=v|v", "hullo", 1)
	actual, diffs, err = replay(wrong, echo)
	if err != nil || actual != story {
		t.Errorf("rewritten: got %q, error %v", actual, err)
	}
	if len(diffs) != 1 || !strings.Contains(diffs[0], "- hullo") || !strings.Contains(diffs[0], "+ hello k=v|v") || !strings.HasPrefix(diffs[0], "3: ") {
		t.Errorf("differences %q; want one at line 3 that shows both", diffs)
	}
}

func TestMalformed(t *testing.T) {
	for _, text := range []string{"say\n", "say\n\n----\n"} {
		if _, _, err := replay(text, echo); err == nil || !strings.Contains(err.Error(), "no ----") {
			t.Errorf("%q: error %v; want that ---- is missing", text, err)
		}
	}
	for _, out := range []string{"a\n\nb", "\nb", "a\n\n"} {
		if _, _, err := replay("say\n----\n", func(Command) string { return out }); err == nil {
			t.Errorf("an output of %q was accepted", out)
		}
	}
}

func TestRewrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "story.txt")
	if err := os.WriteFile(file, []byte("say x\n----\nwrong\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	Run(t, file, true, func(*testing.T) func(Command) string { return echo })
	Run(t, file, false, func(*testing.T) func(Command) string { return echo })
	if got, err := os.ReadFile(file); err != nil || string(got) != "say x\n----\nx|none\n" {
		t.Errorf("rewritten to %q, error %v", got, err)
	}
}
