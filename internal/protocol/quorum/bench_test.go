package quorum

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// steady is a leader of n voters and its first follower, with all messages of one heartbeat.
type steady struct {
	leader, follower *Machine
	n                int
	in               protocol.Input
	fx               protocol.Effects
	now              protocol.Reading
	beat             protocol.Message
}

func newSteady(tb testing.TB, n int) *steady {
	w := newWorld(1)
	for i := range n {
		w.add(Config{Self: voter(i), Membership: members(n)})
		w.nodes[i].start()
	}
	w.run(2 * time.Second)
	s := &steady{leader: w.nodes[0].m, follower: w.nodes[1].m, n: n, now: w.nodes[0].reading()}
	if s.leader.role != protocol.Leader {
		tb.Fatal("n1 does not lead")
	}
	s.round()
	return s
}

func (s *steady) step(m *Machine) {
	s.in.Now = s.now
	s.in.Rand++
	s.fx.Reset()
	m.Step(&s.in, &s.fx)
}

// round is one heartbeat: n−1 sends, one receipt, n−1 acks.
func (s *steady) round() {
	s.now.Boot += 100_000_000
	s.now.Mono += 100_000_000
	s.in.Kind = protocol.Fire
	s.step(s.leader)
	s.beat = s.fx.Sends[0].Message
	s.hear()
	ack := s.fx.Sends[0].Message
	for i := 1; i < s.n; i++ {
		v := s.leader.ballot.Membership.Voters[i]
		ack.Dir = v.Dir
		s.in.From, s.in.Message = v.ID, ack
		s.step(s.leader)
	}
}

func (s *steady) hear() {
	s.in.Kind, s.in.From, s.in.Message = protocol.Receive, "n1", s.beat
	s.step(s.follower)
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, n := range []int{1, 3, 5, 9} {
		if n == 1 {
			continue // it sends nothing
		}
		s := newSteady(t, n)
		if got := testing.AllocsPerRun(200, s.round); got != 0 {
			t.Errorf("%d voters: %v allocations a heartbeat", n, got)
		}
		if !s.leader.tenure.active {
			t.Errorf("%d voters: the leader is not active: the round is not a steady one", n)
		}
	}
}

// BenchmarkHeartbeat is one heartbeat among three voters, with all its steps: one send, one
// receipt, two acks.
func BenchmarkHeartbeat(b *testing.B) {
	s := newSteady(b, 3)
	b.ReportAllocs()
	for b.Loop() {
		s.round()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4, "ns/step")
}

func BenchmarkFollower(b *testing.B) {
	s := newSteady(b, 3)
	b.ReportAllocs()
	for b.Loop() {
		s.beat.Seq++
		s.hear()
	}
}

func BenchmarkAppendState(b *testing.B) {
	s := newSteady(b, 3)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = s.leader.AppendState(buf[:0])
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}
