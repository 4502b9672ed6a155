package ring

import (
	"testing"
	"time"

	"github.com/electd/elect/protocol"
)

// steady is a leader and its neighbours, with all that they send in a beat.
type steady struct {
	leader, before, after *Machine
	in                    protocol.Input
	fx                    protocol.Effects
	now                   protocol.Instant
}

func newSteady(tb testing.TB) *steady {
	tb.Helper()
	w := newNet(tb, 3, nil)
	for i := range w.Nodes {
		w.Start(i)
		w.Do(i, protocol.Campaign)
	}
	w.Run(2 * time.Second)
	w.follow("n3")
	s := &steady{leader: w.Nodes[2].Machine, before: w.Nodes[1].Machine, after: w.Nodes[0].Machine, now: w.Reading(w.Nodes[0]).Boot}
	s.round()
	return s
}

func (s *steady) step(m *Machine) {
	s.in.Now = protocol.Reading{Boot: s.now, Mono: s.now}
	s.fx.Reset()
	m.Step(&s.in, &s.fx)
}

// asks is a beat of one, and the answer of its successor.
func (s *steady) asks(m, next *Machine) {
	s.in.Kind = protocol.Fire
	s.step(m)
	s.in.Kind, s.in.From, s.in.Message = protocol.Receive, m.cfg.Self, s.fx.Sends[0].Message
	s.step(next)
	s.in.From, s.in.Message = next.cfg.Self, s.fx.Sends[0].Message
	s.step(m)
}

// round is one heartbeat: the leader asks and is asked.
func (s *steady) round() {
	s.now = s.now.Add(DefaultHeartbeat)
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
