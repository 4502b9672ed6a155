package arch_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// state reports init functions, and package-level variables unless they are
// written down once and only read: errors, tables, embedded files, compiled
// expressions, assertions. In tests, only init functions.
func state(t *tree, h house) []finding {
	var found []finding
	for _, f := range t.files {
		if f.generated {
			continue
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, finding{t.at(fn), "func init: main decides what happens first"})
			}
		}
	}
	used := make([]bool, len(h.state))
	for _, files := range t.packages() {
		written := assigned(t.fset, files)
		for _, f := range files {
			if f.generated {
				continue
			}
			for name, complaint := range variables(f.File) {
				if complaint == "" && written[name.Name] {
					complaint = "is assigned to after it was declared"
				}
				if complaint == "" {
					continue
				}
				full := f.dir + "." + name.Name
				if i := slices.IndexFunc(h.state, func(e exception) bool { return e.at == full }); i >= 0 {
					used[i] = true
					continue
				}
				found = append(found, finding{t.at(name), fmt.Sprintf("var %s %s", name.Name, complaint)})
			}
		}
	}
	return append(found, stale("state", h.state, used)...)
}

// variables yields the package-level variables of a file, each with what is
// wrong about it, or "".
func variables(f *ast.File) map[*ast.Ident]string {
	all := make(map[*ast.Ident]string)
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, s := range gen.Specs {
			spec := s.(*ast.ValueSpec)
			embedded := isEmbed(spec.Doc) || isEmbed(gen.Doc)
			for i, name := range spec.Names {
				var value ast.Expr
				if len(spec.Values) == len(spec.Names) {
					value = spec.Values[i]
				}
				switch {
				case name.Name == "_" || embedded:
				case len(spec.Values) == 0:
					all[name] = "has no value, so it is there to be written"
				case isSentinel(name.Name) || value != nil && isFixed(value):
					all[name] = ""
				default:
					all[name] = "is none of the forms that are only read: an error, a table, an embedded file, a compiled expression"
				}
			}
		}
	}
	return all
}

func isEmbed(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// isSentinel says whether a variable is named as errors are.
func isSentinel(name string) bool {
	for _, prefix := range []string{"Err", "err"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && ast.IsExported(rest) {
			return true
		}
	}
	return false
}

// isFixed says whether a value is of a form that is only read: a table that
// has entries (an empty one is there to be filled), or the result of a
// function that compiles what is written down beside it.
func isFixed(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		switch e.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
			return len(e.Elts) > 0
		}
	case *ast.CallExpr:
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok {
			pkg, _ := sel.X.(*ast.Ident)
			return pkg != nil && slices.Contains([]string{
				"errors.New", "regexp.MustCompile", "template.Must", "strings.NewReplacer", "netip.MustParseAddr", "netip.MustParsePrefix",
			}, pkg.Name+"."+sel.Sel.Name)
		}
	}
	return false
}

// assigned returns the names of the package-level variables that the package
// itself writes to or takes the address of.
func assigned(fset *token.FileSet, files []*goFile) map[string]bool {
	// The type checker is here for the scopes only: it sees no other package
	// and, where a package is built for several systems, sees all of them at
	// once, and so complains about almost everything.
	var asts []*ast.File
	for _, f := range files {
		asts = append(asts, f.File)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: nobody{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check(files[0].dir, fset, asts, info)

	written := make(map[string]bool)
	write := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			case *ast.SliceExpr:
				e = x.X
			case *ast.Ident:
				if obj := info.Uses[x]; obj != nil && obj.Parent() == pkg.Scope() {
					written[x.Name] = true
				}
				return
			default:
				return
			}
		}
	}
	for _, f := range asts {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						write(e)
					}
				}
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					for _, e := range []ast.Expr{n.Key, n.Value} {
						if e != nil {
							write(e)
						}
					}
				}
			case *ast.IncDecStmt:
				write(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					write(n.X)
				}
			case *ast.CallExpr:
				if fn, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && slices.Contains([]string{"delete", "clear", "copy"}, fn.Name) {
					write(n.Args[0])
				}
			}
			return true
		})
	}
	return written
}

// nobody imports nothing.
type nobody struct{}

func (nobody) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// stale reports the exceptions that nothing needs, and those without a reason.
func stale(table string, all []exception, used []bool) []finding {
	var found []finding
	for i, e := range all {
		if !used[i] {
			found = append(found, finding{e.at, fmt.Sprintf("is listed in %s, but nothing needs it: remove the line", table)})
		}
		if e.why == "" {
			found = append(found, finding{e.at, fmt.Sprintf("is listed in %s without a reason", table)})
		}
	}
	return found
}
