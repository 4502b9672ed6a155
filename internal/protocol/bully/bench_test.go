package bully

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// steady is a coordinator and one follower.
type steady struct {
	classictest.Hand
	leader, follower *Machine
}

func newSteady(tb testing.TB) *steady {
	tb.Helper()
	w := newNet(tb, 3, nil)
	w.StandAll()
	w.Run(2 * time.Second)
	s := &steady{leader: w.Nodes[2].Machine, follower: w.Nodes[0].Machine}
	s.Now = w.Reading(w.Nodes[0]).Boot
	s.round()
	return s
}

// round is one heartbeat: its messages, and one receipt.
func (s *steady) round() {
	s.Now = s.Now.Add(DefaultHeartbeat)
	s.Fire(s.leader)
	s.Carry("n3", s.follower)
}

func TestBeatAllocatesNothing(t *testing.T) {
	s := newSteady(t)
	if got := testing.AllocsPerRun(200, s.round); got != 0 {
		t.Errorf("%v allocations a heartbeat", got)
	}
	if s.leader.role != protocol.Leader || s.follower.leader.ID != "n3" {
		t.Errorf("the round is not a steady one: %+v, %+v", s.leader.View(), s.follower.View())
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	s := newSteady(b)
	b.ReportAllocs()
	for b.Loop() {
		s.round()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/step")
}
