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
// invariant, situation, model and mutant that it names is there, a test in the
// package that stands before it. And the other way round: the page names each
// invariant, each situation, each model, and each mutant of the quorum protocol.
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
	teeth := read("docs/teeth.md")
	mutants := names(`(?m)^\| ([a-z-]+) \| [A-Z]+[0-9]+ \|`, teeth)
	_, quorum, _ := strings.Cut(teeth, "\n## quorum\n")
	quorum, _, _ = strings.Cut(quorum, "\n## ")
	ofQuorum := names(`(?m)^\| ([a-z-]+) \| R[0-9]+ \|`, quorum)
	simulated := names(`(?m)Invariant = "([a-z-]+)"`, read("sim/protocol.go"))
	checked := names(`(?m)Invariant = "([a-z-]+)"`, read("check/judge.go"))
	told := read("protocol/quorum/mutants.go")
	for _, constant := range names(`(?m)Invariant = quorum\.([A-Za-z]+)$`, read("check/judge.go")) {
		checked = append(checked, names(`(?m)^\t`+constant+` += "([a-z-]+)"`, told)...)
	}
	situations := names(`(?m)^\tSaw[A-Za-z]+: +\{"([a-z-]+)"`, read("sim/sometimes.go"))
	models, switches := modelled(t, filepath.Join(root, "check", "spin"))
	for what, n := range map[string]int{
		"tests": len(tests) / 100, "mutants": len(mutants) / 80, "mutants of quorum": len(ofQuorum) / 45, "invariants of the simulator": len(simulated) / 19,
		"invariants of the checker": len(checked) / 14, "situations": len(situations) / 50, "models": len(models) / 4, "switches": len(switches) / 25,
	} {
		if n == 0 {
			t.Fatalf("these cannot be all %s", what)
		}
	}

	looked, pkg := 0, ""
	for line := range strings.Lines(page) {
		kind, isRow := strings.CutPrefix(line, "| ")
		kind, _, _ = strings.Cut(kind, " |")
		kind, _, _ = strings.Cut(kind, ",")
		known := map[string][]string{"mutants": mutants, "invariants": simulated, "situations": situations, "checker": checked}[kind]
		if !isRow || known == nil {
			known = slices.Concat(mutants, simulated, situations, checked)
		}
		if isRow || line == "\n" {
			pkg = "" // it is said anew in each row and paragraph
		}
		for _, name := range names("`([^`]+)`", line) {
			_, err := os.Stat(filepath.Join(root, name))
			switch {
			case regexp.MustCompile(`^Test[A-Za-z]+$`).MatchString(name):
				looked++
				if dirs := tests[name]; pkg == "" || !slices.Contains(dirs, pkg) {
					t.Errorf("%s is not in package %q; it is in %q", name, pkg, dirs)
				}
			case name == "elect": // the root
				pkg = "."
			case err == nil:
				pkg = name
			case strings.HasSuffix(name, ".pml"):
				looked++
				if !slices.Contains(models, name) {
					t.Errorf("there is no model %s", name)
				}
			case regexp.MustCompile(`^[A-Z][A-Z_]+$`).MatchString(name):
				looked++
				if !slices.Contains(switches, name) {
					t.Errorf("there is no switch %s of a model", name)
				}
			case regexp.MustCompile(`^[a-z]+(?:-[a-z]+)+$`).MatchString(name), isRow && named[kind] && regexp.MustCompile(`^[a-z]+$`).MatchString(name):
				looked++
				if !slices.Contains(known, name) {
					t.Errorf("%s: there is no %s", kind, name)
				}
			}
		}
	}
	if looked < 250 {
		t.Errorf("only %d names were looked up; the page or this test has lost its form", looked)
	}

	for what, all := range map[string][]string{
		"mutant": ofQuorum, "invariant": slices.Concat(simulated, checked), "situation": situations, "model": models,
	} {
		for _, name := range all {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("the page does not have the %s %s: which guarantee does it stand behind?", what, name)
			}
		}
	}
}

// named are the rows that hold names and little else.
var named = map[string]bool{"mutants": true, "invariants": true, "situations": true, "checker": true}

// declared lists the tests of all modules, with the directories that they are in.
func declared(t *testing.T, root string) map[string][]string {
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			for _, name := range names(`(?m)^func (Test[A-Za-z]+)\(`, string(text)) {
				all[name] = append(all[name], filepath.ToSlash(dir))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// modelled lists the models in Promela, and the switches of their mutants.
func modelled(t *testing.T, dir string) (models, switches []string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.pml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		models = append(models, filepath.Base(path))
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md")) // a test there holds it to the models
	if err != nil {
		t.Fatal(err)
	}
	return models, names("(?m)^\\| [a-z]+ \\| `([A-Z_]+)` \\|", string(text))
}

// names lists what the first group of a pattern finds.
func names(pattern, text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
