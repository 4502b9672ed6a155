package classictest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/golden"
	"github.com/electd/elect/internal/protocol"
)

// Golden tells the stories of testdata, or with rewrite writes them anew. cluster
// makes the world of n that a story asks for. Messages of the types in beats are
// sent all the time, and are not counted.
func Golden[M protocol.Machine](t *testing.T, rewrite bool, cluster func(t *testing.T, n int, c golden.Command) *World[M], beats ...protocol.MessageType) {
	golden.Run(t, "testdata/*.txt", rewrite, func(t *testing.T) func(golden.Command) string {
		s := &script[M]{beats: beats}
		s.cluster = func(n int, c golden.Command) *World[M] { return cluster(t, n, c) }
		return func(c golden.Command) string { return s.do(t, c) }
	})
}

// script is a world and what it has told since the last command.
type script[M protocol.Machine] struct {
	cluster func(n int, c golden.Command) *World[M]
	beats   []protocol.MessageType
	w       *World[M]
	out     strings.Builder
}

func (s *script[M]) say(who protocol.NodeID, says string) {
	fmt.Fprintf(&s.out, "%-7v %s  %s\n", s.w.Now, who, says)
}

func (s *script[M]) do(t *testing.T, c golden.Command) string {
	s.out.Reset()
	switch c.Name {
	case "cluster": // n=5, and what the protocol knows: all are started, and stand
		n := 0
		if _, err := fmt.Sscan(c.Get("n", ""), &n); err != nil {
			t.Fatal(err)
		}
		s.w = s.cluster(n, c)
		s.w.Log = s.say
		s.w.StandAll()
	case "run":
		d, err := time.ParseDuration(c.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		s.w.Run(d)
	case "start": // it stands
		s.each(c, s.w.Stand)
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
			t.Fatal(err)
		}
		s.each(c, func(i int) { s.w.Do(i, v) })
	case "sent": // what was sent since it was asked last
		for _, kind := range slices.Sorted(maps.Keys(s.w.Sent)) {
			if !slices.Contains(s.beats, kind) {
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
		t.Fatalf("%d: no command %s", c.Line, c.Name)
	}
	return s.out.String()
}

func (s *script[M]) each(c golden.Command, do func(int)) {
	for i, n := range s.w.Nodes {
		if c.Has(string(n.ID)) {
			do(i)
		}
	}
}
