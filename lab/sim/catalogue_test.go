package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declared reads the constants of a type, and their comments.
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

// TestCatalogue: the lists match the declarations, word by word.
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

// TestBeyond: what the catalogue marks as beyond the model says so in words, is not drawn
// otherwise, and excuses its run; no other operation does so for every protocol.
func TestBeyond(t *testing.T) {
	for _, f := range Faults() {
		if says := strings.HasSuffix(f.Says, "; beyond the model") || strings.Contains(f.Says, "; beyond the model:"); says != f.Beyond {
			t.Errorf("%s: beyond %t, and says %q", f.Kind, f.Beyond, f.Says)
		}
		if i := slices.IndexFunc(faults, func(d fault) bool { return d.kind == f.Kind }); i >= 0 && faults[i].beyond != f.Beyond {
			t.Errorf("%s: beyond %t, and drawn as if it was %t", f.Kind, f.Beyond, faults[i].beyond)
		} else if i < 0 && f.Kind != OpDrop && f.Kind != OpImpostor {
			t.Errorf("%s is never drawn", f.Kind)
		}
		s := still(3, Op{Kind: f.Kind})
		s.Beyond = true
		excused, err := s.Excused(pulses())
		if err != nil || len(excused) > 0 != f.Beyond {
			t.Errorf("%s: beyond %t; excused of %v, %v", f.Kind, f.Beyond, excused, err)
		}
	}
}
