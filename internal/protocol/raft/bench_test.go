package raft

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// steady is a leader and its first follower, with all that they send in a beat.
type steady struct {
	leader, follower *Machine
	in               protocol.Input
	fx               protocol.Effects
	now              protocol.Instant
	beat, ack        protocol.Message
}

func newSteady(tb testing.TB, n int, cfg Config) *steady {
	tb.Helper()
	w := newWorld(tb, 1, min(n, 3), cfg)
	w.start()
	w.Run(time.Second)
	led := w.leaders()
	if len(led) != 1 {
		tb.Fatalf("%d lead", len(led))
	}
	s := &steady{leader: led[0].Machine, follower: w.nodes[(led[0].i+1)%len(w.nodes)].Machine, now: protocol.Instant(100 * time.Hour)}
	s.round()
	return s
}

func (s *steady) step(m *Machine) {
	s.in.Now = protocol.Reading{Boot: s.now, Mono: s.now}
	s.in.Rand++
	s.fx.Reset()
	m.Step(&s.in, &s.fx)
}

// round is one heartbeat: its sendings, one receipt, the answers.
func (s *steady) round() {
	s.now += protocol.Instant(50 * time.Millisecond)
	s.in.Kind = protocol.Fire
	s.step(s.leader)
	s.beat = s.fx.Sends[0].Message
	s.in.Kind, s.in.From, s.in.Message = protocol.Receive, s.leader.cfg.Self, s.beat
	s.step(s.follower)
	s.ack = s.fx.Sends[0].Message
	for _, id := range s.leader.cfg.Members {
		if id != s.leader.cfg.Self {
			s.in.From, s.in.Message = id, s.ack
			s.step(s.leader)
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, cfg := range []Config{{}, {PreVote: true, CheckQuorum: true}} {
		s := newSteady(t, 3, cfg)
		if got := testing.AllocsPerRun(200, s.round); got != 0 {
			t.Errorf("%+v: %v allocations a heartbeat", cfg, got)
		}
		if s.leader.role != protocol.Leader || s.follower.leader != s.leader.self {
			t.Errorf("%+v: the round is not a steady one: %+v", cfg, s.leader.View())
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	s := newSteady(b, 3, Config{PreVote: true, CheckQuorum: true})
	b.ReportAllocs()
	for b.Loop() {
		s.round()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4, "ns/step")
}

// BenchmarkNew makes one of 10,000 machines, as the counts of messages need them.
func BenchmarkNew(b *testing.B) {
	cfg := Config{Self: "n77", Members: classictest.IDs(MaxMembers)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(cfg); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendState(b *testing.B) {
	s := newSteady(b, 3, Config{})
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = s.leader.AppendState(buf[:0])
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}
