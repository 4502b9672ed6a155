//go:build linux

package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/register"
)

// TestMaterial: a run that left no evidence is no good run, if evidence was promised.
func TestMaterial(t *testing.T) {
	one := newTape(t, "n1", 1, nil).elect(5)
	two := newTape(t, "n2", 1, nil).elect(7) // in the same terms as n1, too, of which others tell
	early := newTape(t, "n1", 1, nil).elect(4)
	whole := func() *script {
		s := sound()
		s.events[0].Material = []string{Writes, Flights, Leases, Watches}
		s.files = map[string][]byte{
			segmentPath("data", "n1", "flight-00000001.ndjson"):        one.out.Bytes(),
			segmentPath("flight", "n2", "1", "flight-00000001.ndjson"): two.out.Bytes(),
		}
		// n2 has its leases a minute later than n1.
		s.at(second, Event{Kind: Clock, Node: 0})
		s.at(second, Event{Kind: Clock, Node: 1, Ahead: -time.Minute})
		return s
	}
	for _, c := range []struct {
		name   string
		doctor func(s *script)
		want   string // "": nothing lacks
	}{
		{"all is there", func(*script) {}, ""},
		{"nothing is promised", func(s *script) { s.events[0].Material, s.files, s.ops, s.watch = nil, nil, nil, nil }, ""},
		{"no record of one", func(s *script) { delete(s.files, segmentPath("data", "n1", "flight-00000001.ndjson")) }, "n1 led for 18s, and there is no flight record"},
		{"a record without a step", func(s *script) {
			path := segmentPath("flight", "n2", "1", "flight-00000001.ndjson")
			s.files[path] = slices.Concat(slices.Collect(lines(s.files[path]))[:1]...)
		}, "n2 led for 38s, and there is no flight record"},
		{"no record of one of two tenures", func(s *script) {
			s.files[segmentPath("data", "n1", "flight-00000001.ndjson")] = early.out.Bytes()
		}, "of 1 of the 2 tenures that were longer than 1s a flight record has steps; want it of 90 %"},
		{"no lease of one of two tenures", func(s *script) {
			s.files[segmentPath("data", "n1", "flight-00000001.ndjson")] = early.out.Bytes()
		}, "of 1 of the 2 tenures that were longer than 1s a lease was compared; want it of 90 %"},
		{"no record of a tenure that was short", func(s *script) {
			s.files[segmentPath("data", "n1", "flight-00000001.ndjson")] = early.out.Bytes()
			s.lives[0].Last, s.lives[1].Last = 2*second+900*ms, 2*second+900*ms
		}, ""},
		{"records of another protocol, of which no lease is promised", func(s *script) {
			s.events[0].Material = []string{Writes, Flights, Watches}
			s.files[segmentPath("data", "n1", "flight-00000001.ndjson")] = early.out.Bytes()
		}, ""},
		{"no record of one that led for an instant", func(s *script) {
			s.lives[0].Last, s.lives[1].Last = 2*second+900*ms, 2*second+900*ms
			delete(s.files, segmentPath("data", "n1", "flight-00000001.ndjson"))
		}, ""},
		{"a clock of which nothing is known", func(s *script) {
			s.events = slices.DeleteFunc(s.events, func(e Event) bool { return e.Kind == Clock && e.Node == 1 })
		}, "n2 led for 38s, and how its clock ran is not known"},
		{"records without a lease", func(s *script) {
			for path, text := range s.files {
				s.files[path] = slices.Concat(slices.Collect(lines(text))[:3]...)
			}
		}, "no lease was compared"},
		{"no client", func(s *script) { s.ops = nil }, "has accepted nothing in 0 operations"},
		{"clients that only look", func(s *script) {
			s.ops = slices.DeleteFunc(s.ops, func(o *op) bool { return o.op == string(register.Write) || o.op == string(register.Stream) })
			for _, o := range s.ops {
				o.highest, o.seen = 0, ""
			}
		}, "has accepted nothing in"},
		{"no watcher", func(s *script) { s.watch = nil }, "0 watchers have seen nothing"},
		{"no watcher of a run that was cut short", func(s *script) {
			s.watch = nil
			s.events = slices.DeleteFunc(s.events, func(e Event) bool { return e.Kind == Final })
		}, ""},
		{"a leader that is not in the ledger", func(s *script) {
			s.events = slices.DeleteFunc(s.events, func(e Event) bool { return e.Kind == Final })
			s.at(58*second, Event{Kind: Final, Node: 2, Token: 9})
		}, "in the end n3 led with token 9, and no life in the ledger has that token"},
		{"an unknown promise", func(s *script) { s.events[0].Material = []string{"proofs"} }, `promises "proofs"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := whole()
			c.doctor(s)
			r := s.judge(t)
			if c.want == "" && r.Counts[CheckMaterial] > 0 || c.want != "" && !slices.ContainsFunc(r.Violations, func(v Violation) bool {
				return v.Check == CheckMaterial && strings.Contains(v.Text, c.want)
			}) {
				t.Errorf("want %q in a violation of %s:\n%v", c.want, CheckMaterial, &r)
			}
			if c.name == "all is there" && (r.Leases != 12 || r.All() != r.Counts[CheckTerm]) {
				t.Errorf("%d leases; want 12, and no violation but those of the terms\n%v", r.Leases, &r)
			}
		})
	}
}
