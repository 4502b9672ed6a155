package arch_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/electd/elect/internal/race"
)

func TestMain(m *testing.M) { os.Exit(race.Main(m)) }

// rule is one rule of the house. Its name is also that of its fixture.
type rule struct {
	name  string
	says  string
	todo  string
	check func(*tree, house) []finding
}

// finding is one place where a rule is broken.
type finding struct{ at, what string }

// lines writes findings as lines, in order.
func lines(found []finding) []string {
	var all []string
	for _, f := range found {
		all = append(all, f.at+": "+f.what)
	}
	slices.Sort(all)
	return all
}

var rules = []rule{
	{
		name:  "directions",
		says:  "dependencies point downwards only",
		todo:  "move the code to where it may be, or pass what it needs in from above; only if the house itself changes, change tables_test.go and ARCHITECTURE.md together",
		check: directions,
	},
	{
		name:  "pure",
		says:  "internal/protocol/... is pure: no I/O, goroutine, lock, clock, randomness or log; time and chance are inputs",
		todo:  "make what is needed a field of an input or of an effect, and do it in the runtime that drives the machine",
		check: pure,
	},
	{
		name:  "comments",
		says:  "every package has exactly one package comment, of more than one sentence",
		todo:  "say in one file, doc.go if it is long, what the package is for, what may be called concurrently, and what happens on failure",
		check: comments,
	},
	{
		name:  "size",
		says:  fmt.Sprintf("no Go file is longer than %d lines", tooLong),
		todo:  "split it: one noun a file",
		check: size,
	},
	{
		name:  "requirements",
		says:  "each direct requirement of a go.mod is in the table with its reason; the root module requires nothing but golang.org/x/sys",
		todo:  "do without it, move the package that needs it into a module of its own, or add it to requirements in tables_test.go with the reason",
		check: requirements,
	},
	{
		name:  "state",
		says:  "no func init, and no package-level variable that holds state",
		todo:  "make it a constant, a field, or a parameter that main passes; only if it cannot be anything else, add it to state in tables_test.go with the reason",
		check: state,
	},
	{
		name:  "sleeps",
		says:  "tests do not sleep",
		todo:  "wait for the event with a generous deadline, or run in a testing/synctest bubble; only if neither can be, add the function to sleeps in tables_test.go with the reason",
		check: sleeps,
	},
	{
		name:  "workspace",
		says:  "go.work uses every module of the repository and nothing else, and a module's path is that of its directory",
		todo:  "run: go work use -r . ; and name the module after where it is",
		check: workspace,
	},
	{
		name:  "exported",
		says:  "each public package has as many exported names as the table says",
		todo:  "unexport what no user needs; else change the number in tables_test.go, and say in the commit what the names are for",
		check: exported,
	},
	{
		name:  "paths",
		says:  "nothing names a directory of the machine that it was written on",
		todo:  "write a relative path, or one that exists everywhere, or use a temporary directory",
		check: paths,
	},
	{
		name:  "words",
		says:  "comments and pages use the words of the glossary",
		todo:  "write the glossary's word, and it for a process; only if the word is the field's own there, add the place to words in tables_test.go with the reason",
		check: words,
	},
	{
		name:  "links",
		says:  "links between the pages lead to a file, and to a heading, that is there",
		todo:  "write where it is now",
		check: links,
	},
}

// TestHouse holds the rules against this repository.
func TestHouse(t *testing.T) {
	tree, err := load(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.files) == 0 || len(tree.mods) == 0 {
		t.Fatalf("found %d Go files and %d modules: the walk is broken", len(tree.files), len(tree.mods))
	}
	for _, f := range tree.files {
		if f.lines > long && f.lines <= tooLong && !f.generated {
			t.Logf("warning: %s has %d lines; beyond %d it is worth a second look", f.path, f.lines, long)
		}
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if found := lines(r.check(tree, repository)); len(found) > 0 {
				t.Errorf("%s\n\t%s\nwhat to do: %s", r.says, strings.Join(found, "\n\t"), r.todo)
			}
		})
	}
}

// TestRulesBite holds each rule against a small tree that breaks it: what the
// fixture expects, and only that, must be found.
func TestRulesBite(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			files, want := fixture(t, path.Join("testdata", r.name+".txtar"))
			tree, err := load(files)
			if err != nil {
				t.Fatal(err)
			}
			if len(want) == 0 {
				t.Fatal("the fixture expects no finding, so it shows nothing")
			}
			got := lines(r.check(tree, example))
			for _, line := range want {
				if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, line) }) {
					t.Errorf("not found: %s", line)
				}
			}
			for _, line := range got {
				if !slices.ContainsFunc(want, func(s string) bool { return strings.HasPrefix(line, s) }) {
					t.Errorf("found, but not expected: %s", line)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d findings, want %d", len(got), len(want))
			}
		})
	}
}

// example is the house of the fixtures: the directions are ours, the other
// tables have one line that is needed and one that is not.
var example = house{
	directions: repository.directions,
	requirements: []requirement{
		{module: ".", needs: "golang.org/x/sys", why: "it is needed"},
		{module: "peer", needs: "example.org/wire", why: "it is needed"},
		{module: "peer", needs: "example.org/gone", why: "it was needed once"},
		{module: "peer", needs: "example.org/mute"},
	},
	state: []exception{
		{at: "file.fixed", why: "it cannot be anything else"},
		{at: "file.gone", why: "it was there once"},
	},
	exported: []surface{
		{at: ".", names: 1, why: "entry"},
		{at: "fence", names: 9, why: "counted"},
		{at: "file", names: 2, why: "grown"},
		{at: "driver", names: 1},
		{at: "peer", names: 3, why: "gone"},
	},
	sleeps: []exception{
		{at: "file/hold_test.go:TestAllowed", why: "there is no event to wait for"},
		{at: "file/hold_test.go:TestGone", why: "it was there once"},
	},
	words: []exception{
		{at: "peer", why: "the name of a type"},
		{at: "store", why: "it was there once"},
	},
}

// fixture reads a tree from a file in the txtar form: "-- name --" begins a
// file; the file named want holds the findings, one a line, cut off anywhere.
// What a fixture cannot hold itself is spelt @WORK@, @TMP@ and @1000 LINES@ (or 999).
func fixture(t *testing.T, name string) (fs.FS, []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		"@WORK@", checkout,
		"@TMP@", scratch,
		"@999 LINES@\n", strings.Repeat("// …\n", 999),
		"@1000 LINES@\n", strings.Repeat("// …\n", 1000),
	).Replace(string(data))

	files := make(fstest.MapFS)
	var want []string
	current := ""
	for line := range strings.Lines(text) {
		if begin, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok && strings.HasSuffix(begin, " --") {
			current = strings.TrimSuffix(begin, " --")
			if current != "want" {
				files[current] = &fstest.MapFile{Mode: 0o644}
			}
			continue
		}
		switch current {
		case "": // the fixture's own comment
		case "want":
			if line = strings.TrimSpace(line); line != "" {
				want = append(want, line)
			}
		default:
			files[current].Data = append(files[current].Data, line...)
		}
	}
	return files, want
}
