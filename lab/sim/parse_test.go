package sim

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// An encoded schedule is read back, and has one operation a line.
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
		{func(s *Schedule) { s.Core = []protocol.NodeID{"n2"} }, `core: 1 of 3; want a majority of the voters`},
		{func(s *Schedule) { s.Core = []protocol.NodeID{"n2", "o1"} }, `core: 1 of 3; want a majority`},
		{func(s *Schedule) { s.Core = []protocol.NodeID{"n2", "n2"} }, `core[1]: n2 is there twice`},
		{func(s *Schedule) { s.Faults, s.Settle, s.Work.Every = time.Second, 0, 1 }, `work.every: 1ns, which is 1000000000 writes in 1s; want 0, or at least 11ns: 100000000 writes at most`},
		{func(s *Schedule) { s.Ops[0].Kind = OpHalves }, `ops[0] (halves): group: it is empty, and no participant would be cut off`},
		{func(s *Schedule) { s.Ops[0].Kind = OpThird }, `group: it is empty`},
		{func(s *Schedule) { s.Ops[0].Kind = OpBridge }, `group: it is empty`},
		{func(s *Schedule) { s.Ops[0].Kind = OpChain }, `group: it is empty`},
		{func(s *Schedule) { s.Ops[0].Kind, s.Ops[0].Every = OpSwizzle, 1 }, `group: it is empty`},
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

// An error of the text has its place, and says what would be right.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{\"format\": 1,\n \"ops\": [{\"at\": 1,\n  \"knid\": \"kill\"}]}": `line 3, column 3: ops[0].knid: no such field`,
		"{\n\"ops\": [{\"at\": 1}, {},\n{\"at\": \"x\"}]}":                 `line 3, column 8: ops[2].at: "x"; want a number of nanoseconds`,
		`{"work": {"every": 1.5}}`:                                         `line 1, column 20: work.every: 1.5; want a number of nanoseconds`,
		`{"format": "1"}`:                                                  `line 1, column 12: format: "1"; want a whole number`,
		`{"seed": -1}`:                                                     `seed: -1; want a whole number, 0 or more`,
		`{"seed": 18446744073709551616}`:                                   `seed: 18446744073709551616; want a whole number, 0 or more`,
		`{"nodes": null}`:                                                  `nodes: null; want a whole number`,
		`{"beyond": 1}`:                                                    `beyond: 1; want true or false`,
		`{"protocol": ["quorum"]}`:                                         `protocol: a list; want text`,
		`{"links": [1]}`:                                                   `links: a list; want an object`,
		`{"links": {"loss": "much"}}`:                                      `links.loss: "much"; want a number`,
		`{"links": {"loss": 1e999}}`:                                       `links.loss: 1e999; want a number`,
		`{"ops": {"at": 1}}`:                                               `ops: an object; want a list`,
		`{"core": ["n1", 2]}`:                                              `core[1]: 2; want text`,
		`[]`:                                                               `line 1, column 1: a list; want an object`,
		`{"faults": 1e3000}`:                                               `faults: 1e3000; want a number of nanoseconds`,
		`{"profile": 1` + strings.Repeat("0", 99) + `}`:                    `profile: 1` + strings.Repeat("0", 39) + `…; want text`,
		`{"FORMAT": 1}`:                                                    `line 1, column 2: FORMAT: no such field; want "format"`,
		`{"ops": [{"at": 1, "At": 2}]}`:                                    `line 1, column 20: ops[0].At: no such field; want "at"`,
		`{"seed": 1, "nodes": 3, "seed": 2}`:                               `line 1, column 25: seed: it is there twice; want it once`,
		`{"config": {"a": [{"b": 1, "b": 2}]}}`:                            `line 1, column 28: config.a[0].b: it is there twice; want it once`,
		"{\"format\": 1}\n\n {}":                                           `line 3, column 2: something follows the schedule; want one alone`,
		"{\"format\": 1,\n":                                                `line 2, column 1: the text ends too early`,
		`{"profile": "qui`:                                                 `the text ends too early`,
		"{\"format\": 1,\n\"seed\": +1}":                                   `line 2, column 9: it is no JSON: invalid character '+'`,
		"{\"profile\": \"\xff\"}":                                          `line 1, column 14: it is not UTF-8`,
		``:                                                                 `line 1, column 1: there is nothing; want a schedule`,
		strings.Repeat(" ", MaxText) + `{}`:                                `more than 64 MiB; want a schedule`,
	} {
		_, err := ParseSchedule([]byte(text))
		if e, ok := errors.AsType[*ParseError](err); !ok || e.Line < 1 || e.Column < 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
}

// null stands for an omitted number, text or list.
func TestParseNull(t *testing.T) {
	s, err := ParseSchedule([]byte(`{"ops": null, "core": null, "clocks": null, "expected": null, "config": null}`))
	if err != nil || s.Ops != nil || s.Expected != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// Faults for too long a time are refused before a schedule is made, with the flag to lower; every
// drawn schedule can be run.
func TestGenerateTooMuch(t *testing.T) {
	p := pulses()
	for _, o := range []Options{
		{Profile: "swarm", Faults: 20 * 24 * time.Hour, Nodes: 3},
		{Profile: "quiet", Faults: MaxSpan, Nodes: 3},
	} {
		if s, err := Generate(p, 1, o); err == nil || !strings.Contains(err.Error(), "(--faults)") {
			t.Errorf("%s for %v: %d operations, %v", o.Profile, o.Faults, len(s.Ops), err)
		}
	}
	for seed := range uint64(200) { // one voter is no two halves
		s, err := Generate(p, seed, Options{Profile: "partitions", Nodes: 1, Faults: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(p); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// When the last of a group is removed, so is the operation: a smaller schedule stays valid.
func TestWithoutTheLastOfAGroup(t *testing.T) {
	s := still(3, Op{At: at(1), Kind: OpHalves, Group: []protocol.NodeID{"n3"}}, Op{At: at(2), Kind: OpHalves, Group: []protocol.NodeID{"n1", "n3"}})
	without(s, "n3", 2)
	s.Nodes--
	if err := s.Validate(pulses()); err != nil || len(s.Ops) != 1 || len(s.Ops[0].Group) != 1 {
		t.Errorf("%v, %v", s.Ops, err)
	}
}

// Every valid schedule can be run.
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
