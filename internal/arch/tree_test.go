package arch_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// base is the path of the root module; a package's path is base and its
// directory, also in the nested modules.
const base = "github.com/electd/elect"

// tree is a repository, read once.
type tree struct {
	fset  *token.FileSet
	files []*goFile
	mods  []*goMod
	work  []string          // the directories that go.work uses
	texts map[string][]byte // every file that is not binary, by path
	names map[string]bool   // of every file and directory
}

type goFile struct {
	*ast.File
	path, dir string
	lines     int
	test      bool // _test.go
	generated bool
}

type goMod struct {
	dir, module string
	direct      []string // paths of the modules required directly
}

// skipped are the directories that are not part of the repository: what git
// ignores, what editors keep, and the fixtures of these very tests.
func skipped(dir string) bool {
	name := path.Base(dir)
	hidden := strings.HasPrefix(name, ".") && name != "." && name != ".ci" && name != ".github"
	return hidden || dir == "bin" || dir == "artifacts" || dir == "internal/arch/testdata" || name == "node_modules"
}

func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), texts: make(map[string][]byte), names: make(map[string]bool)}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(name):
			return fs.SkipDir
		}
		t.names[name] = true
		switch {
		case d.IsDir(), !d.Type().IsRegular(), name == ".git": // a file in a linked work tree
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(data, 0) >= 0 {
			return nil
		}
		t.texts[name] = data
		if slices.Contains(strings.Split(path.Dir(name), "/"), "testdata") {
			return nil // the go command does not build these either
		}
		switch {
		case path.Base(name) == "go.mod":
			t.mods = append(t.mods, parseMod(name, data))
		case name == "go.work":
			t.work = parseWork(data)
		case path.Ext(name) == ".go":
			f, err := parser.ParseFile(t.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			t.files = append(t.files, &goFile{
				File:      f,
				path:      name,
				dir:       path.Dir(name),
				lines:     bytes.Count(data, []byte("\n")),
				test:      strings.HasSuffix(name, "_test.go"),
				generated: ast.IsGenerated(f),
			})
		}
		return nil
	})
	return t, err
}

// at is where a node is, as editors and people read it.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// packages groups the files by package, without those of tests.
func (t *tree) packages() [][]*goFile {
	type id struct{ dir, name string } // a generator is a package beside another
	index := make(map[id]int)
	var all [][]*goFile
	for _, f := range t.files {
		if f.test {
			continue
		}
		pkg := id{f.dir, f.Name.Name}
		i, ok := index[pkg]
		if !ok {
			i = len(all)
			index[pkg] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], f)
	}
	return all
}

// imported returns the path of an import and the name that the file knows it
// by; the name is a guess where the file gives none.
func imported(s *ast.ImportSpec) (importPath, name string) {
	importPath = strings.Trim(s.Path.Value, "`\"")
	if s.Name != nil {
		return importPath, s.Name.Name
	}
	return importPath, path.Base(importPath)
}

// parseMod reads what the rules need of a go.mod in the form that go mod tidy
// writes; lint holds every go.mod to that form.
func parseMod(name string, data []byte) *goMod {
	m := &goMod{dir: path.Dir(name)}
	for _, line := range directives(data) {
		switch {
		case line[0] == "module" && len(line) > 1:
			m.module = line[1]
		case line[0] == "require" && len(line) > 2 && !strings.Contains(strings.Join(line[3:], " "), "// indirect"):
			m.direct = append(m.direct, line[1])
		}
	}
	return m
}

func parseWork(data []byte) []string {
	var dirs []string
	for _, line := range directives(data) {
		if line[0] == "use" && len(line) > 1 {
			dirs = append(dirs, path.Clean(line[1]))
		}
	}
	return dirs
}

// directives splits a go.mod or go.work into lines of fields, each of which
// begins with its verb, also within parentheses.
func directives(data []byte) [][]string {
	var lines [][]string
	block := ""
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "//"):
		case fields[0] == ")":
			block = ""
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
		case block != "":
			lines = append(lines, append([]string{block}, fields...))
		default:
			lines = append(lines, fields)
		}
	}
	return lines
}

// root is the directory of go.work.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.work in this directory or above it: run the tests in a checkout of the repository")
		}
		dir = parent
	}
}
