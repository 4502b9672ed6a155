package ring

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// steady is a leader and its neighbours.
type steady struct {
	classictest.Hand
	leader, before, after *Machine
}

func newSteady(tb testing.TB) *steady {
	tb.Helper()
	w := newNet(tb, 3, nil)
	w.StandAll()
	w.Run(2 * time.Second)
	w.follow("n3")
	s := &steady{leader: w.Nodes[2].Machine, before: w.Nodes[1].Machine, after: w.Nodes[0].Machine}
	s.Now = w.Reading(w.Nodes[0]).Boot
	s.round()
	return s
}

// asks is a beat of one, and the answer of its successor.
func (s *steady) asks(m, next *Machine) {
	s.Fire(m)
	s.Carry(m.cfg.Self, next)
	s.Carry(next.cfg.Self, m)
}

// round is one heartbeat: the leader asks and is asked.
func (s *steady) round() {
	s.Now = s.Now.Add(DefaultHeartbeat)
	s.asks(s.before, s.leader)
	s.asks(s.leader, s.after)
}

func TestBeatAllocatesNothing(t *testing.T) {
	s := newSteady(t)
	if got := testing.AllocsPerRun(200, s.round); got != 0 {
		t.Errorf("%v allocations a heartbeat", got)
	}
	if s.leader.role != protocol.Leader || s.before.leader != s.leader.own() || s.after.leader != s.leader.own() {
		t.Errorf("the round is not a steady one: %+v, %+v, %+v", s.leader.View(), s.before.View(), s.after.View())
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	s := newSteady(b)
	b.ReportAllocs()
	for b.Loop() {
		s.round()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/6, "ns/step")
}
