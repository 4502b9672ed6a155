package raft

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the transcripts")

// TestGolden runs the scripts of testdata. Messages take 0.5 ms, saves 2 ms, and work 5 ms to
// return; times are the defaults.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txt", *rewrite, func(t *testing.T) func(golden.Command) string {
		return (&script{t: t}).do
	})
}

// script is a world and its log since the last command.
type script struct {
	t   *testing.T
	w   *world
	out strings.Builder
}

func (s *script) do(c golden.Command) string {
	s.out.Reset()
	switch c.Name {
	case "cluster": // n=3 seed=1 [prevote] [checkquorum] [require]
		n, seed := 3, uint64(1)
		s.scan(c.Get("n", "3"), &n)
		s.scan(c.Get("seed", "1"), &seed)
		cfg := Config{PreVote: c.Has("prevote"), CheckQuorum: c.Has("checkquorum")}
		if c.Has("require") {
			cfg.Position = RequirePosition
		}
		s.w = newWorld(s.t, seed, n, cfg)
		s.w.log = func(n *node, format string, args ...any) {
			fmt.Fprintf(&s.out, "%-12v %-4s %s\n", s.w.Now, n.ID, fmt.Sprintf(format, args...))
		}
		if !c.Has("down") {
			s.w.start()
		}
	case "run":
		d, err := time.ParseDuration(c.Args[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.w.Run(d)
	case "start":
		s.each(c, (*node).start)
	case "crash":
		s.each(c, (*node).crash)
	case "disk": // bad or good
		s.each(c, func(n *node) { n.Bad = c.Has("bad") })
	case "cut", "mend": // n1-n2, or n1>n2 one way
		for _, a := range c.Args {
			from, to, one := strings.Cut(a, ">")
			if !one {
				from, to, _ = strings.Cut(a, "-")
			}
			f, t := s.node(from), s.node(to)
			s.w.cut[f.i][t.i] = c.Name == "cut"
			if !one {
				s.w.cut[t.i][f.i] = c.Name == "cut"
			}
		}
	case "do":
		var v protocol.Verb
		if err := v.UnmarshalText([]byte(c.Get("verb", ""))); err != nil {
			s.t.Fatal(err)
		}
		s.each(c, func(n *node) { n.do(protocol.Command{Verb: v}) })
	case "locate":
		s.each(c, func(n *node) { n.locate(c.Get("at", "")) })
	case "view":
		for _, n := range s.w.nodes {
			if n.Up {
				v := n.Machine.View()
				fmt.Fprintf(&s.out, "%s %v term=%d leader=%s elected=%t\n", n.ID, v.Role, v.Term, v.Leader.ID, v.Elected)
			} else {
				fmt.Fprintf(&s.out, "%s is dead\n", n.ID)
			}
		}
	default:
		s.t.Fatalf("%d: no command %s", c.Line, c.Name)
	}
	return s.out.String()
}

func (s *script) scan(text string, into any) {
	if _, err := fmt.Sscan(text, into); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) node(id string) *node {
	i := members.Place(s.w.nodes[0].cfg.Members, protocol.NodeID(id))
	if i < 0 {
		s.t.Fatalf("no node %s", id)
	}
	return s.w.nodes[i]
}

func (s *script) each(c golden.Command, do func(*node)) {
	for _, a := range c.Args {
		if strings.HasPrefix(a, "n") {
			do(s.node(a))
		}
	}
}
