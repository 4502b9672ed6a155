package sim_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/electd/elect/lab/sim"
)

// TestDocumentedCatalogue: docs/catalogue.md has every fault, profile and invariant,
// in the order and the words of the catalogue.
func TestDocumentedCatalogue(t *testing.T) {
	const path, begin, end = "../../docs/catalogue.md", "<!-- Generated: go test ./lab/sim -run TestDocumentedCatalogue -rewrite -->\n", "<!-- The end of it. -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has nothing between %q and %q", path, begin, end)
	}
	var b strings.Builder
	group := ""
	for _, f := range sim.Faults() {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n| %s | |\n|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Kind, f.Says)
	}
	b.WriteString("\n### Profiles\n\n| | |\n|---|---|\n")
	for _, p := range sim.Profiles() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Name, p.Says)
	}
	b.WriteString("\n### Invariants\n\n| | |\n|---|---|\n")
	for _, p := range sim.Promises() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Invariant, p.Says)
	}
	want := "\n### Faults\n" + b.String() + "\n"
	switch {
	case *rewrite:
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o666); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("%s is not the catalogue; run: go test ./lab/sim -run TestDocumentedCatalogue -rewrite", path)
	}
}
