package screen

import (
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for sent, want := range map[string][]string{
		"":                           nil,
		"kq":                         {"k", "q"},
		"\x1b[C\x1b[D":               {KeyRight, KeyLeft},
		"\x1bOC":                     {KeyRight},
		"\x1b[1;5C1":                 {KeyRight, "1"},
		"\x1b":                       {KeyEsc},
		"\x1b\x1b":                   {KeyEsc, KeyEsc},
		"\x1b[":                      nil,
		"\x1b[15~x":                  {"x"},
		"\x1b[5~\x1b[6~\x1b[A\x1b[B": {KeyPageUp, KeyPageDown, KeyUp, KeyDown},
		"é\x03":                      {"é", CtrlC},
		"\xff":                       {"\uFFFD"},
		"\x1b[200~kill\x1b":          {"k", "i", "l", "l", KeyEsc},
	} {
		if got := split(sent); !slices.Equal(got, want) {
			t.Errorf("%q is %q; want %q", sent, got, want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"q", "\x1b[C", "\x1bO", "\x1b[1;5D", "\xc3", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		if keys := split(sent); len(keys) > len(sent) {
			t.Errorf("%q is %d keys", sent, len(keys))
		}
	})
}

// TestUpdate: only changed lines are written, and all of them after a change of size.
func TestUpdate(t *testing.T) {
	s := &Screen{width: 6, height: 2}
	if got := s.update([]string{"one", "two"}); !strings.Contains(got, "\x1b[2J") || !strings.Contains(got, "\x1b[1;1Hone\x1b[K\x1b[2;1Htwo\x1b[K") {
		t.Errorf("at first: %q", got)
	}
	if got := s.update([]string{"one", "two"}); got != "" {
		t.Errorf("the same again: %q", got)
	}
	if got := s.update([]string{"one", "\x1b[1mthree!\x1b[0m"}); strings.Contains(got, "one") || !strings.Contains(got, "\x1b[2;1H\x1b[1mthree!\x1b[0m\x1b[?2026l") {
		t.Errorf("one line: %q; want it alone, and nothing erased after a line that is as wide as the screen", got)
	}
	s.Clear()
	if got := s.update([]string{"one", "two"}); !strings.Contains(got, "one") {
		t.Errorf("after a change of size: %q", got)
	}
}
