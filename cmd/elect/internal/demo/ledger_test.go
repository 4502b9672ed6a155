package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
)

// at is a line of the job at so many milliseconds.
func at(ms int, token fence.Token, pid, number int) line {
	return line{At: time.Duration(ms) * time.Millisecond, Token: token, ID: ids[pid%size], PID: pid, Number: number}
}

// refused is the same, and the log had seen another token.
func refused(l line, seen fence.Token) line {
	l.Seen = seen
	return l
}

func TestLedger(t *testing.T) {
	for name, c := range map[string]struct {
		log      []line
		lives    int    // expected
		fault    string // in the error; none if empty
		overlaps int
		tokens   string
	}{
		"one after the other": {
			[]line{at(10, 1, 100, 1), at(30, 1, 100, 2), at(35, 2, 200, 1), at(55, 2, 200, 2), at(60, 4, 300, 1)},
			3, "", 0, "1, 2, 4",
		},
		"a process number comes back": {
			[]line{at(10, 1, 100, 1), at(20, 2, 200, 1), at(30, 3, 100, 1)},
			3, "", 0, "1, 2, 3",
		},
		"an old job writes once more": {
			[]line{at(10, 1, 100, 1), at(20, 2, 200, 1), at(30, 1, 100, 2)},
			2, "two jobs ran at once", 1, "1, 2, 1",
		},
		"an old job tries to write once more, and is refused": {
			[]line{at(10, 1, 100, 1), at(20, 2, 200, 1), refused(at(30, 1, 100, 2), 2)},
			2, "two jobs ran at once", 1, "1, 2",
		},
		"a job writes with a stamp from before the end of another": {
			[]line{at(10, 1, 100, 1), at(30, 1, 100, 2), at(25, 2, 200, 1)},
			2, "two jobs ran at once", 1, "1, 2",
		},
		"at the same instant": {
			[]line{at(10, 1, 100, 1), at(10, 2, 200, 1)},
			2, "two jobs ran at once", 1, "1, 2",
		},
		"not the neighbour, but one before": {
			[]line{at(90, 1, 100, 1), at(20, 2, 200, 1), at(30, 3, 300, 1)},
			3, "two jobs ran at once", 2, "1, 2, 3",
		},
		"a token comes back": {
			[]line{at(10, 2, 100, 1), at(20, 2, 200, 1)},
			2, "tokens in the log do not rise", 0, "2, 2",
		},
		"a token falls, as a number": {
			[]line{at(10, 10, 100, 1), at(20, 9, 200, 1)},
			2, "tokens in the log do not rise", 0, "10, 9",
		},
		"a token rises, as a number": {
			[]line{at(10, 9, 100, 1), at(20, 10, 200, 1)},
			2, "", 0, "9, 10",
		},
		"a late write is refused": {
			[]line{at(10, 1, 100, 1), at(20, 2, 200, 1), refused(at(30, 1, 7, 0), 2), at(40, 2, 200, 2)},
			2, "", 0, "1, 2",
		},
		"a late write passes": {
			[]line{at(10, 1, 100, 1), at(20, 2, 200, 1), at(30, 1, 7, 0)},
			2, "the log let 1 writes with a stale token pass", 0, "1, 2",
		},
		"a life is missing": {
			[]line{at(10, 1, 100, 1)},
			2, "1 lives of the job, and 2 were expected", 0, "1",
		},
		"empty": {nil, 1, "0 lives of the job", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var g ledger
			for _, l := range c.log {
				g.add(l)
			}
			if g.overlaps != c.overlaps || tokens(g.lives) != c.tokens {
				t.Errorf("%d overlaps, tokens %s; want %d, %s", g.overlaps, tokens(g.lives), c.overlaps, c.tokens)
			}
			switch err := g.err(c.lives); {
			case c.fault == "" && err != nil:
				t.Errorf("found a fault: %v", err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("found %v; want %q", err, c.fault)
			}
		})
	}
}

// FuzzLedger compares the ledger with a dumb twin: one that looks at each
// pair of lines.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{0x11, 0x11, 0x22, 0x22, 0x33})
	f.Add([]byte{0x11, 0x22, 0x11})
	f.Add([]byte{0x21, 0x12})
	f.Fuzz(func(t *testing.T, script []byte) {
		var g ledger
		var all []line
		for i, b := range script {
			l := at(10*i, fence.Token(b>>4)+1, int(b&15)+1, 1+i)
			g.add(l)
			all = append(all, l)
		}
		// Two jobs have run at once if one wrote between two lines of another, and
		// tokens rise if no line has one below an earlier line's.
		between, fell := false, false
		for i, a := range all {
			for k := i + 1; k < len(all); k++ {
				b := all[k]
				same := a.PID == b.PID && a.Token == b.Token
				fell = fell || b.Token < a.Token || b.Token == a.Token && b.PID != a.PID
				for _, c := range all[i+1 : k] {
					between = between || same && (c.PID != a.PID || c.Token != a.Token)
				}
			}
		}
		if between != (g.overlaps > 0) {
			t.Errorf("%v: %d overlaps, and one job wrote between two lines of another: %t", all, g.overlaps, between)
		}
		if fell && g.disorder == 0 || !fell && !between && g.disorder > 0 {
			t.Errorf("%v: %d tokens do not rise, and some fell: %t", all, g.disorder, fell)
		}
	})
}
