package protocol

import (
	"cmp"
	"strings"
)

// CompareNumbers compares two positions. It is the default (R13): runs of decimal digits compare as
// numbers of any length, the text between them as bytes. So 9 is before 10, and 7.9 before 7.10;
// leading zeros do not count, 007 is 7. The empty position comes before all others. It returns what
// cmp.Compare does.
func CompareNumbers(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		n, o := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
		if c := cmp.Or(cmp.Compare(len(n), len(o)), strings.Compare(n, o)); c != 0 {
			return c
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is the number of digits at the beginning of s.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
