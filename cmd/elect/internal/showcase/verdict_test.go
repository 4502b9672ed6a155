package showcase

import (
	"strings"
	"testing"
	"time"
)

// at is a line of the job at so many milliseconds.
func at(ms int, token string, pid, number int) string {
	return line{At: time.Duration(ms) * time.Millisecond, Token: token, ID: "alpha", PID: pid, Number: number}.String()
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		log      []string
		lives    int    // expected
		fault    string // in the error; none if empty
		overlaps int
		tokens   string
	}{
		"one after the other": {
			[]string{at(10, "1", 100, 1), at(30, "1", 100, 2), at(35, "2", 200, 1), at(55, "2", 200, 2), at(60, "4", 300, 1)},
			3, "", 0, "1, 2, 4",
		},
		"a process number comes back": {
			[]string{at(10, "1", 100, 1), at(20, "2", 200, 1), at(30, "3", 100, 1)},
			3, "", 0, "1, 2, 3",
		},
		"an old job writes once more": {
			[]string{at(10, "1", 100, 1), at(20, "2", 200, 1), at(30, "1", 100, 2)},
			2, "two jobs ran at once", 1, "1, 2, 1",
		},
		"a job writes with a stamp from before the end of another": {
			[]string{at(10, "1", 100, 1), at(30, "1", 100, 2), at(25, "2", 200, 1)},
			2, "two jobs ran at once", 1, "1, 2",
		},
		"at the same instant": {
			[]string{at(10, "1", 100, 1), at(10, "2", 200, 1)},
			2, "two jobs ran at once", 1, "1, 2",
		},
		"not the neighbour, but one before": {
			[]string{at(90, "1", 100, 1), at(20, "2", 200, 1), at(30, "3", 300, 1)},
			3, "two jobs ran at once", 2, "1, 2, 3",
		},
		"a token comes back": {
			[]string{at(10, "2", 100, 1), at(20, "2", 200, 1)},
			2, "tokens in the log do not rise", 0, "2, 2",
		},
		"a token falls, as a number": {
			[]string{at(10, "10", 100, 1), at(20, "9", 200, 1)},
			2, "tokens in the log do not rise", 0, "10, 9",
		},
		"a token rises, as a number": {
			[]string{at(10, "9", 100, 1), at(20, "10", 200, 1)},
			2, "", 0, "9, 10",
		},
		"a life is missing": {
			[]string{at(10, "1", 100, 1)},
			2, "1 lives of the job, and 2 were expected", 0, "1",
		},
		"empty": {nil, 1, "0 lives of the job", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := judge(strings.Join(c.log, ""))
			if err != nil {
				t.Fatal(err)
			}
			if v.lines != len(c.log) || v.overlaps != c.overlaps || v.tokens() != c.tokens {
				t.Errorf("%d lines, %d overlaps, tokens %s; want %d, %d, %s", v.lines, v.overlaps, v.tokens(), len(c.log), c.overlaps, c.tokens)
			}
			switch err := v.err(c.lives); {
			case c.fault == "" && err != nil:
				t.Errorf("found a fault: %v", err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("found %v; want %q", err, c.fault)
			}
		})
	}
}

func TestJudgeRefusesOtherText(t *testing.T) {
	for _, text := range []string{
		"hello\n", "\n", "at=1 token=1 leader=a\n", at(1, "0", 1, 1), at(1, "x", 1, 1),
		strings.Replace(at(1, "1", 1, 1), "at=", "at=x", 1), at(1, "1", 1, 1) + "half a li",
	} {
		if v, err := judge(text); err == nil {
			t.Errorf("%q was taken for %+v", text, v)
		}
	}
}

func TestLine(t *testing.T) {
	want := line{At: 90 * time.Minute, Token: "42", ID: "web-3:4711", PID: 17, Number: 3}
	if got, err := parseLine(want.String()); err != nil || got != want {
		t.Errorf("%q was read as %+v, %v", want, got, err)
	}
}
