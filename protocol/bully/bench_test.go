package bully

import (
	"testing"
	"time"

	"github.com/electd/elect/protocol"
)

// steady is a coordinator and one that follows it, with what is sent in a beat.
type steady struct {
	leader, follower *Machine
	in               protocol.Input
	fx               protocol.Effects
	now              protocol.Instant
}

func newSteady(tb testing.TB) *steady {
	tb.Helper()
	w := newNet(tb, 3, nil)
	for i := range w.Nodes {
		w.Start(i)
		w.Do(i, protocol.Campaign)
	}
	w.Run(2 * time.Second)
	s := &steady{leader: w.Nodes[2].Machine, follower: w.Nodes[0].Machine, now: w.Reading(w.Nodes[0]).Boot}
	s.round()
	return s
}

func (s *steady) step(m *Machine) {
	s.in.Now = protocol.Reading{Boot: s.now, Mono: s.now}
	s.fx.Reset()
	m.Step(&s.in, &s.fx)
}

// round is one heartbeat: its sendings, and one receipt.
func (s *steady) round() {
	s.now = s.now.Add(DefaultHeartbeat)
	s.in.Kind = protocol.Fire
	s.step(s.leader)
	s.in.Kind, s.in.From, s.in.Message = protocol.Receive, s.leader.cfg.Self, s.fx.Sends[0].Message
	s.step(s.follower)
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
