package demo

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the transcripts")

// TestTranscripts tells models what happens, in the files of testdata, and
// expects sentences and pictures. The commands, with times since the beginning:
//
//	act ACT NODE at=T                 that was done to the node
//	job NODE token=N at=T to=T        its job writes a line at each beat
//	late NODE token=N seen=N at=T     a late write arrives; refused, if seen is given
//	answer NODE role=R at=T …         what the node says of itself
//	said NODE                         the input's lines, on its stderr
//	ended NODE code=N at=T
//	keys KEY…                         presses keys, and prints the acts they ask for
//	frame WxH [colour] [ascii] at=T   draws
//
// Each but frame prints the sentences that it has brought about, and those that
// it has changed.
func TestTranscripts(t *testing.T) {
	golden.Run(t, "testdata/*.txt", *rewrite, func(t *testing.T) func(golden.Command) string {
		p := &player{t: t, m: newModel("lan", time.Second), told: map[int]string{}}
		p.m.dir = "/tmp/elect-demo-123"
		return p.do
	})
}

type player struct {
	t    *testing.T
	m    *model
	told map[int]string
}

func (p *player) do(c golden.Command) string {
	now := p.m.now
	if text := c.Get("at", ""); text != "" {
		now = p.time(text)
	}
	node := 0
	if len(c.Args) > 0 {
		if node = index(c.Args[len(c.Args[:1])-1]); node < 0 && len(c.Args) > 1 {
			node = index(c.Args[1])
		}
	}
	if c.Name != "frame" && c.Name != "keys" && node < 0 {
		p.t.Fatalf("line %d: no node is named", c.Line)
	}
	token, _ := strconv.ParseUint(c.Get("token", "0"), 10, 64)
	seen, _ := strconv.ParseUint(c.Get("seen", "0"), 10, 64)
	var out strings.Builder
	switch c.Name {
	case "act":
		p.m.tick(now)
		a, ok := acts()[c.Args[0]]
		if !ok {
			p.t.Fatalf("line %d: unknown act", c.Line)
		}
		if why := p.m.refused(a, node); why != "" {
			return "refused: " + why
		}
		p.m.did(a, node, now)
	case "job":
		for at, n := now, 1; at <= p.time(c.Get("to", now.String())); at, n = at+beat, n+1 {
			p.m.tick(at)
			p.m.wrote(line{At: at, Token: fence.Token(token), ID: ids[node], PID: 100 + int(token), Number: n})
		}
	case "late":
		p.m.tick(now)
		p.m.wrote(line{At: now, Token: fence.Token(token), ID: ids[node], PID: 9, Seen: fence.Token(seen)})
	case "answer":
		p.m.tick(now)
		lease, _ := time.ParseDuration(c.Get("lease", "0s"))
		r := reading{role: c.Get("role", "follower"), founded: !c.Has("unfounded"), follows: c.Get("follows", ""), token: fence.Token(token), active: lease > 0, lease: lease}
		r.hears = strings.FieldsFunc(c.Get("hears", "n1,n2,n3"), func(r rune) bool { return r == ',' })
		p.m.answered(node, now, r)
	case "said":
		for text := range strings.Lines(c.Input) {
			p.m.spoke(node, strings.TrimSuffix(text, "\n"))
		}
	case "ended":
		p.m.tick(now)
		code, _ := strconv.Atoi(c.Get("code", "0"))
		p.m.ended(node, code, now)
	case "keys":
		for _, key := range c.Args {
			o, quit := p.m.key(key)
			if o != nil {
				for name, a := range acts() {
					if a == o.act {
						fmt.Fprintf(&out, "%s: %s %s\n", key, name, ids[o.node])
					}
				}
			}
			if quit {
				out.WriteString(key + ": quit\n")
			}
		}
	case "frame":
		p.m.tick(now)
		return p.frame(c)
	default:
		p.t.Fatalf("line %d: unknown command %s", c.Line, c.Name)
	}
	return out.String() + p.fresh()
}

func acts() map[string]act {
	return map[string]act{
		"start": start, "kill": kill, "killjob": killJob, "pause": pause, "wake": wake, "cut": cut, "heal": heal, "resign": resign,
		"transfer": transfer, "late": late,
	}
}

func (p *player) time(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// fresh prints the sentences that are new or have changed.
func (p *player) fresh() string {
	var b strings.Builder
	for _, s := range p.m.story {
		text := fmt.Sprintf("%.2f s: %s", s.at.Seconds(), s.text)
		if s.open {
			text += " (to be told anew)"
		}
		if p.told[s.key] != text {
			p.told[s.key] = text
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

// frame draws, between bars that show blanks at the ends of lines, and checks
// what holds for every picture.
func (p *player) frame(c golden.Command) string {
	f := frame{colour: c.Has("colour"), ascii: c.Has("ascii")}
	if _, err := fmt.Sscanf(c.Args[0], "%dx%d", &f.width, &f.height); err != nil {
		p.t.Fatal(err)
	}
	lines := picture(p.m, f)
	if len(lines) != f.height {
		p.t.Errorf("line %d: %d lines; want %d", c.Line, len(lines), f.height)
	}
	var b strings.Builder
	for _, l := range lines {
		bare := l
		if f.colour {
			for _, code := range codes {
				bare = strings.ReplaceAll(bare, "\x1b["+code+"m", "")
			}
			bare = strings.ReplaceAll(bare, "\x1b[0m", "")
		}
		if strings.ContainsRune(bare, '\x1b') {
			p.t.Errorf("line %d: %q has an escape that is no colour, or no colour was asked for", c.Line, l)
		}
		if n := utf8.RuneCountInString(bare); n > f.width {
			p.t.Errorf("line %d: %q is %d wide; want %d at most", c.Line, bare, n, f.width)
		}
		if f.ascii && len(bare) != utf8.RuneCountInString(bare) {
			p.t.Errorf("line %d: %q is not ASCII", c.Line, bare)
		}
		b.WriteString("|" + strings.ReplaceAll(l, "\x1b", "ESC") + "\n")
	}
	return b.String()
}

// TestPictureFits draws pictures of all sizes: none may be too wide or too high,
// or panic.
func TestPictureFits(t *testing.T) {
	m := newModel("lan", time.Second)
	m.did(start, 0, 0)
	for k := range 400 {
		m.tick(time.Duration(k) * beat)
		m.wrote(line{At: m.now, Token: fence.MaxToken, ID: "n1", PID: 1, Number: 1_000_000 + k})
	}
	m.spoke(0, strings.Repeat("longer than any line ", 40)+"\x1b[2J")
	m.did(pause, 0, m.now)
	for _, help := range []bool{false, true} {
		m.help = help
		for w := range 200 {
			for h := range 70 {
				lines := picture(m, frame{width: w, height: h})
				if len(lines) != h {
					t.Fatalf("%d x %d: %d lines", w, h, len(lines))
				}
				for _, l := range lines {
					if utf8.RuneCountInString(l) > w || strings.ContainsRune(l, '\x1b') {
						t.Fatalf("%d x %d: %q", w, h, l)
					}
				}
			}
		}
	}
}

// TestKeys draws the keys at all widths: who has no manual must find the way
// out, and to the other keys.
func TestKeys(t *testing.T) {
	for width := leastWidth; width <= mostWidth; width++ {
		p := painter{m: newModel("lan", time.Second), frame: frame{width: width}}
		r := p.keys()
		text := r.paint(false)
		if r.width() > width {
			t.Errorf("%d: %q is %d wide", width, text, r.width())
		}
		all := strings.Contains(text, " j ") && strings.Contains(text, " w ")
		if want := map[bool]string{true: " ? help", false: " ? more"}[all]; !strings.Contains(text, want) || !strings.HasSuffix(text, " q quit") {
			t.Errorf("%d: %q; want %q in it and q quit last", width, text, want)
		}
	}
}
