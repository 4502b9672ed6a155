package arch_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// directions reports every import that points the wrong way, and every package
// for which no direction is given.
func directions(t *tree, h house) []finding {
	var found []finding
	unplaced := make(map[string]bool)
	for _, f := range t.files {
		d := directionOf(h.directions, f.dir)
		if d == nil {
			if !unplaced[f.dir] {
				unplaced[f.dir] = true
				found = append(found, finding{f.path, fmt.Sprintf("package %s has no line in directions: say what it may import", f.dir)})
			}
			continue
		}
		for _, spec := range f.Imports {
			importPath, _ := imported(spec)
			if complaint := d.refuses(importPath, f); complaint != "" {
				found = append(found, finding{t.at(spec), fmt.Sprintf("%s imports %s: %s (%s)", f.dir, importPath, complaint, d.why)})
			}
		}
	}
	return found
}

// refuses says why a file may not have an import, or "".
func (d *direction) refuses(importPath string, f *goFile) string {
	if importPath == base || strings.HasPrefix(importPath, base+"/") {
		target := "."
		if importPath != base {
			target = strings.TrimPrefix(importPath, base+"/")
		}
		may := d.may
		if f.test {
			may = slices.Concat(may, d.tests)
		}
		switch {
		case target == f.dir: // an external test imports what it tests
			return ""
		case strings.HasSuffix(d.at, "/...") && covers(d.at, target):
			return ""
		case slices.ContainsFunc(may, func(at string) bool { return allows(at, target) }):
			return ""
		case len(may) == 0:
			return "it may import nothing of this repository"
		}
		return "of this repository it may import only " + strings.Join(may, ", ")
	}
	first, _, _ := strings.Cut(importPath, "/")
	if !strings.Contains(first, ".") { // the standard library, and "C"
		return ""
	}
	if d.others == listed || d.others == system && covers("golang.org/x/sys/...", importPath) {
		return ""
	}
	return "it may import " + string(d.others)
}

// directionOf finds the line for a package: the one that is most to the point.
func directionOf(all []direction, dir string) *direction {
	var best *direction
	for i := range all {
		if d := &all[i]; covers(d.at, dir) && (best == nil || closer(d.at, best.at)) {
			best = d
		}
	}
	return best
}

// allows is covers, but that the small tools below internal are one thing, and the
// machines and the command lines there others: who may import the first names these
// by themselves.
func allows(at, target string) bool {
	return covers(at, target) && (at != "internal/..." || !covers("internal/protocol/...", target) && !covers("internal/cli/...", target))
}

func covers(at, dir string) bool {
	above, deep := strings.CutSuffix(at, "/...")
	return above == dir || deep && strings.HasPrefix(dir, above+"/")
}

// closer reports whether a says more exactly than b which packages it means.
func closer(a, b string) bool {
	length := func(at string) int { return len(path.Clean(strings.TrimSuffix(at, "/..."))) }
	if length(a) != length(b) {
		return length(a) > length(b)
	}
	return !strings.HasSuffix(a, "/...")
}
