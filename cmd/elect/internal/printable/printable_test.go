package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func Test(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                       {"", ""},
		"no disk\n":              {"no disk?", "no disk"},
		"\x1b[31mred\x1b[2J\x00": {"?[31mred?[2J?", "[31mred [2J"},
		"a\u009b2Jb\u202ec":      {"a?2Jb?c", "a 2Jb c"},
		"a\xffb\u00a0ä…":         {"a?b\u00a0ä…", "a?b ä…"},
		"a  b":                   {"a  b", "a b"},
	} {
		if got := [2]string{Text(text), Line(text, 100)}; got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
	if got := Line("aää", 4); got != "aä…" {
		t.Errorf("%q is cut wrongly", got)
	}
}

func Fuzz(f *testing.F) {
	f.Add("\x1b[31mred\x1b[2J\x00\u009b\u202e\u2028\xff", 7)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = min(max(most, 0), 1<<10)
		line := Line(text, most)
		if len(line) > most+len("…") || strings.Contains(line, "  ") {
			t.Errorf("%q is no line of %d bytes", line, most)
		}
		for _, got := range []string{line, Text(text)} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) {
				t.Errorf("%q cannot be printed", got)
			}
		}
		if utf8.RuneCountInString(Text(text)) != utf8.RuneCountInString(text) {
			t.Errorf("%q has another length than %q", Text(text), text)
		}
	})
}
