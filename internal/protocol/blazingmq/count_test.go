package blazingmq

import (
	"maps"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// TestMessages counts the messages of the first election, in which all are alive and one stands, up to the first
// heartbeats, by type, as the package comment states. [github.com/electd/elect/lab/sim/count] counts those after the
// death of a leader.
func TestMessages(t *testing.T) {
	for _, mode := range []Mode{Scouting, Sticky, Naive} {
		for n := 2; n <= 16; n++ {
			w := newWorld(t, uint64(n), n, Config{Mode: mode})
			for _, o := range w.nodes {
				o.candidate = o.i == 0
			}
			w.start()
			w.until(time.Minute, func() bool { return len(w.leading()) == 1 })
			w.Run(time.Second) // all messages have arrived; no other heartbeat is due
			want := map[protocol.MessageType]int{ElectionProposal: n - 1, ElectionResponse: n - 1, LeaderHeartbeat: n - 1}
			if mode == Scouting {
				want[ScoutingRequest], want[ScoutingResponse] = n-1, n-1
			}
			if !maps.Equal(w.Sent, want) {
				t.Errorf("%s, n = %d: %v; want %v", mode, n, w.Sent, want)
			}
		}
	}
}

// 10,000 members are accepted and no more.
func TestMany(t *testing.T) {
	const n = MaxMembers
	m, err := New(Config{Self: "n9999", Members: classictest.IDs(n)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Self: "n1", Members: classictest.IDs(n + 1)}); err == nil {
		t.Errorf("%d members are accepted", n+1)
	}
	var fx protocol.Effects
	boot(m, &fx)
	for _, in := range []protocol.Input{
		{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}},
		{Kind: protocol.Fire, Now: at(time.Minute)},
	} {
		m.Step(&in, &fx)
	}
	if got := len(fx.Sends); got != n-1 {
		t.Fatalf("%d messages; want %d", got, n-1)
	}
	for i := range n / 2 {
		if m.role != protocol.PreCandidate {
			t.Fatalf("it is %v after %d answers", m.role, i)
		}
		m.Step(&protocol.Input{Kind: protocol.Receive, Now: at(time.Minute), From: m.cfg.Members[i], Message: protocol.Message{Type: ScoutingResponse, Incarnation: 1, Echo: 1, Granted: true}}, &fx)
	}
	if m.role != protocol.Candidate {
		t.Errorf("it is %v after %d answers", m.role, n/2)
	}
}

func at(d time.Duration) protocol.Reading {
	return protocol.Reading{Boot: protocol.Instant(d), Mono: protocol.Instant(d)}
}

// boot begins the machine's first life, and its first save is durable.
func boot(m *Machine, fx *protocol.Effects) {
	m.Step(&protocol.Input{Kind: protocol.Boot}, fx)
	m.Step(&protocol.Input{Kind: protocol.Saved, Number: 1}, fx)
	fx.Reset()
}
