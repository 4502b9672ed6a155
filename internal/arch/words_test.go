package arch_test

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// replaced are words that the glossary of ARCHITECTURE.md replaces, and phrases that a reader has to read twice.
var replaced = regexp.MustCompile(`(?i)\b(alleys?|courts?|crews?|crowns?|crowned|fleets?|gatehouses?|graves|heirs?|` +
	`reigns?|scribes?|squads?|theatres?|there wants?|villages?|whoever|whomever)\b`)

// words reports comments of Go files, and lines of Markdown, that use such a word. An exception holds for a file, or
// for a directory and all below it.
func words(t *tree, h house) []finding {
	var found []finding
	used := make([]bool, len(h.words))
	look := func(name string, line int, text string) {
		for text := range strings.Lines(text) {
			if word := replaced.FindString(text); word != "" {
				i := slices.IndexFunc(h.words, func(e exception) bool { return e.at == name || strings.HasPrefix(name, e.at+"/") })
				if i >= 0 {
					used[i] = true
				} else {
					found = append(found, finding{fmt.Sprintf("%s:%d", name, line), "says " + word})
				}
			}
			line++
		}
	}
	for _, f := range t.files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				look(f.path, t.fset.Position(c.Pos()).Line, c.Text)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.texts)) {
		if path.Ext(name) == ".md" {
			look(name, 1, string(t.texts[name]))
		}
	}
	return append(found, stale("words", h.words, used)...)
}
