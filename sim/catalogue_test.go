package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// declared reads the constants of a type, and what is said at each of them.
func declared(t *testing.T, file, kind string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != kind {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = strings.TrimSpace(spec.Comment.Text())
		return true
	})
	return found
}

// TestCatalogue: the lists have what is declared, in the same words.
func TestCatalogue(t *testing.T) {
	faults, promises := map[string]string{}, map[string]string{}
	for _, f := range Faults() {
		faults[string(f.Kind)] = f.Says
	}
	for _, p := range Promises() {
		promises[string(p.Invariant)] = p.Says
	}
	for _, c := range []struct {
		what           string
		declared, list map[string]string
	}{
		{"operations", declared(t, "schedule.go", "OpKind"), faults},
		{"invariants", declared(t, "protocol.go", "Invariant"), promises},
	} {
		if len(c.declared) < 10 || len(c.declared) != len(c.list) {
			t.Errorf("%d %s are declared, and %d listed", len(c.declared), c.what, len(c.list))
		}
		for name, says := range c.declared {
			if c.list[name] != says {
				t.Errorf("%s: %s is listed as %q, and declared as %q", c.what, name, c.list[name], says)
			}
		}
	}
}
