//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// merge makes one life of all those of a family: the first process, which knows
// its keeper, and its descendants, which have its token. Families are sorted by
// when they began. Two first processes with one token are two families, and the
// descendants of that token are counted with each.
func merge(lives []life) []life {
	var families []life
	for _, first := range lives {
		if first.keeper == 0 {
			continue
		}
		for _, l := range lives {
			if l.token == first.token && l.keeper == 0 {
				first.start, first.last = min(first.start, l.start), max(first.last, l.last)
			}
		}
		families = append(families, first)
	}
	slices.SortFunc(families, func(a, b life) int { return cmp.Compare(a.start, b.start) })
	return families
}

// judge says where two families were alive at once, and where a token is not
// above those before it.
func judge(families []life) (violations []string) {
	for i, after := range families {
		for _, before := range families[:i] {
			if after.start <= before.last {
				violations = append(violations, fmt.Sprintf("overlap: the family with token %d was alive for %v after that with token %d began",
					before.token, time.Duration(before.last-after.start), after.token))
			}
			if after.token <= before.token {
				violations = append(violations, fmt.Sprintf("token %d after %d", after.token, before.token))
			}
		}
	}
	return violations
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name  string
		lives []life
		want  int
	}{
		{"one after the other", []life{{1, 10, 9, 100, 200}, {1, 11, 0, 110, 210}, {2, 20, 19, 220, 300}}, 0},
		{"the next begins early", []life{{1, 10, 9, 100, 200}, {2, 20, 19, 150, 300}}, 1},
		{"a descendant lives on", []life{{1, 10, 9, 100, 200}, {1, 11, 0, 110, 250}, {2, 20, 19, 220, 300}}, 1},
		{"the one before last lives on", []life{{1, 10, 9, 100, 400}, {2, 20, 19, 450, 500}, {3, 30, 29, 300, 350}}, 2},
		{"a token falls", []life{{2, 10, 9, 100, 200}, {1, 20, 19, 220, 300}}, 1},
		{"a token comes twice", []life{{1, 10, 9, 100, 200}, {1, 20, 19, 220, 300}}, 1},
		{"two with one token at once", []life{{1, 10, 9, 100, 200}, {1, 20, 19, 150, 300}}, 2},
	} {
		if got := judge(merge(c.lives)); len(got) != c.want {
			t.Errorf("%s: %d violations %q; want %d", c.name, len(got), got, c.want)
		}
	}
}
