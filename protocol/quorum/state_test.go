package quorum

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/electd/elect/protocol"
)

// TestStateIsComplete makes each step of random worlds a second time, in a
// machine that was loaded from the state before it: effects and the state after
// it must be the same.
func TestStateIsComplete(t *testing.T) {
	steps := 0
	for seed := uint64(1); seed <= 25; seed++ {
		w := chaos(seed, nil)
		before := make(map[*node][]byte)
		w.after = func(n *node, in *protocol.Input, fx *protocol.Effects) {
			after := n.m.AppendState(nil)
			m, err := New(n.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if in.Kind != protocol.Boot {
				if err := m.LoadState(before[n]); err != nil {
					t.Fatalf("seed %d, %s: %v", seed, n.name(), err)
				}
				var again protocol.Effects
				m.Step(in, &again)
				if got := m.AppendState(nil); !bytes.Equal(got, after) {
					t.Fatalf("seed %d, %v, %s: after %v the loaded machine has another state\n%+v\n%+v", seed, w.now, n.name(), in.Kind, n.m, m)
				}
				if !sameEffects(fx, &again) {
					t.Fatalf("seed %d, %v, %s: after %v the loaded machine has other effects", seed, w.now, n.name(), in.Kind)
				}
				if a, b := n.m.View(), m.View(); a != b || n.m.NextFire() != m.NextFire() {
					t.Fatalf("seed %d, %v, %s: other views: %+v and %+v, or timers", seed, w.now, n.name(), a, b)
				}
			}
			before[n] = after
			steps++
		}
		w.run(3 * time.Second)
		if len(w.violations) > 0 {
			t.Fatalf("seed %d: %v", seed, w.violations)
		}
	}
	t.Logf("%d steps", steps)
}

func sameEffects(a, b *protocol.Effects) bool {
	if len(a.Orders) != len(b.Orders) || len(a.Saves) != len(b.Saves) || len(a.Sends) != len(b.Sends) || len(b.Asks) > 0 {
		return false
	}
	for i := range a.Orders {
		if a.Orders[i] != b.Orders[i] {
			return false
		}
	}
	for i := range a.Saves {
		if a.Saves[i].Number != b.Saves[i].Number || !bytes.Equal(a.Saves[i].Data, b.Saves[i].Data) {
			return false
		}
	}
	for i := range a.Sends {
		if len(a.Sends[i].Message.Ranking) == 0 && len(b.Sends[i].Message.Ranking) == 0 {
			a.Sends[i].Message.Ranking, b.Sends[i].Message.Ranking = nil, nil
		}
		if !reflect.DeepEqual(a.Sends[i], b.Sends[i]) {
			return false
		}
	}
	return true
}

func TestLoadStateRefuses(t *testing.T) {
	cfg := Config{Self: voter(0), Membership: members(3)}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	step(m, &protocol.Input{Kind: protocol.Boot})
	good := m.AppendState(nil)
	for name, bad := range map[string][]byte{
		"nothing":          nil,
		"half of it":       good[:len(good)/2],
		"a byte too many":  append(bytes.Clone(good), 0),
		"a role of others": append([]byte{byte(protocol.Releasing)}, good[1:]...),
		"no round":         append([]byte{byte(protocol.Candidate)}, good[1:]...),
	} {
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.LoadState(bad); err == nil {
			t.Errorf("%s: loaded without an error", name)
		}
	}
}

// step makes one step and returns its effects.
func step(m *Machine, in *protocol.Input) *protocol.Effects {
	fx := new(protocol.Effects)
	m.Step(in, fx)
	return fx
}
