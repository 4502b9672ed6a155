package adapter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/internal/long"
)

// importer implements [types.Importer].
type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }

// The modules that are not in go.work have no type errors. To compile client-go takes minutes of a processor; to read
// its declarations takes seconds. make adapters runs their tests.
func TestModulesApart(t *testing.T) {
	long.Test(t, "it downloads client-go and controller-runtime")
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap", "./dropin", "./operator")
	list.Dir = filepath.Join("..", "test", "fencing", "server", "testdata", "adapters") // programs that import them
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Logf("%s", exit.Stderr)
		}
		t.Fatal(err)
	}
	files, known, own := token.NewFileSet(), map[string]*types.Package{"unsafe": types.Unsafe}, 0
	for d := json.NewDecoder(bytes.NewReader(out)); ; { // each package after all that it imports
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
			ImportMap       map[string]string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		ours := strings.HasPrefix(p.ImportPath, "github.com/electd/elect")
		check := types.Config{
			IgnoreFuncBodies: !ours,
			Importer: importer(func(path string) (*types.Package, error) {
				if mapped := p.ImportMap[path]; mapped != "" {
					path = mapped
				}
				if known[path] == nil {
					return nil, fmt.Errorf("%s was not listed before %s", path, p.ImportPath)
				}
				return known[path], nil
			}),
			Error: func(err error) {
				if ours {
					t.Error(err)
				}
			},
		}
		known[p.ImportPath], _ = check.Check(p.ImportPath, files, parsed, nil)
		if strings.Contains(p.ImportPath, "/adapter/") {
			own++
		}
	}
	if own != 2 {
		t.Errorf("%d packages of adapter were checked; want 2", own)
	}
}
