//go:build linux

package judge

import (
	"cmp"
	"slices"
)

// span is a time, from its beginning up to its end.
type span struct{ from, to int64 }

func (s span) length() int64 { return s.to - s.from }

// both is what two spans have in common; its length is not above 0 if that is
// nothing.
func (s span) both(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }

// union makes sorted, disjoint spans of any.
func union(all []span) []span {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out []span
	for _, s := range all {
		switch n := len(out); {
		case s.to <= s.from:
		case n > 0 && s.from <= out[n-1].to:
			out[n-1].to = max(out[n-1].to, s.to)
		default:
			out = append(out, s)
		}
	}
	return out
}

// common is what two sorted lists of disjoint spans have in common.
func common(a, b []span) []span {
	var out []span
	for len(a) > 0 && len(b) > 0 {
		if s := a[0].both(b[0]); s.length() > 0 {
			out = append(out, s)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// without is what of within is in none of the sorted, disjoint spans.
func without(within span, all []span) []span {
	var out []span
	at := within.from
	for _, s := range all {
		if s.from > at {
			out = append(out, span{at, min(s.from, within.to)})
		}
		at = max(at, s.to)
		if at >= within.to {
			return out
		}
	}
	if at < within.to {
		out = append(out, span{at, within.to})
	}
	return out
}

func total(all []span) (sum int64) {
	for _, s := range all {
		sum += s.length()
	}
	return sum
}

// overlap is how much of a span is in sorted, disjoint spans.
func overlap(all []span, with span) (sum int64) {
	i, _ := slices.BinarySearchFunc(all, with.from, func(s span, at int64) int { return cmp.Compare(s.to, at) })
	for ; i < len(all) && all[i].from < with.to; i++ {
		sum += max(all[i].both(with).length(), 0)
	}
	return sum
}
