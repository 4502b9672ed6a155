package scenario

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the generated part of docs/scenarios.md")

const (
	documentPath = "../../../docs/scenarios.md"
	documentMark = "<!-- From here on it is generated: go test ./lab/sim/scenario -run TestScenarios -rewrite -->\n"
)

// document is the generated part of docs/scenarios.md.
func document(reports map[string]*Report) string {
	var b bytes.Buffer
	for _, s := range All() {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", s.Name, s.Says)
		if s.Source != "" {
			fmt.Fprintf(&b, "Source: %s.\n", s.Source)
		}
		names := s.Protocols()
		if s.seeds > 1 {
			fmt.Fprintf(&b, "%d seeds.\n", s.seeds)
		}
		fmt.Fprint(&b, "\n| expected | outcome |\n|---|---|\n")
		first := func(p part) int {
			return slices.IndexFunc(names, func(name string) bool { return slices.Contains(p.on, name) })
		}
		slices.SortFunc(s.parts, func(a, b part) int { return first(a) - first(b) })
		for i := range s.parts {
			var outcomes []string
			by := map[string][]string{}
			for _, p := range names {
				if s.part(p) != &s.parts[i] {
					continue
				}
				outcome := reports[s.Name+"/"+p].Outcome
				if by[outcome] == nil {
					outcomes = append(outcomes, outcome)
				}
				by[outcome] = append(by[outcome], "`"+p+"`")
			}
			same, differ := common(outcomes)
			for k, o := range outcomes {
				outcomes[k] = strings.Join(by[o], " ") + ": " + differ[k]
			}
			if same != "" {
				outcomes = slices.Insert(outcomes, 0, same)
			}
			fmt.Fprintf(&b, "| %s | %s |\n", s.parts[i].expected, strings.Join(outcomes, "<br>"))
		}
	}
	return b.String()
}

// ranges are figures such as "152ms (119ms–239ms)" and "10 to 14", which count as one word.
var ranges = regexp.MustCompile(`\S+ \(\S+–\S+\)|\d+ to \d+`)

// common is what several outcomes have in common, with … for each word in which they differ, and
// those words of each. It is empty if they differ in their length, and then each is told as it is.
func common(outcomes []string) (same string, differ []string) {
	const joint = "\u00a0"
	var words [][]string
	for _, o := range outcomes {
		o = ranges.ReplaceAllStringFunc(strings.TrimSuffix(o, "."), func(text string) string { return strings.ReplaceAll(text, " ", joint) })
		words = append(words, strings.Split(o, " "))
		differ = append(differ, strings.Join(words[len(words)-1], " "))
	}
	if len(words) > 1 && !slices.ContainsFunc(words, func(w []string) bool { return len(w) != len(words[0]) }) {
		own := make([][]string, len(words))
		var all []string
		for i, first := range words[0] {
			if !slices.ContainsFunc(words, func(w []string) bool { return w[i] != first }) {
				all = append(all, first)
				continue
			}
			bare := strings.TrimRight(first, ",;")
			all = append(all, "…"+first[len(bare):])
			for k, w := range words {
				own[k] = append(own[k], strings.TrimRight(w[i], ",;"))
			}
		}
		same = strings.Join(all, " ")
		for k := range own {
			differ[k] = strings.Join(own[k], ", ")
		}
	}
	for k := range differ {
		differ[k] = strings.ReplaceAll(differ[k], joint, " ")
	}
	return strings.ReplaceAll(same, joint, " "), differ
}

// testDocument holds docs/scenarios.md to the outcomes of the scenarios.
func testDocument(t *testing.T, reports map[string]*Report) {
	for _, s := range All() {
		for _, p := range s.Protocols() {
			if reports[s.Name+"/"+p] == nil {
				t.Skip("not all of them were run")
			}
		}
	}
	text, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	head, generated, ok := strings.Cut(string(text), documentMark)
	if !ok {
		t.Fatalf("%s has no line %q", documentPath, documentMark)
	}
	want := document(reports)
	if *rewrite {
		if err := os.WriteFile(documentPath, []byte(head+documentMark+want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, expected := strings.Split(generated, "\n"), strings.Split(want, "\n")
	for i := range max(len(got), len(expected)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(expected) {
			w = expected[i]
		}
		if g != w {
			t.Fatalf("the document has\n%s\nwant\n%s", g, w)
		}
	}
}
