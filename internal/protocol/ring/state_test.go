package ring

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

func TestConfig(t *testing.T) {
	three := classictest.IDs(3)
	for _, c := range []struct {
		cfg  Config
		says string // empty: valid
	}{
		{Config{Self: "n1", Members: three}, ""},
		{Config{Self: "n1", Members: three[:1]}, ""},
		{Config{Self: "n4", Members: three}, "n4 is none of the 3"},
		{Config{Self: "n1", Members: three, Heartbeat: -1}, "heartbeat -1ns"},
		{Config{Self: "n1", Members: three, Silence: 2 * time.Hour}, "silence 2h"},
		{Config{Self: "n1", Members: three, Heartbeat: time.Second, Silence: time.Second}, "want at least 2s"},
		{Config{Self: "n1", Members: three, Ring: []protocol.NodeID{"n3", "n1", "n2"}}, ""},
		{Config{Self: "n1", Members: three, Ring: three[:2]}, "2 around the ring and 3 members"},
		{Config{Self: "n1", Members: three, Ring: []protocol.NodeID{"n1", "n1", "n2"}}, "does not stand once"},
		{Config{Self: "n3", Members: three, Ring: []protocol.NodeID{"n1", "n1", "n2"}}, "does not stand once"},
	} {
		_, err := New(c.cfg)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v; want %q", c.cfg.Self, err, c.says)
		}
	}
	if got := (Config{}).WorstTakeover(); got != 1600*time.Millisecond {
		t.Errorf("the worst takeover is %v", got)
	}
}

// second is n2 of n1 to n4.
func second() (*Machine, error) { return New(Config{Self: "n2", Members: classictest.IDs(4)}) }

func TestHalted(t *testing.T) {
	m, err := second()
	if err != nil {
		t.Fatal(err)
	}
	classictest.Halted(t, m)
}

func TestStateKnowsAllFields(t *testing.T) {
	classictest.StateKnowsAllFields(t, &Machine{role: protocol.Follower}, "cfg", "place", "now", "fault", "ballot.dirty")
}

func FuzzLoadState(f *testing.F) { classictest.FuzzLoadState(f, second) }

func FuzzStep(f *testing.F) {
	classictest.FuzzStep(f, classictest.Anything[*Machine]{
		Shape: func(b *classictest.Bytes) func() (*Machine, error) {
			cfg := Config{Self: "n2", Members: classictest.IDs(4), ChangRoberts: b.Byte()%2 == 1}
			return func() (*Machine, error) { return New(cfg) }
		},
		Types:  []protocol.MessageType{Election, Coordinator, Alive, Ack, "other"},
		Bodies: []string{"", "n2", "n1 n2", "n3 n4 n1", "n2 n3", "n1  x", " "},
		Life:   func(m *Machine) uint64 { return m.ballot.Incarnation },
		Pace:   10 * time.Millisecond,
	})
}
