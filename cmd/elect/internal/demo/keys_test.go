package demo

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
)

func TestSplit(t *testing.T) {
	for sent, want := range map[string][]string{
		"":                  nil,
		"kq":                {"k", "q"},
		"\x1b[C\x1b[D":      {keyRight, keyLeft},
		"\x1bOC":            {keyRight},
		"\x1b[1;5C1":        {keyRight, "1"},
		"\x1b":              {keyEsc},
		"\x1b\x1b":          {keyEsc, keyEsc},
		"\x1b[":             nil,
		"\x1b[15~x":         {"x"},
		"é\x03":             {"é", ctrlC},
		"\xff":              {"\uFFFD"},
		"\x1b[200~kill\x1b": {"k", "i", "l", "l", keyEsc},
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

// TestHavoc breaks a model at random for long: whatever is drawn can be done,
// everything that can happen does, and all is mended again and again.
func TestHavoc(t *testing.T) {
	m := newModel("lan", time.Second)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range ids {
		m.did(start, i, 0)
	}
	done := map[act]int{}
	whole := 0
	for k := range 2000 {
		now := time.Duration(k) * 10 * silence
		m.tick(now)
		for i := range ids { // somebody leads, if anybody can
			if m.majority() && m.nodes[i].reachable() && r.IntN(2) == 0 {
				m.wrote(line{At: now, Token: m.nextToken(), ID: ids[i], PID: 1000 + k, Number: 1})
				break
			}
		}
		o := m.havoc(r.IntN)
		if why := m.refused(o.act, o.node); why != "" {
			t.Fatalf("%d: act %d on %s is drawn, which is refused: %s", k, o.act, ids[o.node], why)
		}
		m.did(o.act, o.node, now)
		done[o.act]++
		if m.reachable() == size {
			whole++
		}
	}
	for _, a := range []act{start, kill, killJob, pause, wake, cut, heal, resign} {
		if done[a] == 0 {
			t.Errorf("act %d was never drawn", a)
		}
	}
	if whole < 400 {
		t.Errorf("all was well %d times of 2000; want a demo that recovers", whole)
	}
}

func (m *model) nextToken() fence.Token {
	l, _ := m.ledger.now()
	return l.token + 1
}

// TestUpdate sends what has changed and nothing else, and everything after a
// change of size.
func TestUpdate(t *testing.T) {
	s := &screen{width: 6, height: 2}
	if got := s.update([]string{"one", "two"}); !strings.Contains(got, "\x1b[2J") || !strings.Contains(got, "\x1b[1;1Hone\x1b[K\x1b[2;1Htwo\x1b[K") {
		t.Errorf("at first: %q", got)
	}
	if got := s.update([]string{"one", "two"}); got != "" {
		t.Errorf("the same again: %q", got)
	}
	if got := s.update([]string{"one", "\x1b[1mthree!\x1b[0m"}); strings.Contains(got, "one") || !strings.Contains(got, "\x1b[2;1H\x1b[1mthree!\x1b[0m\x1b[?2026l") {
		t.Errorf("one line: %q; want it alone, and nothing erased after a line that is as wide as the screen", got)
	}
	s.clear()
	if got := s.update([]string{"one", "two"}); !strings.Contains(got, "one") {
		t.Errorf("after a change of size: %q", got)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, indent int
		want          []string
	}{
		{"", 10, 0, []string{""}},
		{"one two three", 7, 0, []string{"one two", "three"}},
		{"one two three", 8, 2, []string{"one two", "  three"}},
		{"unbreakable", 4, 0, []string{"unbr", "eaka", "ble"}},
		{"ää öö", 5, 0, []string{"ää öö"}},
		{"a b", 1, 0, []string{"a", "b"}},
	} {
		if got := wrap(c.text, c.width, c.indent); !slices.Equal(got, c.want) {
			t.Errorf("%q at %d is %q; want %q", c.text, c.width, got, c.want)
		}
	}
}
