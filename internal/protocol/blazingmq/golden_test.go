package blazingmq

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
	"github.com/electd/elect/internal/protocol"
)

var rewrite = flag.Bool("rewrite", false, "write the actual output into the transcripts")

// TestGolden runs the scripts of testdata, the article's four cases among them. Messages take 0.5
// ms, saves 2 ms, and work 5 ms to return.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txt", *rewrite, func(t *testing.T) func(golden.Command) string {
		s := &script{t: t}
		return s.do
	})
}

type script struct {
	t   *testing.T
	w   *world
	out strings.Builder
}

// do runs one of these commands: cluster n=4 mode=naive, start n1…, run 10s, crash n1… [silently],
// restart n1, cut a-b…, mend a-b…, isolate n1, join n1, do n1… verb=resign, lsn.
func (s *script) do(c golden.Command) string {
	s.out.Reset()
	if c.Name == "cluster" {
		n, err := strconv.Atoi(c.Get("n", "4"))
		if err != nil {
			s.t.Fatal(err)
		}
		seed, err := strconv.ParseUint(c.Get("seed", "1"), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		s.w = newWorld(s.t, seed, n, Config{Mode: Mode(c.Get("mode", ""))})
		s.w.told = func(format string, args ...any) {
			fmt.Fprintf(&s.out, "%10.4fs  "+format+"\n", append([]any{s.w.Now.Seconds()}, args...)...)
		}
		return ""
	}
	w := s.w
	switch c.Name {
	case "start":
		s.each(c, (*node).start)
	case "run":
		d, err := time.ParseDuration(c.Args[0])
		if err != nil {
			s.t.Fatalf("%d: %v", c.Line, err)
		}
		w.Run(d)
		if c.Has("quietly") {
			s.out.Reset()
		}
		fmt.Fprintf(&s.out, "%10.4fs  leading: %s\n", w.Now.Seconds(), names(w.leading()))
	case "crash":
		s.each(c, func(n *node) { n.crash(c.Has("silently")) })
	case "isolate", "join":
		s.each(c, func(n *node) { w.isolate(n.i, c.Name == "isolate") })
	case "cut", "mend":
		for _, a := range c.Args {
			from, to, _ := strings.Cut(a, "-")
			f, t := indexOf(w, protocol.NodeID(from)), indexOf(w, protocol.NodeID(to))
			w.cut[[2]int{f, t}], w.cut[[2]int{t, f}] = c.Name == "cut", c.Name == "cut"
		}
	case "do":
		var v protocol.Verb
		if err := v.UnmarshalText([]byte(c.Get("verb", ""))); err != nil {
			s.t.Fatalf("%d: %v", c.Line, err)
		}
		s.each(c, func(n *node) { n.do(v) })
	case "lsn":
		for _, n := range w.nodes {
			fmt.Fprintf(&s.out, "%s %v\n", n.ID, n.Machine.LSN())
		}
	default:
		s.t.Fatalf("%d: no command %s", c.Line, c.Name)
	}
	return s.out.String()
}

func (s *script) each(c golden.Command, do func(*node)) {
	for _, n := range s.w.nodes {
		if c.Has("all") || c.Has(string(n.ID)) {
			do(n)
		}
	}
}
