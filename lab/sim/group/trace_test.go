package group

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol/trace"
)

// traced returns the trace of a run, and the run.
func traced(t *testing.T, profile string, seed uint64) (string, *Result) {
	t.Helper()
	s, err := Generate(seed, Options{Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := w.Trace(&out, ""); err != nil {
		t.Fatal(err)
	}
	for w.Step() {
	}
	if err := w.Traced(); err != nil {
		t.Fatal(err)
	}
	return out.String(), w.Result()
}

// TestTrace: new machines do what a trace says, of every profile, and a trace has no influence on the run.
func TestTrace(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p[0], func(t *testing.T) {
			t.Parallel()
			text, r := traced(t, p[0], 3)
			report, err := trace.Verify(strings.NewReader(text), nil)
			if err != nil || !report.Whole || report.Steps == 0 {
				t.Errorf("%+v, %v; want a whole trace that new machines agree with", report, err)
			}
			s, err := Generate(3, Options{Profile: p[0]})
			if err != nil {
				t.Fatal(err)
			}
			if plain, err := Run(s, nil); err != nil || plain.Hash != r.Hash {
				t.Errorf("%x with a trace, and %x without (%v)", r.Hash, plain.Hash, err)
			}
		})
	}
}

// TestTraceTampered: the first difference is told, with its line and place.
func TestTraceTampered(t *testing.T) {
	text, _ := traced(t, "moves", 1)
	for name, c := range map[string]struct{ old, now, want string }{
		"a token":       {`(?s)("starts":\[\{"key":"k0\d","token":\{"t":\d+,"n":)\d`, "${1}9", "turn.effects.starts[0].token.n"},
		"a claim":       {`(?s)("type":"answer"[^}]*"promise":)\d+`, "${1}1", "turn."},
		"a hash":        {`("hash":")[0-9a-f]{4}`, "${1}0000", "turn.hash"},
		"a lost effect": {`(?s)"starts":\[[^]]*\],?`, "", "turn.effects.starts"},
	} {
		t.Run(name, func(t *testing.T) {
			at := regexp.MustCompile(c.old).FindStringIndex(text)
			if at == nil {
				t.Fatalf("the trace has nothing like %s", c.old)
			}
			broken := text[:at[0]] + regexp.MustCompile(c.old).ReplaceAllString(text[at[0]:at[1]], c.now) + text[at[1]:]
			_, err := trace.Verify(strings.NewReader(broken), nil)
			d, ok := errors.AsType[*trace.Disagreement](err)
			if line := 1 + strings.Count(text[:at[0]], "\n"); !ok || !strings.HasPrefix(d.What, c.want) || d.Line != line && name != "a claim" {
				t.Errorf("%v\nwant a difference at %s on line %d", err, c.want, line)
			}
		})
	}
}
