package blazingmq

import (
	"fmt"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// TestMessages counts the messages of one election with one candidate in a perfect network, up to
// the first heartbeats, by type, as the package comment states.
func TestMessages(t *testing.T) {
	for _, mode := range []Mode{Scouting, Sticky, Naive} {
		for n := 2; n <= 16; n++ {
			t.Run(fmt.Sprintf("%s/%d", mode, n), func(t *testing.T) {
				w := newWorld(t, uint64(n), n, Config{Mode: mode})
				for _, o := range w.nodes {
					o.candidate = o.i == 0
				}
				// One participant stands, and all are alive.
				w.start()
				w.until(time.Minute, func() bool { return len(w.leading()) == 1 })
				w.Run(time.Second) // all messages have arrived; no other heartbeat is due
				w.judge(mode, n-1, n-1)
				if n == 2 {
					return // one of two is no majority
				}
				// The leader dies silently, and one of the others stands.
				w.nodes[0].crash(true)
				w.nodes[n-1].do(protocol.Campaign, 0)
				clear(w.Sent)
				w.until(time.Minute, func() bool { return len(w.leading()) == 1 })
				w.Run(time.Second)
				w.judge(mode, n-1, n-2)
			})
		}
	}
}

// judge compares the messages sent with the formula: each participant of asked receives each
// question and the first heartbeat, and those of answered answer.
func (w *world) judge(mode Mode, asked, answered int) {
	w.t.Helper()
	want := map[protocol.MessageType]int{ElectionProposal: asked, ElectionResponse: answered, LeaderHeartbeat: asked}
	all, formula := 0, 3*len(w.nodes)-3
	if mode == Scouting {
		want[ScoutingRequest], want[ScoutingResponse] = asked, answered
		formula = 5*len(w.nodes) - 5
	}
	if answered < asked {
		formula--
		if mode == Scouting {
			formula--
		}
	}
	for kind, n := range w.Sent {
		if n != want[kind] {
			w.t.Errorf("%d × %s; want %d", n, kind, want[kind])
		}
		all += n
	}
	if all != formula {
		w.t.Errorf("%d messages; want %d", all, formula)
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
