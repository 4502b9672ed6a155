package blazingmq

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

func FuzzDecodeBallot(f *testing.F) {
	classictest.FuzzDecode(f, DecodeBallot, Ballot{Term: 7, Incarnation: 2}, Ballot{Term: protocol.MaxCount, Incarnation: 1})
}

// FuzzLoadState loads arbitrary bytes: a state that is accepted is canonical, and the machine can
// go on from it.
func FuzzLoadState(f *testing.F) {
	w := newWorld(f, 3, 3, Config{})
	w.start()
	for range 40 {
		w.Run(time.Second)
		for _, n := range w.nodes {
			f.Add(n.Machine.AppendState(nil))
		}
	}
	classictest.FuzzLoadState(f, func() (*Machine, error) { return New(Config{Self: "n1", Members: classictest.IDs(3)}) })
}

func FuzzStep(f *testing.F) {
	classictest.FuzzStep(f, classictest.Anything[*Machine]{
		Shape: func(b *classictest.Bytes) func() (*Machine, error) {
			how := b.Byte()
			cfg := Config{Self: "n2", Members: classictest.IDs(3), Mode: [...]Mode{Scouting, Sticky, Naive}[how%3], Durable: how&4 != 0}
			return func() (*Machine, error) { return New(cfg) }
		},
		Types: []protocol.MessageType{ScoutingRequest, ScoutingResponse, ElectionProposal, ElectionResponse, LeaderHeartbeat, HeartbeatResponse, LeadershipCession, "other"},
		Life:  func(m *Machine) uint64 { return m.ballot.Incarnation },
		Pace:  50 * time.Millisecond,
	})
}

// TestSteadyAllocs holds that heartbeats allocate nothing.
func TestSteadyAllocs(t *testing.T) {
	leader := newRig(t, Config{}, 5)
	leader.lead()
	follower := newRig(t, Config{}, 5)
	follower.hear("n2", LeaderHeartbeat, 1, false)
	for _, c := range []struct {
		name string
		r    *rig
		in   protocol.Input
	}{
		{"a leader's heartbeat", leader, protocol.Input{Kind: protocol.Fire}},
		{"a follower's", follower, protocol.Input{Kind: protocol.Receive, From: "n2", Message: protocol.Message{Type: LeaderHeartbeat, Term: 1, Incarnation: 1}}},
	} {
		n := testing.AllocsPerRun(100, func() {
			c.r.at += 2 * time.Second
			c.in.Now = at(c.r.at)
			c.in.Message.Seq++
			c.r.fx.Reset()
			c.r.m.Step(&c.in, &c.r.fx)
		})
		if n != 0 {
			t.Errorf("%s allocates %v times", c.name, n)
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	m, err := New(Config{Self: "n1", Members: classictest.IDs(5)})
	if err != nil {
		b.Fatal(err)
	}
	var fx protocol.Effects
	boot(m, &fx)
	in := protocol.Input{Kind: protocol.Receive, From: "n2", Message: protocol.Message{Type: LeaderHeartbeat, Term: 1, Incarnation: 1}}
	b.ReportAllocs()
	for b.Loop() {
		in.Message.Seq++
		fx.Reset()
		m.Step(&in, &fx)
	}
}
