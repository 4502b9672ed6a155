package arch_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// exported reports each public package whose number of exported names is not that of the table.
func exported(t *tree, h house) []finding {
	count := make(map[string]int)
	for _, pkg := range t.packages() {
		if dir := pkg[0].dir; pkg[0].Name.Name != "main" && public(dir) {
			count[dir] = len(names(pkg))
		}
	}
	var found []finding
	for _, s := range h.exported {
		switch n, ok := count[s.at]; {
		case !ok:
			found = append(found, finding{s.at, "the table lists it, and there is no such public package: remove the line"})
		case n != s.names:
			found = append(found, finding{s.at, fmt.Sprintf("%d exported names, and the table says %d", n, s.names)})
		case s.why == "":
			found = append(found, finding{s.at, "the table gives no reason for it"})
		}
		delete(count, s.at)
	}
	for dir, n := range count {
		found = append(found, finding{dir, fmt.Sprintf("a public package with %d exported names, which is not in the table", n)})
	}
	return found
}

// public reports whether a user's program can import the packages of a directory and is meant to.
func public(dir string) bool {
	parts := strings.Split(dir, "/")
	return !slices.Contains(parts, "internal") && !slices.Contains([]string{"lab", "test", "cmd", "examples"}, parts[0])
}

// names returns the exported names of a package: what it declares, and the exported methods and
// fields of its exported types. A name that several systems declare counts once.
func names(pkg []*goFile) map[string]bool {
	all := make(map[string]bool)
	add := func(of string, idents ...*ast.Ident) {
		for _, id := range idents {
			if id.IsExported() {
				all[of+id.Name] = true
			}
		}
	}
	for _, f := range pkg {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add("", d.Name)
				} else if of := baseName(d.Recv.List[0].Type); of != nil && of.IsExported() {
					add(of.Name+".", d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.ValueSpec:
						add("", s.Names...)
					case *ast.TypeSpec:
						add("", s.Name)
						if s.Name.IsExported() && d.Tok == token.TYPE {
							members(s.Type, s.Name.Name+".", add)
						}
					}
				}
			}
		}
	}
	return all
}

// members adds the fields of a struct and the methods of an interface.
func members(of ast.Expr, prefix string, add func(string, ...*ast.Ident)) {
	var list *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return
	}
	for _, f := range list.List {
		if len(f.Names) > 0 {
			add(prefix, f.Names...)
		} else if id := baseName(f.Type); id != nil {
			add(prefix, id)
		}
	}
}

// baseName is the name of a type without its pointer, package and parameters.
func baseName(of ast.Expr) *ast.Ident {
	switch of := of.(type) {
	case *ast.Ident:
		return of
	case *ast.StarExpr:
		return baseName(of.X)
	case *ast.SelectorExpr:
		return of.Sel
	case *ast.IndexExpr:
		return baseName(of.X)
	case *ast.IndexListExpr:
		return baseName(of.X)
	}
	return nil
}
