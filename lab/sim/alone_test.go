package sim

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Without leases, two participants that are elected and run are two leaders. A frozen one is a
// leader again when it is thawed.
func TestAlone(t *testing.T) {
	two := [][]act{{wins(10*ms, 1), ends(90*ms, 1)}, {wins(30*ms, 2), ends(200*ms, 2)}}
	for _, c := range []struct {
		name string
		ops  []Op
		at   time.Duration // of the overlap, 0 if there is none
		led  time.Duration // for which two led
	}{
		{"two at one time", nil, 30 * ms, 60 * ms},
		{"one of them dies before", []Op{{At: Time(20 * ms), Kind: OpKill, Node: "n1", For: time.Second}}, 0, 0},
		{"one of them is frozen", []Op{{At: Time(20 * ms), Kind: OpPause, Node: "n1", For: time.Second}}, 0, 0},
		{"and is thawed", []Op{{At: Time(20 * ms), Kind: OpPause, Node: "n1", For: 40 * ms}}, 60 * ms, 30 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := stageOf(two...)
			p.Leaseless, p.Expect = true, map[Invariant]Expectation{Exclusive: MayFail}
			s.Faults, s.Settle, s.Ops = 300*ms, 0, c.ops
			w := play(t, p, s)
			r := w.Result()
			switch v := r.Failure(Exclusive); {
			case v == nil && c.at != 0:
				t.Errorf("nothing was found; want an overlap at %v", c.at)
			case v != nil && time.Duration(v.At) != c.at:
				t.Errorf("%v; want it at %v", v, c.at)
			}
			if r.Stats.TwoLed != c.led {
				t.Errorf("two led for %v; want %v", r.Stats.TwoLed, c.led)
			}
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
	p, s := stageOf(two...)
	p.Leaseless, s.Settle = true, 0
	wants(t, p, s, Exclusive, "elected, with token 2, while n1 is, with token 1")
}

// Two proven leases count for as long as both are proven, by true time.
func TestTwoLed(t *testing.T) {
	p, s := stageOf([]act{leads(10*ms, 1, 100*ms), renews(50*ms, 1, 120*ms)}, []act{leads(80*ms, 2, 200*ms), renews(90*ms, 2, 210*ms)})
	p.Expect = map[Invariant]Expectation{Exclusive: MayFail, NoneOffered: MayFail, ToldInTime: MayFail}
	s.Faults, s.Settle = 300*ms, 0
	if st := play(t, p, s).Result().Stats; st.TwoLed != 40*ms || st.Led != 200*ms {
		t.Errorf("two led for %v, and one for %v; want 40ms and 200ms", st.TwoLed, st.Led)
	}
}

// A leader's heartbeats are not part of an election.
func TestElecting(t *testing.T) {
	send := func(at time.Duration, kind protocol.MessageType) act {
		return act{at: at, sends: []protocol.Send{{To: "n2", Message: protocol.Message{Type: kind}}}, view: protocol.View{Role: protocol.Follower}}
	}
	p, s := stageOf([]act{send(10*ms, "alive"), send(20*ms, "vote"), send(30*ms, "alive")})
	p.Heartbeat = func(m *protocol.Message) bool { return m.Type == "alive" }
	s.Settle = 0
	if st := play(t, p, s).Result().Stats; st.Messages != 3 || st.Electing != 1 {
		t.Errorf("%d messages, %d of elections; want 3 and 1", st.Messages, st.Electing)
	}
}
