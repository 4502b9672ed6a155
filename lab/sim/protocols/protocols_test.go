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

func TestAll(t *testing.T) {
	var names []string
	for _, p := range protocols.All() {
		names = append(names, p.Name)
		if q, ok := protocols.ByName(p.Name); !ok || q.Name != p.Name || q.Store != p.Store {
			t.Errorf("ByName(%q) = %v, %t", p.Name, q, ok)
		}
		patience, err := p.Patience(nil)
		if err != nil || patience < 500*time.Millisecond || patience > time.Minute {
			t.Errorf("%s: patience %v, %v", p.Name, patience, err)
		}
		if d, err := p.Drift(nil); err != nil || d != protocol.DefaultDrift() {
			t.Errorf("%s: drift %+v, %v", p.Name, d, err)
		}
		if _, err := p.New(participant(nil)); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	want := []string{
		"quorum", "lease", "queue", "queue-zookeeper", "raft", "raft-prevote", "raft-checkquorum",
		"blazingmq", "blazingmq-sticky", "blazingmq-naive", "ring", "ring-chang-roberts", "bully",
	}
	if !slices.Equal(names, want) {
		t.Errorf("protocols %v; want %v", names, want)
	}
	if p, ok := protocols.ByName("paxos"); ok {
		t.Errorf("there is a protocol %v", p.Name)
	}
}

// TestNaive: the naive locks are found by their names, and nobody gets them who asks for all protocols.
func TestNaive(t *testing.T) {
	var names []string
	for _, p := range protocols.Naive() {
		names = append(names, p.Name)
		if q, ok := protocols.ByName(p.Name); !ok || q.Name != p.Name || q.Store != p.Store || q.Expect[sim.Exclusive] != sim.MustFail {
			t.Errorf("ByName(%q) = %v, %t", p.Name, q, ok)
		}
		if slices.ContainsFunc(protocols.All(), func(q *sim.Protocol) bool { return q.Name == p.Name }) {
			t.Errorf("%s is one of all protocols", p.Name)
		}
		if patience, err := p.Patience(nil); err != nil || patience != 15*time.Second {
			t.Errorf("%s: patience %v, %v", p.Name, patience, err)
		}
	}
	if want := []string{"naive-redis", "naive-redlock", "naive-update", "naive-advisory"}; !slices.Equal(names, want) {
		t.Errorf("naive locks %v; want %v", names, want)
	}
}

func participant(config json.RawMessage) sim.Participant {
	m := &protocol.Membership{Version: 1}
	for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		m.Voters = append(m.Voters, protocol.Voter{ID: id, Dir: protocol.DirID{1, id[1]}})
	}
	return sim.Participant{Self: m.Voters[0], Membership: m, Config: config}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct{ protocol, config, wrong string }{
		{"quorum", `{}`, ""},
		{"quorum", ` `, ""},
		{"quorum", `{"heartbeat": 50000000, "promise": 500000000}`, ""},
		{"quorum", `{"heartbeats": 50000000}`, `unknown field "heartbeats"`},
		{"quorum", `{"self": {"id": "n1"}}`, "self: the schedule's number of nodes decides the participants"},
		{"quorum", `{"promise": 1000000}`, "want at least"},
		{"quorum", `{"heartbeat": "fast"}`, "heartbeat"},
		{"quorum", `[]`, "want an object"},
		{"quorum", `{"each": {"n1": {"metadata": "a"}}}`, ""},
		{"quorum", `{"each": {"n1": {"metadatum": "a"}}}`, `each: n1: json: unknown field "metadatum"`},
		{"quorum", `{"each": {"n1": {"membership": {}}}}`, "each: n1: config: membership"},
		{"quorum", `{"each": 7}`, "want an object of settings by participant"},
		{"lease", `{"duration": 2000000000}`, ""},
		{"lease", `{"duration": 20000000000}`, "above the longest allowed"},
		{"lease", `{"each": {"n1": {"duration": 20000000000}}}`, "above the longest allowed"},
		{"lease", `{"each": {"n2": {"duration": 20000000000}}}`, ""}, // n1 does not read it
		{"lease", `{"ttl": 1}`, `unknown field "ttl"`},
		{"queue", `{"ttl": 5000000000}`, ""},
		{"queue", `{"ttl": 1}`, "TTL"},
		{"queue", `{"dialect": "etcd"}`, "dialect: the protocol's name says"},
		{"queue-zookeeper", `{"hold": 4000000000}`, ""},
		{"naive-redis", `{"ttl": 2000000000, "token": true}`, ""},
		{"naive-redis", `{"ttl": 1}`, "ttl: 1ns; want 100ms to 1h"},
		{"naive-redis", `{"client_clock": true}`, "client_clock: only the row"},
		{"naive-redlock", `{"ttl": -1}`, "want 100ms to 1h"},
		{"naive-redlock", `{"token": true}`, "token and client_clock: "},
		{"naive-update", `{"client_clock": true}`, ""},
		{"naive-update", `{"duration": 1}`, `unknown field "duration"`},
		{"naive-advisory", `{"token": true}`, "token: an advisory lock has no place"},
		{"queue-zookeeper", `{"server_election": 1000000000}`, "is for etcd"},
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
}

// A setting of one participant does not reach the others, and patience includes it.
func TestEach(t *testing.T) {
	p, _ := protocols.ByName("lease")
	short, err := p.Patience(json.RawMessage(`{"max_duration": 4000000000}`))
	if err != nil {
		t.Fatal(err)
	}
	long, err := p.Patience(json.RawMessage(`{"max_duration": 4000000000, "each": {"n1": {"duration": 2000000000}}}`))
	if err != nil || long != short {
		t.Errorf("patience %v, %v with one shorter duration; want %v: others have theirs", long, err, short)
	}
	if _, err := p.Patience(json.RawMessage(`{"duration": -1}`)); err == nil {
		t.Error("a duration of -1 was accepted")
	}
}
