package arch_test

import (
	"go/ast"
	"slices"
)

// sleeps reports calls of time.Sleep in tests, and in code that is written for
// tests, except in a bubble of testing/synctest, where time is not real.
func sleeps(t *tree, h house) []finding {
	var found []finding
	used := make([]bool, len(h.sleeps))
	for _, f := range t.files {
		clock, bubble, testing := "", "", f.test
		for _, spec := range f.Imports {
			switch importPath, name := imported(spec); importPath {
			case "time":
				clock = name
			case "testing/synctest":
				bubble = name
			case "testing":
				testing = true
			}
		}
		if !testing || clock == "" {
			continue
		}
		for _, decl := range f.Decls {
			at := f.path
			if fn, ok := decl.(*ast.FuncDecl); ok {
				at += ":" + fn.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && bubble != "" && isSelector(call.Fun, bubble, "Test") {
					return false
				}
				// Not only calls: a function value would sleep elsewhere.
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || !isSelector(sel, clock, "Sleep") {
					return true
				}
				if i := slices.IndexFunc(h.sleeps, func(e exception) bool { return e.at == at }); i >= 0 {
					used[i] = true
				} else {
					found = append(found, finding{t.at(sel), "time.Sleep in " + at})
				}
				return true
			})
		}
	}
	return append(found, stale("sleeps", h.sleeps, used)...)
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}
