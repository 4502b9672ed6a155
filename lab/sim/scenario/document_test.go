package scenario

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/lab/sim/protocols"
)

var rewrite = flag.Bool("rewrite", false, "write the generated parts of docs/scenarios.md and docs/unsafe-locks.md, and testdata/outcomes.txt")

const (
	documentPath = "../../../docs/scenarios.md"
	unsafePath   = "../../../docs/unsafe-locks.md"
	documentMark = "<!-- From here on it is generated: go test ./lab/sim/scenario -run TestDocument -rewrite -->\n"
	outcomesPath = "testdata/outcomes.txt"
)

// TestDocument: the generated part of docs/scenarios.md is what the scenarios say and expect.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	head, got, ok := strings.Cut(string(text), documentMark)
	if !ok {
		t.Fatalf("%s has no line %q", documentPath, documentMark)
	}
	want := document()
	if *rewrite {
		if err := os.WriteFile(documentPath, []byte(head+documentMark+want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s is not what the scenarios say; want go test ./lab/sim/scenario -run TestDocument -rewrite", documentPath)
	}
}

// TestUnsafeDocument: the steps of the scenarios that break naive locks are in docs/unsafe-locks.md, and what each
// protocol does in them.
func TestUnsafeDocument(t *testing.T) {
	read, err := os.ReadFile(unsafePath)
	if err != nil {
		t.Fatal(err)
	}
	text := string(read)
	for _, s := range naives() {
		begin, end := "<!-- "+s.Name+", generated: go test ./lab/sim/scenario -run TestUnsafeDocument -rewrite -->\n", "<!-- end -->\n"
		head, rest, ok := strings.Cut(text, begin)
		got, tail, closed := strings.Cut(rest, end)
		if !ok || !closed || len(s.Steps) == 0 {
			t.Fatalf("%s has no place for the %d steps of %s: no %q", unsafePath, len(s.Steps), s.Name, begin)
		}
		var want strings.Builder
		for i, step := range s.Steps {
			fmt.Fprintln(&want, wrapped(fmt.Sprintf("%d. %s", i+1, step), "   "))
		}
		want.WriteString("\n")
		for _, p := range s.parts {
			fmt.Fprintln(&want, wrapped("- "+families(p.on)+": "+p.expected, "  "))
		}
		if got != want.String() && !*rewrite {
			t.Errorf("%s is not what %s says; want go test ./lab/sim/scenario -run TestUnsafeDocument -rewrite", unsafePath, s.Name)
		}
		text = head + begin + want.String() + end + tail
	}
	if *rewrite {
		if err := os.WriteFile(unsafePath, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// document is the generated part of docs/scenarios.md.
func document() string {
	var b bytes.Buffer
	for _, s := range All() {
		says := s.Says
		if s.Source != "" {
			says += " Source: " + s.Source + "."
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", s.Name, wrapped(says, ""))
		names := s.Protocols()
		slices.SortFunc(s.parts, func(a, b part) int {
			first := func(p part) int {
				return slices.IndexFunc(names, func(name string) bool { return slices.Contains(p.on, name) })
			}
			return first(a) - first(b)
		})
		for i := range s.parts {
			var on []string
			for _, p := range names {
				if s.part(p) == &s.parts[i] {
					on = append(on, p)
				}
			}
			if i == 0 {
				b.WriteString("\n")
			}
			b.WriteString(wrapped("- "+families(on)+": "+s.parts[i].expected, "  ") + "\n")
		}
	}
	return b.String()
}

// families lists protocols, and raft* for raft and all of its variants.
func families(names []string) string {
	of := func(name string) string { name, _, _ = strings.Cut(name, "-"); return name }
	var all []string
	for i, name := range names {
		same := func(other string) bool { return of(other) == of(name) }
		variants := 0
		for _, p := range protocols.All() {
			if same(p.Name) {
				variants++
			}
		}
		switch n := len(slices.DeleteFunc(slices.Clone(names), func(other string) bool { return !same(other) })); {
		case variants <= 1 || n < variants: // the naive ones are no variants of one
			all = append(all, "`"+name+"`")
		case slices.IndexFunc(names, same) == i:
			all = append(all, "`"+of(name)+"*`")
		}
	}
	return strings.Join(all, " ")
}

// wrapped breaks a text into lines of at most 120 characters; all but the first begin with the indent.
func wrapped(text, indent string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Split(text, " ") {
		n := len([]rune(word))
		switch {
		case i == 0:
		case width+1+n > 120:
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}

// testOutcomes holds the outcomes of those that were run to testdata/outcomes.txt.
func testOutcomes(t *testing.T, reports map[string]*Report) {
	text, err := os.ReadFile(outcomesPath)
	if err != nil {
		t.Fatal(err)
	}
	head, recorded, ok := strings.Cut(string(text), "\n\n")
	if !ok {
		t.Fatalf("%s has no head", outcomesPath)
	}
	var all strings.Builder
	for _, s := range All() {
		for _, p := range s.Protocols() {
			r := reports[s.Name+"/"+p]
			if r == nil {
				if *rewrite {
					t.Fatalf("%s/%s was not run; want all of them to write %s", s.Name, p, outcomesPath)
				}
				continue
			}
			line := fmt.Sprintf("%s/%s, %d: %s\n", s.Name, p, r.Runs, r.Outcome)
			all.WriteString(line)
			if !*rewrite && !strings.Contains("\n"+recorded, "\n"+line) {
				t.Errorf("%s does not have\n%s", outcomesPath, line)
			}
		}
	}
	if *rewrite {
		if err := os.WriteFile(outcomesPath, []byte(head+"\n\n"+all.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
