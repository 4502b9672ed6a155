package blazingmq

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/electd/elect/protocol"
)

func FuzzDecodeBallot(f *testing.F) {
	f.Add(Ballot{Term: 7, Incarnation: 2}.Append(nil))
	f.Add(Ballot{Term: MaxTerm, Incarnation: 1}.Append(nil))
	f.Add([]byte{})
	f.Add([]byte{format})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := DecodeBallot(data)
		if err != nil {
			return
		}
		if again := b.Append(nil); !bytes.Equal(again, data) {
			t.Errorf("%x was accepted and encodes to %x", data, again)
		}
	})
}

// FuzzLoadState loads anything: what is accepted is canonical and can go on.
func FuzzLoadState(f *testing.F) {
	w := newWorld(f, 3, 3, Config{})
	w.start()
	for range 40 {
		w.run(time.Second)
		for _, n := range w.nodes {
			f.Add(n.m.AppendState(nil))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := New(Config{Self: "n1", Members: ids(3)})
		if err != nil {
			t.Fatal(err)
		}
		if m.LoadState(data) != nil {
			return
		}
		if again := m.AppendState(nil); !bytes.Equal(again, data) {
			t.Fatalf("%x was accepted and is written as %x", data, again)
		}
		var fx protocol.Effects
		m.Step(&protocol.Input{Kind: protocol.Fire, Now: at(time.Hour)}, &fx)
	})
}

// FuzzStep gives a machine anything at all. It must not panic, its state can be
// loaded, and its orders alternate.
func FuzzStep(f *testing.F) {
	f.Add(byte(0), []byte{6, 0, 0, 0, 1, 0, 2, 2, 3, 1, 1, 1, 1, 5, 1, 1, 1})
	f.Add(byte(2), []byte{6, 0, 0, 0, 1, 200, 3, 0, 0, 2, 9, 9, 5, 1, 1, 1, 1, 2, 3, 1, 4})
	f.Add(byte(5), bytes.Repeat([]byte{2, 1, 5, 1, 1, 1, 3, 200}, 20))
	f.Fuzz(func(t *testing.T, how byte, data []byte) {
		cfg := Config{Self: "n2", Members: ids(3), Mode: [...]Mode{Scouting, Sticky, Naive}[how%3], Durable: how&4 != 0}
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		twin, _ := New(cfg)
		next := func() byte {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return b
		}
		number := func() uint64 {
			b := next()
			if b < 240 || len(data) < 8 {
				return uint64(b % 8)
			}
			v := binary.BigEndian.Uint64(data)
			data = data[8:]
			return v
		}
		types := [...]protocol.MessageType{ScoutingRequest, ScoutingResponse, ElectionProposal, ElectionResponse, LeaderHeartbeat, HeartbeatResponse, LeadershipCession, "other"}
		var fx protocol.Effects
		var now time.Duration
		elected := false
		in := protocol.Input{Kind: protocol.Boot}
		for range 200 {
			in.Now = at(now)
			fx.Reset()
			m.Step(&in, &fx)
			for _, o := range fx.Orders {
				if (o.Kind == protocol.Elected) == elected {
					t.Fatalf("%v while elected is %t", o.Kind, elected)
				}
				elected = !elected
			}
			if v := m.View(); v.Elected != elected || elected && v.Token != v.Term {
				t.Fatalf("%+v after %v", v, fx.Orders)
			}
			state := m.AppendState(nil)
			if err := twin.LoadState(state); err != nil {
				t.Fatal(err)
			}
			if again := twin.AppendState(nil); !bytes.Equal(again, state) {
				t.Fatalf("%x is loaded as %x", state, again)
			}
			if len(data) == 0 {
				return
			}
			now += time.Duration(next()) * 50 * time.Millisecond
			from := protocol.NodeID([...]string{"n1", "n2", "n3", "n4"}[next()%4])
			in = protocol.Input{Kind: protocol.InputKind(next() % 9), Rand: number(), From: from}
			switch in.Kind {
			case protocol.Receive:
				in.Message = protocol.Message{Type: types[next()%8], Term: number(), Incarnation: number(), Echo: number(), Seq: number(), Granted: next()%2 == 0}
			case protocol.Saved:
				in.Number, in.Failed = number(), next()%4 == 0
			case protocol.PeerClosed:
				in.Incarnation = number()
			case protocol.Do:
				in.Command = protocol.Command{Verb: protocol.Verb(next() % 14), Token: number()}
			}
		}
	})
}

// Steady state allocates nothing.
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
	m, err := New(Config{Self: "n1", Members: ids(5)})
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
