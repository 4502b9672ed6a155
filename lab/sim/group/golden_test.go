package group

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

var rewrite = flag.Bool("rewrite", false, "write what the tests get into the transcripts, and into testdata/kills.md")

// TestStories plays the transcripts: worlds in which what happens is said. Polls and answers are left out.
//
//	world members=3 keys=2       a world whose candidates are all members, at its beginning
//	run until=900ms              the story until then
//	fault kind=crash node=1 …    a fault, now; node=-1 is the coordinator's, nodes count from 0
//	led                          who leads which key
func TestStories(t *testing.T) {
	golden.Run(t, "testdata/*.txt", *rewrite, func(t *testing.T) func(golden.Command) string {
		var w *World
		var lines []string
		return func(c golden.Command) string {
			switch c.Name {
			case "world":
				w = storyWorld(t, number(t, c, "members"), number(t, c, "keys"))
				w.watch = func(line string) {
					if !strings.Contains(line, " poll ") && !strings.Contains(line, " answer ") {
						lines = append(lines, line)
					}
				}
				return ""
			case "run":
				until, err := time.ParseDuration(c.Get("until", ""))
				if err != nil {
					t.Fatal(err)
				}
				lines = nil
				for len(w.agenda) > 0 && w.agenda[0].at <= sim.Time(until) && w.Step() {
				}
				w.now = sim.Time(until)
				return strings.Join(lines, "\n")
			case "fault":
				lines = nil
				w.fault(&Fault{
					Kind: Kind(c.Get("kind", "")), Node: number(t, c, "node"), To: number(t, c, "to"), Witness: c.Has("witness"),
					For: span(t, c, "for"), Late: span(t, c, "late"), Linger: span(t, c, "linger"),
				})
				return strings.Join(lines, "\n")
			case "led":
				var b strings.Builder
				for _, k := range w.keys {
					who := "nobody"
					for _, x := range k.running {
						if x.proven() {
							who = fmt.Sprintf("%v under %v", x.view.Session, x.token)
						}
					}
					fmt.Fprintf(&b, "%s %s\n", k.name, who)
				}
				return b.String()
			}
			t.Fatalf("line %d: %s; want world, run, fault or led", c.Line, c.Name)
			return ""
		}
	})
}

func number(t *testing.T, c golden.Command, key string) int {
	n, err := strconv.Atoi(c.Get(key, "0"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func span(t *testing.T, c golden.Command, key string) time.Duration {
	d, err := time.ParseDuration(c.Get(key, "0s"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// storyWorld is a quiet world with exact clocks, and without writes.
func storyWorld(t *testing.T, members, keys int) *World {
	s := &Schedule{
		Seed: 7, Profile: "swarm", Keys: keys, Delay: time.Millisecond, Span: time.Hour,
		Settings: []machine.Settings{{
			Promise: 500 * time.Millisecond, Cover: 500 * time.Millisecond, Poll: 100 * time.Millisecond, Drain: 50 * time.Millisecond,
			Drift: protocol.DefaultDrift(), Vouchers: 3, Bits: 16,
		}},
	}
	for i := range members {
		s.Nodes = append(s.Nodes, Node{ID: protocol.NodeID(fmt.Sprintf("n%d", i+1)), Candidate: true, Member: true})
	}
	w, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
