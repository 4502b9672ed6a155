// Package printable makes text of other processes fit for a terminal and for a log. Its functions are pure, and may be
// called by any number of goroutines.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text of as many characters that all can be printed. Others are '?': they could move the cursor, change
// the colours or reverse the direction of writing. So are bytes that are not UTF-8.
func Text(text string) string { return replace(text, '?') }

// Line returns a text in one line of at most most bytes, and "…" where the rest was cut. Characters that cannot be
// printed count as white space, which is one space.
func Line(text string, most int) string {
	text = strings.Join(strings.Fields(replace(text, ' ')), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func replace(text string, by rune) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case !unicode.IsGraphic(r):
			return by
		}
		return r
	}, text)
}
