package arch_test

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	target    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	absolute  = regexp.MustCompile(`^[a-z]+:`)
	inHeading = regexp.MustCompile(`\]\([^)]*\)|[^\p{L}\p{N}\- _]`) // what its anchor does not have
)

// links reports links in Markdown to a file, or to a heading, that is not in the repository.
func links(t *tree, _ house) []finding {
	var found []finding
	anchors := map[string]map[string]bool{}
	pages := slices.DeleteFunc(slices.Sorted(maps.Keys(t.texts)), func(name string) bool { return path.Ext(name) != ".md" })
	for _, name := range pages {
		anchors[name] = map[string]bool{}
		prose(t.texts[name], func(_ int, line string) {
			if heading := strings.TrimLeft(line, "#"); heading != line {
				anchor := inHeading.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
				anchors[name][strings.ReplaceAll(anchor, " ", "-")] = true
			}
		})
	}
	for _, name := range pages {
		prose(t.texts[name], func(n int, line string) {
			for _, m := range target.FindAllStringSubmatch(line, -1) {
				to, anchor, _ := strings.Cut(m[1], "#")
				at := name
				if to != "" {
					at = path.Join(path.Dir(name), to)
				}
				if known := anchors[at]; !absolute.MatchString(m[1]) && (!t.names[at] || anchor != "" && known != nil && !known[anchor]) {
					found = append(found, finding{fmt.Sprintf("%s:%d", name, n), "links to " + m[1] + ", which is not there"})
				}
			}
		})
	}
	return found
}

// prose calls do with each line of a page that is in no fenced block, and its number.
func prose(page []byte, do func(n int, line string)) {
	n, fenced := 0, false
	for line := range strings.Lines(string(page)) {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			do(n, line)
		}
	}
}
