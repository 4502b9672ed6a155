package sim

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/protocol"
)

// What is written is read again, and is one operation a line.
func TestScheduleText(t *testing.T) {
	s := troubled(1)
	for range 2 {
		text, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseSchedule(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if !reflect.DeepEqual(got, s) {
			t.Errorf("read\n%+v\nwant\n%+v", got, s)
		}
		if n := strings.Count(string(text), `"kind"`); n != len(s.Ops) || strings.Count(string(text), "\n    {\"at\"") != n {
			t.Errorf("%d operations of %d, each on its line:\n%s", n, len(s.Ops), text)
		}
		s = still(1)
		s.Ops = []Op{}
	}
}

// An error names the field, and says what would be right.
func TestScheduleErrors(t *testing.T) {
	for _, c := range []struct {
		break_ func(s *Schedule)
		want   string
	}{
		{func(s *Schedule) { s.Format = 2 }, `format: 2; want 1`},
		{func(s *Schedule) { s.Protocol = "raft" }, `protocol: "raft"; want "pulse"`},
		{func(s *Schedule) { s.Nodes = 0 }, `nodes: 0; want 1 to 9`},
		{func(s *Schedule) { s.Nodes = 10 }, `nodes: 10; want 1 to 9`},
		{func(s *Schedule) { s.Observers = -1 }, `observers: -1; want 0 to 9`},
		{func(s *Schedule) { s.Clocks = make([]ClockSpec, 5) }, `clocks: 5 of them; want at most 4`},
		{func(s *Schedule) { s.Clocks = []ClockSpec{{Rate: -1_000_000}} }, `clocks[0].rate: -1000000; want -900000 to 900000`},
		{func(s *Schedule) { s.Clocks = []ClockSpec{{}, {Zero: 1 << 62}} }, `clocks[1].zero`},
		{func(s *Schedule) { s.Core = []protocol.NodeID{"n1", "n4"} }, `core[1]: participant "n4"; want n1 to n3, or o1 to o1`},
		{func(s *Schedule) { s.Faults = -1 }, `faults: -1ns; want 0 to`},
		{func(s *Schedule) { s.Work.Think = -1 }, `work.think: -1ns; want 0`},
		{func(s *Schedule) { s.Store.Repeat = 1.5 }, `store.repeat: 1.5; want a probability`},
		{func(s *Schedule) { s.Links.Bandwidth = -4 }, `links.bandwidth: -4`},
		{func(s *Schedule) { s.Store.Rate = 1e6 }, `store.rate: 1000000`},
		{func(s *Schedule) { s.Ops[1].Kind = "nothing" }, `ops[1] (nothing): kind: "nothing"`},
		{func(s *Schedule) { s.Ops[1].At = -1 }, `ops[1] (pause): at: -1ns; want 0 to the end of the faults`},
		{func(s *Schedule) { s.Ops[1].At = at(101) }, `at: 101ms; want 0 to the end of the faults, 100ms`},
		{func(s *Schedule) { s.Ops[1].At = 0 }, `ops[1] (pause): at: 0s, after an operation at 1ms`},
		{func(s *Schedule) { s.Ops[0].Node = "o2" }, `ops[0] (kill): node: participant "o2"`},
		{func(s *Schedule) { s.Ops[0].Peer = "n01" }, `peer: participant "n01"`},
		{func(s *Schedule) { s.Ops[0].Group = []protocol.NodeID{"n1", ""} }, `group[1]: participant ""`},
		{func(s *Schedule) { s.Ops[0].Group = make([]protocol.NodeID, 30) }, `group[0]`},
		{func(s *Schedule) { s.Ops[0].For = -1 }, `for: -1ns; want 0`},
		{func(s *Schedule) { s.Ops[0].By = -1 }, `by: -1ns`},
		{func(s *Schedule) { s.Ops[0].Count = -1 }, `count: -1; want 0 or more`},
		{func(s *Schedule) { s.Ops[1] = Op{At: at(2), Kind: OpFlap, For: time.Hour, Every: time.Millisecond} }, `every: 1ms; want more than 0, and more than a 10000th of for`},
		{func(s *Schedule) { s.Ops[1] = Op{At: at(2), Kind: OpRoll} }, `every: 0s; want more than 0`},
		{func(s *Schedule) { s.Ops[1] = Op{At: at(2), Kind: OpRate, Value: 1e6} }, `value: 1e+06; want -900000 to 900000 parts per million`},
		{func(s *Schedule) { s.Ops[1] = Op{At: at(2), Kind: OpLoss, Value: 2} }, `value: 2; want 0 to 1`},
		{func(s *Schedule) { s.Ops[1] = Op{At: at(2), Kind: OpThrottle} }, `kind: protocol pulse has no store`},
		{func(s *Schedule) { s.Ops[1] = Op{At: at(2), Kind: OpTwin, Node: Leader} }, `node: "leader"; want a name`},
		{func(s *Schedule) { s.Ops[1] = Op{At: at(2), Kind: OpDrop, Node: "n1", Peer: Leader} }, `peer: "leader"; want a name`},
	} {
		s := still(3, Op{At: at(1), Kind: OpKill, Node: "n1"}, Op{At: at(2), Kind: OpPause, Node: "o1"})
		s.Observers = 1
		if err := s.Validate(pulses()); err != nil {
			t.Fatal(err)
		}
		c.break_(s)
		_, err := New(pulses(), s)
		if err == nil || !strings.HasPrefix(err.Error(), "schedule: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"format": 1, "ops": [{"at": 1, "knid": "kill"}]}`: `unknown field "knid"`,
		`{"format": "1"}`:    `schedule: format: a string; want a int`,
		`{"format": 1} {}`:   `something follows`,
		`{"format": 1`:       `byte`,
		``:                   `EOF`,
		`{"faults": 1e3000}`: `faults`,
	} {
		if _, err := ParseSchedule([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Whatever is read and found valid can be run.
func FuzzParseSchedule(f *testing.F) {
	for _, s := range []*Schedule{still(1), still(3, Op{At: at(1), Kind: OpKill, Node: "n1"}), troubled(2)} {
		text, err := s.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"format":1,"protocol":"pulse","nodes":2,"observers":1,"faults":5,"links":{"delay":0},"disks":{"sync":0},"work":{"every":0},"clocks":[{"rate":900000,"zero":-5}],"ops":[{"at":0,"kind":"swizzle","every":1,"for":3,"group":["n1","o1"]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSchedule(text)
		if err != nil {
			return
		}
		w, err := New(pulses(), s)
		if err != nil {
			return
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSchedule(again); err != nil {
			t.Fatalf("%v in\n%s", err, again)
		}
		for range 2000 {
			if !w.Step() {
				break
			}
		}
	})
}
