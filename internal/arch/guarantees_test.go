package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGuaranteesNameWhatExists holds docs/guarantees.md to the code: each test,
// invariant and mutant that it names is there.
func TestGuaranteesNameWhatExists(t *testing.T) {
	root := filepath.Join("..", "..")
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("docs/guarantees.md")
	tests := declared(t, root)
	mutants := names(`(?m)^\| ([a-z-]+) \|`, read("docs/teeth.md"))
	invariants := names(`(?m)Invariant = "([a-z-]+)"`, read("sim/protocol.go"))
	if len(tests) < 100 || len(mutants) < 25 || len(invariants) < 10 {
		t.Fatalf("%d tests, %d mutants, %d invariants found; that cannot be all of them", len(tests), len(mutants), len(invariants))
	}
	looked := 0
	for _, name := range names("`(Test[A-Za-z]+)`", page) {
		looked++
		if !slices.Contains(tests, name) {
			t.Errorf("there is no %s", name)
		}
	}
	for line := range strings.Lines(page) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		kind, _, _ = strings.Cut(kind, ",")
		known := map[string][]string{"mutants": mutants, "invariants": invariants}[kind]
		if known == nil {
			continue
		}
		for _, name := range names("`([a-z]+(?:-[a-z]+)*)`", line) {
			looked++
			if !slices.Contains(known, name) && !slices.Contains(invariants, name) {
				t.Errorf("%s: there is no %s", kind, name)
			}
		}
	}
	if looked < 80 {
		t.Errorf("only %d names were looked up; the page or this test has lost its form", looked)
	}
}

// declared lists the tests of all modules.
func declared(t *testing.T, root string) []string {
	var all []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all = append(all, names(`(?m)^func (Test[A-Za-z]+)\(`, string(text))...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// names lists what the first group of a pattern finds.
func names(pattern, text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
