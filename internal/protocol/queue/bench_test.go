package queue

import (
	"testing"

	"github.com/electd/elect/internal/protocol"
)

// renew takes a leader or a waiter from one renewal or poll to the next, and answers its asks.
func (s *script) renew() {
	s.fire()
	s.todo = append(s.todo[:0], s.fx.Asks...)
	for i := 0; i < len(s.todo); i++ {
		a := &s.todo[i]
		s.after(ms)
		answer := protocol.Answer{Number: a.Number, Status: protocol.StatusDone, Session: a.Session, TTL: s.m.cfg.TTL, Revision: 60}
		if answer.Entry = s.m.own; s.m.phase == waiting {
			answer.Entry = protocol.Entry{Order: 3, Session: 103, Holder: "other"}
		}
		s.step(protocol.Input{Kind: protocol.Replied, Answer: answer})
		s.todo = append(s.todo, s.fx.Asks...)
	}
}

func steady(tb testing.TB) map[string]*script {
	all := make(map[string]*script)
	for name, cfg := range settings() {
		s := newScript(tb, cfg)
		s.lead()
		all[name+"/leading"] = s
		s = newScript(tb, cfg)
		s.enter(9)
		s.list(protocol.QueueMark{}, 3)
		all[name+"/waiting"] = s
	}
	return all
}

// TestSteadyAllocatesNothing: waiting and renewing allocate nothing.
func TestSteadyAllocatesNothing(t *testing.T) {
	for name, s := range steady(t) {
		before := s.m.phase
		if n := testing.AllocsPerRun(1000, s.renew); n != 0 {
			t.Errorf("%s: %v allocations a renewal", name, n)
		}
		if s.m.phase != before {
			t.Errorf("%s: %s became %s", name, phaseName(before), phaseName(s.m.phase))
		}
	}
}

// BenchmarkSteady is one renewal or poll: a Fire and an answer.
func BenchmarkSteady(b *testing.B) {
	for name, s := range steady(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.renew()
			}
		})
	}
}

// BenchmarkList is a waiter's read of a queue of a thousand entries.
func BenchmarkList(b *testing.B) {
	s := newScript(b, Config{Self: "n1", Dialect: ZooKeeper})
	s.enter(5000)
	var all []protocol.Entry
	for i := range uint64(1000) {
		all = append(all, protocol.Entry{Order: i + 1, Session: i + 1, Holder: "other"})
	}
	all = append(all, s.m.own)
	b.ReportAllocs()
	for b.Loop() {
		s.m.phase, s.m.main = listing, pending{number: 3, op: protocol.List, session: 7, sent: s.now.Boot}
		s.step(protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{Number: 3, Status: protocol.StatusDone, Entries: all}})
	}
}
