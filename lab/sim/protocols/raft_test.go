package protocols_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

var rafts = []string{"raft", "raft-prevote", "raft-checkquorum"}

func TestRaftConfig(t *testing.T) {
	for _, c := range []struct{ protocol, config, wrong string }{
		{"raft", `{"position": "require", "heartbeat": 20000000}`, ""},
		{"raft", `{"pre_vote": true}`, "the protocol's name says them"},
		{"raft-prevote", `{"pre_vote": true}`, ""},
		{"raft-prevote", `{"check_quorum": true}`, "take raft, raft-prevote or raft-checkquorum"},
		{"raft-checkquorum", `{"pre_vote": false}`, "the protocol's name says them"},
		{"raft-checkquorum", `{"election_timeout": 10000000}`, "want at least 100ms"},
	} {
		p, ok := protocols.ByName(c.protocol)
		if !ok {
			t.Fatalf("no protocol %s", c.protocol)
		}
		_, err := p.New(participant(json.RawMessage(c.config)))
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s, config %s: error %v; want %q", c.protocol, c.config, err, c.wrong)
		}
	}
	p, _ := protocols.ByName("raft")
	watcher := participant(nil)
	watcher.Observer = true
	if _, err := p.New(watcher); err == nil || !strings.Contains(err.Error(), "everybody votes") {
		t.Errorf("an observer: %v", err)
	}
}

// A silent leader is lost after the given time, in the mean.
func TestRaftDetects(t *testing.T) {
	for _, name := range rafts {
		p, _ := protocols.ByName(name)
		for _, d := range []time.Duration{225 * time.Millisecond, time.Second, 10 * time.Second} {
			raw, err := p.Detects(d)
			if err != nil {
				t.Fatal(err)
			}
			silence, err := p.Silence(raw)
			if err != nil || (silence-silence/4-d).Abs() > time.Microsecond { // from half of it to all of it
				t.Errorf("%s: %v: given up after %v at the longest, %v", name, d, silence, err)
			}
		}
		if _, err := p.Detects(time.Millisecond); err == nil {
			t.Errorf("%s: a leader is to be noticed after 1ms, and that was accepted", name)
		}
	}
}

// Each variant violates what it is said to lack, in a seed that shows it, and keeps its promises in
// the same runs.
func TestRaftFails(t *testing.T) {
	for _, c := range []struct {
		protocol, profile string
		seed              uint64
		lacks             sim.Invariant
	}{
		{"raft", "partitions", 172, sim.Live},
		{"raft", "partitions", 1, sim.Exclusive},
		{"raft-prevote", "partitions", 526, sim.Live},
		{"raft-prevote", "partitions", 1, sim.Exclusive},
		{"raft-checkquorum", "partitions", 172, ""},
		{"raft-checkquorum", "partitions", 526, ""},
		{"raft-checkquorum", "partitions", 1, sim.Exclusive},
	} {
		p, _ := protocols.ByName(c.protocol)
		s, err := sim.Generate(p, c.seed, sim.Options{Profile: c.profile})
		if err != nil {
			t.Fatal(err)
		}
		w, err := sim.New(p, s)
		if err != nil {
			t.Fatal(err)
		}
		w.Run()
		r := w.Result()
		if r.Violation != nil {
			t.Errorf("%s, seed %d: %s", c.protocol, c.seed, r.Violation)
		}
		if c.lacks != "" && r.Failure(c.lacks) == nil {
			t.Errorf("%s, seed %d: found failing is %v; want %s among it", c.protocol, c.seed, r.Found, c.lacks)
		}
	}
}

// A wiped disk is a forgotten vote: schedules have it only if the protocol is excused for it.
func TestRaftWipe(t *testing.T) {
	for _, name := range rafts {
		p, _ := protocols.ByName(name)
		if breaks, err := p.Breaks(nil); err != nil || !slices.Equal(breaks, []sim.OpKind{sim.OpWipe}) {
			t.Errorf("%s: breaks %v, %v", name, breaks, err)
		}
		for _, m := range []protocol.MessageType{"vote", "vote-reply", "pre-vote"} {
			if p.Heartbeat(&protocol.Message{Type: m}) {
				t.Errorf("%s: %s is no part of an election", name, m)
			}
		}
	}
}
