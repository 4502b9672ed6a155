package arch_test

import (
	"fmt"
	"go/doc"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// How many lines a Go file may have, and beyond how many it is worth a look.
const (
	long    = 600
	tooLong = 1000
)

// comments reports packages without a package comment, with more than one, or
// with one that only names the package.
func comments(t *tree, _ house) []finding {
	var found []finding
	for _, files := range t.packages() {
		var with []*goFile
		for _, f := range files {
			if f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" {
				with = append(with, f)
			}
		}
		dir := files[0].dir
		switch len(with) {
		case 0:
			found = append(found, finding{dir, "no package comment"})
		case 1:
			text := strings.Join(strings.Fields(with[0].Doc.Text()), " ")
			if first := new(doc.Package).Synopsis(text); first == "" || first == text {
				found = append(found, finding{t.at(with[0].Doc), "the package comment is one sentence only"})
			}
		default:
			for _, f := range with {
				found = append(found, finding{t.at(f.Doc), fmt.Sprintf("one of %d package comments of %s: keep one", len(with), dir)})
			}
		}
	}
	return found
}

// size reports files that are too long to be about one thing. What a generator
// wrote is as long as it is.
func size(t *tree, _ house) []finding {
	var found []finding
	for _, f := range t.files {
		if f.lines > tooLong && !f.generated {
			found = append(found, finding{f.path, fmt.Sprintf("%d lines", f.lines)})
		}
	}
	return found
}

// The directories in which this repository happened to be written. They are
// put together here so that this file does not name them either.
const (
	checkout = "/wo" + "rk/"
	scratch  = "/tmp" + "/work"
)

var machinePath = regexp.MustCompile(`(^|[^\w./-])(` + checkout + `|` + scratch + `)`)

// paths reports paths that mean something on one machine only.
func paths(t *tree, _ house) []finding {
	var found []finding
	for _, name := range slices.Sorted(maps.Keys(t.texts)) {
		n := 0
		for line := range strings.Lines(string(t.texts[name])) {
			n++
			if m := machinePath.FindStringSubmatch(line); m != nil {
				found = append(found, finding{fmt.Sprintf("%s:%d", name, n), "names " + m[2]})
			}
		}
	}
	return found
}
