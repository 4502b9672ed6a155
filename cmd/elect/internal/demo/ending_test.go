package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// The last words are to be copied from a terminal of 80 columns: no command may
// be broken by it.
func TestLastWordsFit(t *testing.T) {
	for _, elect := range []string{"elect", "go run ./cmd/elect"} {
		var b bytes.Buffer
		p := &printer{to: &b, elect: elect}
		p.byHand("/tmp/" + dirPrefix + "4294967295")
		p.next()
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%q is %d wide; want 80 at most", line, n)
			}
		}
		for _, want := range []string{elect + " certs ", elect + " run -- COMMAND", "    " + elect + " status ", "docs/peers.md", "\n    D=/tmp/elect-demo-"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%q is not in %q", want, b.String())
			}
		}
	}
	var b bytes.Buffer
	p := &printer{to: &b, elect: "elect"}
	p.byHand("/tmp/it's mine")
	if want := `D='/tmp/it'\''s mine'; `; !strings.Contains(b.String(), want) {
		t.Errorf("%q; want %q in it", b.String(), want)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1:                      "0 ms",
		0:                       "0 ms",
		412_300:                 "0.412 ms",
		8_039_044:               "8.04 ms",
		8_000_000:               "8 ms",
		999_400_000:             "999 ms",
		999_600_000:             "1 s",
		time.Second:             "1 s",
		1_019_600_000:           "1.02 s",
		2_230_000_000:           "2.23 s",
		10_149_000_000:          "10.1 s",
		134_700 * 1000 * 1000:   "135 s",
		time.Hour + time.Second: "3601 s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q; want %q", d, got, want)
		}
	}
}
