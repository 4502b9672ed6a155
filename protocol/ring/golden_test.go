package ring

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
	"github.com/electd/elect/protocol"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the transcripts")

// TestGolden tells the stories of testdata. Messages take 1 ms, saves too, and
// works return within 1 ms; times are the defaults.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txt", *rewrite, func(t *testing.T) func(golden.Command) string {
		return (&script{t: t}).do
	})
}

// script is a net and what it has told since the last command.
type script struct {
	t   *testing.T
	w   *net
	out strings.Builder
}

func (s *script) say(who protocol.NodeID, says string) {
	fmt.Fprintf(&s.out, "%-7v %s  %s\n", s.w.Now, who, says)
}

func (s *script) do(c golden.Command) string {
	s.out.Reset()
	switch c.Name {
	case "cluster": // n=5 [chang-roberts]: all are started, and stand
		n := 0
		if _, err := fmt.Sscan(c.Get("n", ""), &n); err != nil {
			s.t.Fatal(err)
		}
		s.w = newNet(s.t, n, func(cfg *Config) { cfg.ChangRoberts = c.Has("chang-roberts") })
		s.w.Log = s.say
		for i := range n {
			s.w.Start(i)
			s.w.Do(i, protocol.Campaign)
		}
	case "run":
		d, err := time.ParseDuration(c.Args[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.w.Run(d)
	case "start": // it stands
		s.each(c, func(i int) {
			s.w.Start(i)
			s.w.Do(i, protocol.Campaign)
		})
	case "crash":
		s.each(c, s.w.Kill)
	case "split": // those named from the others
		side := map[int]bool{}
		s.each(c, func(i int) { side[i] = true })
		s.w.Cut = func(from, to int) bool { return side[from] != side[to] }
	case "heal":
		s.w.Cut = nil
	case "do":
		var v protocol.Verb
		if err := v.UnmarshalText([]byte(c.Get("verb", ""))); err != nil {
			s.t.Fatal(err)
		}
		s.each(c, func(i int) { s.w.Do(i, v) })
	case "sent": // what was sent since it was asked last; no heartbeats
		for _, kind := range slices.Sorted(maps.Keys(s.w.Sent)) {
			if kind != Alive && kind != Ack {
				fmt.Fprintf(&s.out, "%d %s\n", s.w.Sent[kind], kind)
			}
		}
		clear(s.w.Sent)
	case "view":
		for _, n := range s.w.Nodes {
			if v := n.Machine.View(); n.Up {
				fmt.Fprintf(&s.out, "%s %v epoch=%d leader=%s token=%d\n", n.ID, v.Role, v.Term, v.Leader.ID, v.Leader.Term)
			} else {
				fmt.Fprintf(&s.out, "%s is dead\n", n.ID)
			}
		}
	default:
		s.t.Fatalf("%d: no command %s", c.Line, c.Name)
	}
	return s.out.String()
}

func (s *script) each(c golden.Command, do func(int)) {
	for i, n := range s.w.Nodes {
		if c.Has(string(n.ID)) {
			do(i)
		}
	}
}
