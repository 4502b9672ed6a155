package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// evidence is what stands behind a promise: what the pages of docs/ may name.
type evidence struct {
	root string

	tests     map[string][]string // with the directories that they are in; fuzz targets, too
	mutants   []string            // of all protocols, and of real programs
	ofQuorum  []string            // mutants of the quorum protocol
	simulated []string            // invariants of the simulator
	checked   []string            // invariants of the checker
	situation []string
	scenarios []string // of the simulator
	models    []string
	switches  []string // of the models' mutants
}

// collect reads it from the code, and fails where it finds less than there is.
func collect(t *testing.T) *evidence {
	t.Helper()
	e := &evidence{root: filepath.Join("..", "..")}
	e.tests = declared(t, e.root)
	teeth := e.read(t, "docs/teeth.md")
	e.mutants = names(`(?m)^\| ([a-z-]+) \| (?:[A-Z]+[0-9]+|links) \|`, teeth)
	_, quorum, _ := strings.Cut(teeth, "\n## quorum\n")
	quorum, _, _ = strings.Cut(quorum, "\n## ")
	e.ofQuorum = names(`(?m)^\| ([a-z-]+) \| (?:R[0-9]+|links) \|`, quorum)
	e.simulated = names(`(?m)Invariant = "([a-z-]+)"`, e.read(t, "lab/sim/protocol.go"))
	e.checked = names(`(?m)Invariant = "([a-z-]+)"`, e.read(t, "lab/check/judge.go"))
	told := e.read(t, "internal/protocol/quorum/mutants.go")
	for _, constant := range names(`(?m)Invariant = quorum\.([A-Za-z]+)$`, e.read(t, "lab/check/judge.go")) {
		e.checked = append(e.checked, names(`(?m)^\t`+constant+` += "([a-z-]+)"`, told)...)
	}
	e.situation = names(`(?m)^\tSaw[A-Za-z]+: +\{"([a-z-]+)"`, e.read(t, "lab/sim/sometimes.go"))
	e.scenarios = names(`(?m)^### ([a-z0-9-]+)$`, e.read(t, "docs/scenarios.md")) // a test there holds it to the code
	e.models, e.switches = modelled(t, filepath.Join(e.root, "lab", "check", "spin"))
	for what, n := range map[string]int{
		"tests": len(e.tests) / 100, "mutants": len(e.mutants) / 80, "mutants of quorum": len(e.ofQuorum) / 45,
		"invariants of the simulator": len(e.simulated) / 19, "invariants of the checker": len(e.checked) / 14,
		"situations": len(e.situation) / 50, "scenarios": len(e.scenarios) / 30, "models": len(e.models) / 4, "switches": len(e.switches) / 25,
	} {
		if n == 0 {
			t.Fatalf("these cannot be all %s", what)
		}
	}
	e.mutants = append(e.mutants, names(`(?m)^\t[A-Z][A-Za-z]+ += "([a-z-]+)"`, e.read(t, "internal/mutation/doc.go"))...)
	return e
}

func (e *evidence) read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lookUp looks up each name in backquotes on a page, and returns how many they
// were. A name counts for what stands before it in its row or paragraph: a test is
// one of the package that is named last, and so is a file in testdata/.
func (e *evidence) lookUp(t *testing.T, page string) (looked int) {
	t.Helper()
	pkg := ""
	for line := range strings.Lines(page) {
		kind, isRow := strings.CutPrefix(line, "| ")
		kind, _, _ = strings.Cut(kind, " |")
		kind, _, _ = strings.Cut(kind, ",")
		known := map[string][]string{"mutants": e.mutants, "invariants": e.simulated, "situations": e.situation, "checker": e.checked}[kind]
		if !isRow || known == nil {
			known = slices.Concat(e.mutants, e.simulated, e.situation, e.checked, e.scenarios)
		}
		if isRow || line == "\n" {
			pkg = "" // it is said anew in each row and paragraph
		}
		for _, name := range names("`([^`]+)`", line) {
			dir, err := os.Stat(filepath.Join(e.root, name))
			test, sub, isSub := strings.Cut(name, "/")
			switch {
			case testName.MatchString(test):
				looked++
				if dirs := e.tests[test]; pkg == "" || !slices.Contains(dirs, pkg) {
					t.Errorf("%s is not in package %q; it is in %q", test, pkg, dirs)
				} else if isSub {
					e.lookUpSub(t, pkg, test, sub)
				}
			case name == "elect": // the root
				pkg = "."
			case err == nil && dir.IsDir():
				pkg = name
			case err == nil:
				looked++
			case strings.HasPrefix(name, "testdata/"):
				looked++
				if _, err := os.Stat(filepath.Join(e.root, pkg, name)); pkg == "" || err != nil {
					t.Errorf("there is no %s in package %q", name, pkg)
				}
			case strings.HasSuffix(name, ".json"):
				looked++
				if _, err := os.Stat(filepath.Join(e.root, schedules, name)); err != nil {
					t.Errorf("there is no schedule %s", name)
				}
			case strings.HasSuffix(name, ".pml"):
				looked++
				if !slices.Contains(e.models, name) {
					t.Errorf("there is no model %s", name)
				}
			case regexp.MustCompile(`^[A-Z][A-Z_]+$`).MatchString(name):
				looked++
				if !slices.Contains(e.switches, name) {
					t.Errorf("there is no switch %s of a model", name)
				}
			case regexp.MustCompile(`^[a-z]+(?:-[a-z0-9]+)+$`).MatchString(name), isRow && named[kind] && regexp.MustCompile(`^[a-z]+$`).MatchString(name):
				looked++
				if !slices.Contains(known, name) {
					t.Errorf("%s: there is no %s", kind, name)
				}
			}
		}
	}
	return looked
}

// schedules is where those are that the simulator replays.
const schedules = "lab/sim/testdata/schedules"

var testName = regexp.MustCompile(`^(?:Test|Fuzz)[A-Za-z0-9]+$`)

// lookUpSub looks up a subtest: each part of its name is a string in the tests of
// the package, or the whole of it is an entry of a fuzz target's corpus.
func (e *evidence) lookUpSub(t *testing.T, pkg, test, sub string) {
	t.Helper()
	dir := filepath.Join(e.root, pkg)
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	if _, err := os.Stat(filepath.Join(dir, "testdata", "fuzz", test, sub)); err == nil {
		return
	}
	for part := range strings.SplitSeq(sub, "/") {
		spaced := strings.ReplaceAll(part, "_", " ") // as go test prints it
		if !strings.Contains(code.String(), `"`+part+`"`) && !strings.Contains(code.String(), `"`+spaced+`"`) {
			t.Errorf("%s: %s has no subtest %q", pkg, test, part)
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
			for _, name := range names(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`, string(text)) {
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
