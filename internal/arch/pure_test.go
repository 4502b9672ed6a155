package arch_test

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// known are the packages of the standard library that compute and do nothing
// else. What is not among them is taken for impure.
var known = []string{
	"bytes", "cmp", "container/...", "encoding", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json",
	"errors", "fmt", "hash/...", "iter", "maps", "math", "math/big", "math/bits", "math/cmplx",
	"slices", "sort", "strconv", "strings", "text/tabwriter", "time", "unicode/...",
}

// timeless is what a pure package may use of package time: the type that a
// configuration is written in. Everything else there reads or awaits a clock,
// or depends on the time zone of the machine.
var timeless = []string{
	"Duration", "ParseDuration",
	"Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour",
}

// pure reports what the protocols must not touch. Their tests are free.
func pure(t *tree, _ house) []finding {
	var found []finding
	for _, f := range t.files {
		if f.test || !covers("internal/protocol/...", f.dir) {
			continue
		}
		report := func(n ast.Node, format string, args ...any) {
			found = append(found, finding{t.at(n), fmt.Sprintf(format, args...)})
		}
		var clock, format string // what the file calls packages time and fmt
		for _, spec := range f.Imports {
			importPath, name := imported(spec)
			own := covers(base+"/...", importPath) // directions decides
			if !own && !slices.ContainsFunc(known, func(at string) bool { return covers(at, importPath) }) {
				report(spec, "imports %s, which is not known to be pure", importPath)
			}
			if name == "." {
				report(spec, "imports %s by the name of a dot, so that its uses cannot be told", importPath)
			}
			switch importPath {
			case "time":
				clock = name
			case "fmt":
				format = name
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				report(n, "starts a goroutine: a machine has none")
			case *ast.SelectStmt:
				report(n, "selects: a machine waits for nothing")
			case *ast.ChanType:
				report(n, "has a channel: a machine is called and returns")
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if !ok {
					break
				}
				if name := n.Sel.Name; x.Name == clock && !slices.Contains(timeless, name) {
					report(n, "uses time.%s: of package time it may use only Duration and its units", name)
				} else if x.Name == format && (strings.HasPrefix(name, "Print") || strings.HasPrefix(name, "Scan")) {
					report(n, "uses fmt.%s, which does I/O", name)
				}
			}
			return true
		})
	}
	return found
}
