package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/blazingmq"
	"github.com/electd/elect/internal/protocol/bully"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/protocol/raft"
	"github.com/electd/elect/internal/protocol/ring"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/peer/internal/wire"
)

func classicConfig(name string) setup {
	return setup{ID: "n1", Name: "job", Voters: ids3(), Config: Config{Protocol: name}}
}

// TestClassicPlan: the default times are the protocols' own, and others are those
// that were asked for.
func TestClassicPlan(t *testing.T) {
	t.Parallel()
	var three []protocol.NodeID
	for _, p := range ids3() {
		three = append(three, protocol.NodeID(p.ID))
	}
	for _, c := range []struct {
		name  string
		worst time.Duration
	}{
		{"bully", bully.Config{}.WorstTakeover()},
		{"ring", ring.Config{}.WorstTakeover()},
		{"ring-chang-roberts", ring.Config{ChangRoberts: true}.WorstTakeover()},
		{"raft", raft.Config{}.WorstTakeover()},
		{"raft-checkquorum", raft.Config{CheckQuorum: true}.WorstTakeover()},
		{"blazingmq", blazingmq.Config{Self: "n1", Members: three}.WorstTakeover()},
	} {
		p, err := classicConfig(c.name).plan()
		if err != nil || p.WorstTakeover != c.worst || p.Lease != 0 || p.Protocol != c.name {
			t.Errorf("%s: %+v, %v; want a worst takeover of %v, as its own defaults have it, and no lease", c.name, p, err, c.worst)
		}
	}
	for _, c := range []struct {
		name, profile                           string
		heartbeat, promise, heartbeats, silence time.Duration
		refused                                 string
	}{
		{name: "bully", profile: "lan", heartbeats: 100 * time.Millisecond, silence: time.Second},
		{name: "bully", profile: "fast", heartbeats: 20 * time.Millisecond, silence: 200 * time.Millisecond},
		{name: "bully", heartbeat: 50 * time.Millisecond, heartbeats: 50 * time.Millisecond, silence: time.Second},
		{name: "bully", heartbeat: time.Second, refused: "want at least 2s"},
		{name: "raft", heartbeats: 50 * time.Millisecond, silence: 150 * time.Millisecond},
		{name: "raft-prevote", profile: "wan", heartbeat: time.Second, heartbeats: time.Second, silence: 5 * time.Second},
		{name: "raft", promise: 300 * time.Millisecond, heartbeats: 100 * time.Millisecond, silence: 300 * time.Millisecond},
		{name: "raft", heartbeat: 100 * time.Millisecond, refused: "want at least 200ms"},
		{name: "blazingmq", heartbeats: 2 * time.Second, silence: 6 * time.Second},
		{name: "blazingmq-naive", heartbeat: time.Second, heartbeats: time.Second, silence: 3 * time.Second},
		{name: "blazingmq-sticky", heartbeat: time.Second, promise: 10 * time.Second, heartbeats: time.Second, silence: 10 * time.Second},
		{name: "blazingmq", heartbeat: time.Second, promise: 2500 * time.Millisecond, refused: "a whole number of heartbeats"},
		{name: "raft", promise: -1, refused: "want more than 0"},
		{name: "raft", profile: "slow", refused: "unknown profile"},
		{name: "paxos", refused: "want one of: quorum, bully"},
	} {
		cfg := classicConfig(c.name)
		cfg.Profile, cfg.Heartbeat, cfg.Promise = c.profile, c.heartbeat, c.promise
		p, err := cfg.plan()
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%+v: %v; want it refused, with %q", c, err, c.refused)
		case c.refused == "" && (err != nil || p.Heartbeat != c.heartbeats || p.Promise != c.silence):
			t.Errorf("%+v: heartbeat %v, promise %v, %v", c, p.Heartbeat, p.Promise, err)
		}
	}
	p, err := classicConfig("raft").plan()
	const want = "3 voters, one may fail; protocol raft, its own times: heartbeat 50ms, a silent leader is waited for 150ms to 300ms, no lease; another is elected within 1.25s of a silent leader, as a rule"
	if err != nil || p.String() != want {
		t.Errorf("got  %v, %v\nwant %s", p, err, want)
	}
	if p, err := classicConfig("bully").plan(); err != nil || p.Tolerates != 2 || p.Quorum != 1 {
		t.Errorf("bully: %+v, %v; want that any one goes on alone", p, err)
	}
}

// TestClassicTable: the table in the docs has each protocol, with its worst
// takeover.
func TestClassicTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/peers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Protocols()[1:] {
		p, err := classicConfig(name).plan()
		if err != nil {
			t.Fatal(err)
		}
		row := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "| `"+name+"` |") {
				row = line
			}
		}
		seconds := strings.TrimSuffix(up(p.WorstTakeover).String(), "s") + " s"
		if !strings.Contains(row, "| "+seconds+" |") {
			t.Errorf("%s: its row is %q, and its worst takeover %s", name, row, seconds)
		}
	}
}

// TestClassicOptions: what a classic protocol would not heed is refused.
func TestClassicOptions(t *testing.T) {
	t.Parallel()
	for what, set := range map[string]func(*setup){
		"observers": func(c *setup) { c.Observers = []Peer{{ID: "o1"}} },
		"join":      func(c *setup) { c.Join = true },
		"priority":  func(c *setup) { c.Priority = driver.NeverLead },
		"tenure":    func(c *setup) { c.Tenure = time.Minute },
		"position":  func(c *setup) { c.Position = string(quorum.RequirePosition) },
		"Locate":    func(c *setup) { c.LocateEvery = time.Second },
	} {
		for _, name := range Protocols()[1:] {
			c := classicConfig(name)
			set(&c)
			if _, err := c.plan(); err == nil || !strings.Contains(err.Error(), "protocol="+name+" has no use for "+what) || !strings.Contains(err.Error(), "want protocol=quorum") {
				t.Errorf("%s with %s: %v; want it refused", name, what, err)
			}
		}
	}
}

// TestClassicExclusive: no candidate gets a lease, from the node or through package elect, and the error says what
// would be right.
func TestClassicExclusive(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		n := v.openAll()[0]
		_, err := n.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
		refusedFor(t, err, "protocol="+k.name+" proves no lease", "want protocol=quorum", "NonExclusive", "--exclusive=false")
		if !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%v; want that it is not supported", err)
		}
		_, err = n.Campaign(t.Context(), driver.Candidacy{Priority: 7})
		refusedFor(t, err, "knows no priorities")
		l := n.Limits()
		if l.Exclusive || l.Lease != 0 || l.Takeover <= 0 || len(l.Abilities) != 1 || l.Abilities[0] != driver.AbilityResign {
			t.Errorf("limits %+v", l)
		}
		if _, err := elect.New(n, elect.Config{}); !errors.Is(err, elect.ErrUnsupported) {
			t.Errorf("elect.New: %v; want it refused", err)
		}
		e, err := elect.New(n, elect.Config{NonExclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Lead(t.Context(), func(ctx context.Context, term *elect.Term) error {
			if err := term.Check(); !errors.Is(err, elect.ErrNotExclusive) || term.Token() == 0 {
				t.Errorf("token %v, check %v", term.Token(), err)
			}
			if err := term.Confirm(ctx); !errors.Is(err, elect.ErrUnsupported) {
				t.Errorf("confirmed: %v", err)
			}
			if err := term.Transfer("n2"); !errors.Is(err, elect.ErrUnsupported) {
				t.Errorf("transferred: %v", err)
			}
			return errors.New("it is done")
		})
		if err == nil || err.Error() != "it is done" {
			t.Errorf("Lead: %v", err)
		}
	})
}

// TestClassicFixed: the membership does not change, no successor can be named at any node, and a witness has nothing to
// say.
func TestClassicFixed(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		nodes := v.openAll()
		var c contest
		for _, n := range nodes {
			defer c.stands(t, n)()
		}
		c.awaits(t, 1, slack(nodes[0]))
		for _, n := range nodes {
			if err := n.Transfer(t.Context(), 0, "n2"); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "elect resign") {
				t.Errorf("%s is asked to transfer: %v", n.cfg.ID, err)
			}
			_, err := n.changes.reconfigure(t.Context(), memberRequest{Op: opAdd, ID: "n4", Addr: "127.0.0.1:4"}, nil)
			if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "settled by the founding") {
				t.Errorf("%s is asked to add a voter: %v", n.cfg.ID, err)
			}
			enter := wire.Enter{Election: "job"}
			if w, r := n.founding.admit("n9", &enter, wire.WitnessOf); w != nil || r == nil || r.Code != wire.CodeProtocol {
				t.Errorf("%s is called by a witness: %+v, %+v", n.cfg.ID, w, r)
			}
		}
	})
}

// TestOneProtocol: nodes of different protocols do not found an election together,
// and each side says why.
func TestOneProtocol(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		v.change = func(c *setup) {
			c.Protocol = map[protocol.NodeID]string{"n1": "raft", "n2": "", "n3": "raft-prevote"}[c.ID]
		}
		for _, id := range v.all {
			v.open(id)
		}
		<-time.After(3 * time.Second)
		for _, c := range []struct {
			id   protocol.NodeID
			says []string
		}{
			{"n1", []string{"n2 elects by protocol=quorum, and the caller, n1, by protocol=raft; want one protocol at every participant", "n3"}},
			{"n2", []string{"n1 elects by protocol=raft, and the caller, n2, by protocol=quorum; want one", "n3"}},
			{"n3", []string{"n1 elects by protocol=raft, and the caller, n3, by protocol=raft-prevote; want one", "n2"}},
		} {
			n := v.node(t, c.id)
			if n.founded() {
				t.Errorf("%s is founded", c.id)
			}
			for _, says := range c.says {
				if cause := n.Status().Cause; !strings.Contains(cause, says) {
					t.Errorf("%s says %v; want %q", c.id, cause, says)
				}
			}
			// Both others refuse it for good: it ends.
			_, err := n.Campaign(t.Context(), driver.Candidacy{})
			refusedFor(t, err, "want one protocol at every participant")
		}
	})
}

// TestOtherProtocolsDirectory: a data directory is bound to its protocol.
func TestOtherProtocolsDirectory(t *testing.T) {
	for _, c := range []struct{ was, is string }{{"raft", ""}, {"", "raft"}, {"raft", "raft-prevote"}, {"bully", "blazingmq"}} {
		t.Run(c.was+" "+c.is, func(t *testing.T) {
			inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
				v.change = func(cfg *setup) { cfg.Protocol = c.was }
				for _, n := range v.openAll() {
					_ = n.Close()
				}
				cfg := v.config("n1")
				cfg.Protocol = c.is
				_, err := open(t.Context(), cfg)
				was, is := (&setup{Config: Config{Protocol: c.was}}).dialect().protocol(), cfg.dialect().protocol()
				refusedFor(t, err, "is one of protocol="+was, "this node is of protocol="+is, "higher era")
			})
		})
	}
}

// TestClassicWipedDisk: a voter that has lost its disk is refused, and told what
// is possible.
func TestClassicWipedDisk(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		n := v.openAll()[1]
		_ = n.Close()
		if err := os.RemoveAll(n.at.String()); err != nil {
			t.Fatal(err)
		}
		_, err := v.open("n2").Campaign(t.Context(), driver.Candidacy{})
		refusedFor(t, err, "was wiped", "(n3 refuses it too)", "start them with a higher era")
		if strings.Contains(err.Error(), "join=true") {
			t.Errorf("it advises what is not possible: %v", err)
		}
	})
}

// TestClassicTokensRise: also across a restart of everybody, on their disks.
func TestClassicTokensRise(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		var last fence.Token
		for life := range 4 {
			var nodes []*Node
			if life == 0 {
				nodes = v.openAll()
			} else {
				for _, id := range v.all {
					nodes = append(nodes, v.open(id))
				}
			}
			var c contest
			var stops []func()
			for _, n := range nodes {
				stops = append(stops, c.stands(t, n))
			}
			token := c.awaits(t, 1, slack(nodes[0]))[0].token
			if token <= last {
				t.Errorf("life %d: token %v after %v", life, token, last)
			}
			last = token
			for i, n := range nodes {
				stops[i]()
				_ = n.Close()
			}
			c.wg.Wait()
		}
	})
}

// TestClassicFlightRecorder: a machine made of the recorded configuration does what the node recorded.
func TestClassicFlightRecorder(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		nodes := v.openAll()
		var c contest
		for _, n := range nodes {
			defer c.stands(t, n)()
		}
		c.awaits(t, 1, slack(nodes[0]))
		for _, n := range nodes {
			_ = n.Close()
			segments, err := filepath.Glob(filepath.Join(n.at.String(), "flight-*.ndjson"))
			if err != nil || len(segments) == 0 {
				t.Fatalf("%s has no segments: %v", n.cfg.ID, err)
			}
			for _, path := range segments {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				d, err := trace.NewDecoder(bytes.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				if d.Header().Protocol != k.name {
					t.Errorf("%s is of protocol %s", path, d.Header().Protocol)
				}
				report, err := d.Verify(map[string]trace.Maker{k.name: func(id protocol.NodeID, config json.RawMessage) (protocol.Machine, error) {
					m, from, err := k.machine(&n.cfg, n.self, n.membership.Load())
					if own, _ := json.Marshal(from); err == nil && (id != n.cfg.ID || !bytes.Equal(own, config)) {
						t.Errorf("%s is of %s: %s", path, id, config)
					}
					return m, err
				}})
				if err != nil || report.Steps == 0 {
					t.Errorf("%s: %+v, %v", path, report, err)
				}
			}
		}
	})
}

// FuzzEnvelope: what is accepted encodes to the same bytes.
func FuzzEnvelope(f *testing.F) {
	ms := (&setup{Voters: ids3()}).founding()
	for i := range ms.Voters {
		ms.Voters[i].Dir = protocol.DirID{byte(i + 1)}
	}
	f.Add((&envelope{"raft", ms, raft.Ballot{Term: 3, VotedFor: "n1", Incarnation: 2}.Append(nil)}).append(nil))
	f.Add((&envelope{"bully", ms, nil}).append(nil))
	f.Add(quorum.Ballot{Membership: ms, Incarnation: 1}.Append(nil))
	f.Add([]byte("classic\x01"))
	f.Fuzz(func(t *testing.T, kept []byte) {
		e, err := openEnvelope(kept)
		if err != nil {
			return
		}
		if again := e.append(nil); !bytes.Equal(again, kept) {
			t.Fatalf("% x encodes to % x", kept, again)
		}
		for _, d := range dialects() {
			if ms, data, err := d.read(kept); err == nil && (ms == nil || !bytes.Equal(d.write(nil, ms, data), kept)) {
				t.Fatalf("%s accepts it, with %v, and writes another one", d.protocol(), ms)
			}
		}
	})
}
