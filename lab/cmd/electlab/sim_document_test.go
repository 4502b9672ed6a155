package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/race"
)

// TestDocumentHasTheRuns: the output of a hundred seeds and of the slow clock in docs/simulator.md
// is current, except for the time that it takes. When the machines or the world have changed, put
// in what the commands print now.
func TestDocumentHasTheRuns(t *testing.T) {
	if race.Enabled {
		t.Skip("the hundred seeds take too long under the race detector")
	}
	text, err := os.ReadFile("../../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	between := func(from, to string) string {
		_, text, ok := strings.Cut(string(text), from)
		text, _, closed := strings.Cut(text, to)
		if !ok || !closed {
			t.Fatalf("the document has nothing between %q and %q", from, to)
		}
		return text
	}
	took := regexp.MustCompile(` in [0-9.]+ s: [0-9,]+ a second`)
	want := took.ReplaceAllString(between("$ electlab sim run --seeds 100\n", "```"), "")
	_, out := runSim(t, "run", "--seeds", "100")
	if got := took.ReplaceAllString(out, ""); got != want {
		t.Errorf("electlab sim run --seeds 100 prints\n%s\nand the document has\n%s", got, want)
	}

	path := filepath.Join(t.TempDir(), "slow-clock.json")
	if err := os.WriteFile(path, []byte(between("```json\n", "```")), 0o666); err != nil {
		t.Fatal(err)
	}
	code, out := runSim(t, "replay", "--story", path)
	if code != exit.Safety {
		t.Errorf("the slow clock ends with %d", code)
	}
	for line := range strings.Lines(between("                    ⋮\n", "$ echo $?")) {
		line, cut := strings.CutSuffix(strings.TrimSuffix(line, "\n"), "…") // cut at 150 columns
		if !strings.Contains("\n"+out, "\n"+line) || !cut && !strings.Contains(out, line+"\n") {
			t.Errorf("the story of the slow clock does not have the document's line\n%s", line)
		}
	}
}

// TestDocumentHasTheCounts: the counts of messages in docs/protocols.md are current.
func TestDocumentHasTheCounts(t *testing.T) {
	text, err := os.ReadFile("../../../docs/protocols.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "$ electlab sim count ")
	line, block, _ := strings.Cut(block, "\n")
	block, _, closed := strings.Cut(block, "```")
	if !ok || !closed {
		t.Fatal("the document has no counts")
	}
	code, out := runSim(t, append([]string{"count"}, strings.Fields(line)...)...)
	var got strings.Builder
	for line := range strings.Lines(out) {
		got.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if code != exit.OK || got.String() != block {
		t.Errorf("electlab sim count %s ends with %d and prints\n%s\nand the document has\n%s", line, code, got.String(), block)
	}
}

// TestDocumentHasTheComparison: the comparison in docs/protocols.md was made with the present
// machines. Its ten thousand seeds take minutes, so the page names the result of the first hundred.
func TestDocumentHasTheComparison(t *testing.T) {
	if race.Enabled {
		t.Skip("the hundred seeds take too long under the race detector")
	}
	text, err := os.ReadFile("../../../docs/protocols.md")
	if err != nil {
		t.Fatal(err)
	}
	_, was, _ := strings.Cut(string(text), "<!-- Of these seeds the first 100 come to ")
	was, _, ok := strings.Cut(was, " -->")
	if !ok {
		t.Fatal("the document does not say what the first seeds of its comparison come to")
	}
	code, out := runSim(t, "compare", "--seeds", "100", "-o", "json")
	if now := fmt.Sprintf("%x", sha256.Sum256([]byte(out)))[:16]; code != exit.OK || now != was {
		t.Errorf("electlab sim compare --seeds 100 -o json ends with %d and comes to %s; the comparison in docs/protocols.md is of machines that came to %s. "+
			"Run it again, and what is said below it, put in what they print, and %[2]s", code, now, was)
	}
}

// runSim runs electlab sim, and returns its exit code and its answer.
func runSim(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"sim"}, args...))
	root.SetOut(&out)
	root.SetErr(&errs)
	code, _ := exit.Of(root.ExecuteContext(t.Context()))
	return code, out.String()
}
