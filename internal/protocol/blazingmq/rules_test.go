package blazingmq

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// rig is one machine, n1 of five unless configured otherwise, and the effects of the latest step.
type rig struct {
	t  *testing.T
	m  *Machine
	fx protocol.Effects
	at time.Duration
}

func newRig(t *testing.T, cfg Config, n int) *rig {
	cfg.Members = classictest.IDs(n)
	cfg.Self = "n1"
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, m: m}
	boot(m, &r.fx)
	return r
}

func (r *rig) step(in protocol.Input) {
	r.fx.Reset()
	in.Now = at(r.at)
	r.m.Step(&in, &r.fx)
}

func (r *rig) hear(from string, kind protocol.MessageType, term uint64, granted bool) {
	r.step(protocol.Input{Kind: protocol.Receive, From: protocol.NodeID(from), Message: protocol.Message{Type: kind, Term: term, Incarnation: 1, Echo: 1, Granted: granted}})
}

func (r *rig) do(v protocol.Verb, token uint64) {
	r.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v, Token: token}})
}

// fire goes to the machine's next instant.
func (r *rig) fire() {
	r.at = time.Duration(r.m.NextFire())
	r.step(protocol.Input{Kind: protocol.Fire})
}

// lead makes it the leader of a new term.
func (r *rig) lead() {
	r.t.Helper()
	r.do(protocol.Campaign, 0)
	for range 4 {
		if r.m.role == protocol.Follower {
			r.fire()
		}
		for _, id := range r.m.cfg.Members[1:] {
			r.hear(string(id), ScoutingResponse, r.m.term, true)
		}
		for _, id := range r.m.cfg.Members[1:] {
			r.hear(string(id), ElectionResponse, r.m.term, true)
		}
	}
	if r.m.role != protocol.Leader {
		r.t.Fatalf("it is %v", r.m.role)
	}
}

// said describes what the latest step sent.
func (r *rig) said() string {
	var all []string
	for _, o := range r.fx.Orders {
		all = append(all, o.Kind.String()+" "+string(o.Reason))
	}
	for _, s := range r.fx.Sends {
		word := string(s.Message.Type) + " to " + string(s.To)
		if s.Message.Granted {
			word += " yes"
		}
		all = append(all, word)
	}
	return strings.Join(all, ", ")
}

func (r *rig) want(what string) {
	r.t.Helper()
	if got := r.said(); got != what {
		r.t.Errorf("it did %q; want %q", got, what)
	}
}

// TestSticky: a participant that sees a leader ignores a proposal, and so does a leader, except for
// the naive elector.
func TestSticky(t *testing.T) {
	for mode, want := range map[Mode]string{Scouting: "", Sticky: "", Naive: "election-response to n3 yes"} {
		r := newRig(t, Config{Mode: mode}, 5)
		r.hear("n2", LeaderHeartbeat, 7, false)
		r.hear("n3", ElectionProposal, 8, false)
		r.want(want)
		if want == "" && r.m.term != 7 {
			t.Errorf("%s: the term is %d", mode, r.m.term)
		}
		r = newRig(t, Config{Mode: mode}, 5)
		r.lead()
		r.hear("n3", ElectionProposal, r.m.term+1, false)
		if want != "" {
			want = "stop superseded, " + want
		}
		r.want(want)
	}
}

// TestVote: there is one vote in a term, and none in an older one.
func TestVote(t *testing.T) {
	for mode, no := range map[Mode]string{Scouting: "", Naive: "election-response to n3"} {
		r := newRig(t, Config{Mode: mode}, 5)
		r.hear("n2", ElectionProposal, 4, false)
		r.want("election-response to n2 yes")
		r.hear("n3", ElectionProposal, 4, false)
		r.want(no)
		r.hear("n3", ElectionProposal, 3, false)
		r.want(no)
		r.hear("n3", ElectionProposal, 5, false)
		r.want("election-response to n3 yes")
	}
}

// TestScout: a scout is told Yes only if no leader is seen and the term is a new one.
func TestScout(t *testing.T) {
	r := newRig(t, Config{}, 5)
	r.hear("n2", ScoutingRequest, 1, false)
	r.want("scouting-response to n2 yes")
	r.hear("n3", ElectionProposal, 1, false)
	r.hear("n2", ScoutingRequest, 1, false)
	r.want("scouting-response to n2")
	r.hear("n2", ScoutingRequest, 2, false) // n3 has not led yet
	r.want("scouting-response to n2 yes")
	r.hear("n3", LeaderHeartbeat, 1, false)
	r.hear("n2", ScoutingRequest, 2, false)
	r.want("scouting-response to n2")
	if r.m.term != 1 {
		t.Errorf("the term is %d: a question has raised it", r.m.term)
	}
}

// TestRefusalTeaches: the next try asks for a term above that of a refusal, and its own term does
// not rise.
func TestRefusalTeaches(t *testing.T) {
	r := newRig(t, Config{}, 5)
	r.do(protocol.Campaign, 0)
	r.fire()
	for _, id := range []string{"n2", "n3", "n4", "n5"} {
		r.hear(id, ScoutingResponse, 9, false)
	}
	if r.m.role != protocol.Follower || r.m.term != 0 {
		t.Fatalf("it is %v in term %d; want a follower in term 0, because no majority can come", r.m.role, r.m.term)
	}
	r.fire()
	if r.fx.Sends[0].Message.Term != 10 {
		t.Errorf("it asks for term %d; want 10", r.fx.Sends[0].Message.Term)
	}
}

// TestDeposed: a leader steps down when an answer, a heartbeat or a vote carries a higher term, and
// ignores its own term and lower ones.
func TestDeposed(t *testing.T) {
	cession := "leadership-cession to n2, leadership-cession to n3"
	for _, c := range []struct {
		kind protocol.MessageType
		more uint64
		want string
	}{
		{HeartbeatResponse, 1, "stop superseded, " + cession},
		{HeartbeatResponse, 0, ""},
		{ElectionResponse, 1, "stop superseded, " + cession},
		{LeaderHeartbeat, 1, "stop superseded, " + cession},
		{LeaderHeartbeat, 0, ""}, // a leader ignores the heartbeat of another leader of its term
		{LeadershipCession, 0, "leader-heartbeat to n2"},
		{LeadershipCession, 1, ""},
	} {
		r := newRig(t, Config{}, 3)
		r.lead()
		r.hear("n2", c.kind, r.m.term+c.more, true)
		if r.want(c.want); t.Failed() {
			t.Fatalf("%s of %d more", c.kind, c.more)
		}
	}
	r := newRig(t, Config{}, 3)
	r.hear("n2", LeaderHeartbeat, 5, false)
	r.lead2(6)
	r.hear("n2", LeaderHeartbeat, 5, false)
	r.want("leader-heartbeat to n2")
}

// lead2 lets the leader that it follows fall silent, and leads after it.
func (r *rig) lead2(term uint64) {
	r.t.Helper()
	r.do(protocol.Campaign, 0)
	r.fire() // the leader is lost
	r.lead()
	if r.m.term != term {
		r.t.Fatalf("it leads in %d; want %d", r.m.term, term)
	}
}

// TestClosed: a closed connection removes a leader, or a supporter, at once, unless it belonged to
// an earlier incarnation of the leader.
func TestClosed(t *testing.T) {
	closed := func(r *rig, id string, life uint64) {
		r.step(protocol.Input{Kind: protocol.PeerClosed, From: protocol.NodeID(id), Incarnation: life})
	}
	r := newRig(t, Config{}, 5)
	r.hear("n2", LeaderHeartbeat, 1, false)
	closed(r, "n2", 0)
	closed(r, "n3", 1)
	if r.m.View().Leader.ID != "n2" {
		t.Error("the leader is lost by another one's close")
	}
	closed(r, "n2", 1)
	if r.m.View().Leader.ID != "" {
		t.Error("the leader is followed after its close")
	}

	r = newRig(t, Config{}, 5)
	r.lead()
	token := r.m.token
	closed(r, "n2", 1)
	closed(r, "n3", 1)
	r.want("")
	closed(r, "n4", 1)
	r.want("stop lost-quorum, leadership-cession to n2, leadership-cession to n3, leadership-cession to n4, leadership-cession to n5")
	if r.m.View().Role != protocol.Fencing || r.m.NextFire() != protocol.Never {
		t.Errorf("it is %v and wants to stand at %v before its work has returned", r.m.View().Role, r.m.NextFire())
	}
	r.do(protocol.Joined, token+1)
	if r.m.View().Role != protocol.Fencing {
		t.Error("the return of another term's work ends its fencing")
	}
	r.do(protocol.Joined, token)
	if r.m.View().Role != protocol.Follower || r.m.NextFire() == protocol.Never {
		t.Errorf("it is %v after its work has returned", r.m.View().Role)
	}
}

// TestRestart: a restart forgets the vote, but not the term of a leader that was followed. With
// Durable it forgets neither.
func TestRestart(t *testing.T) {
	for _, durable := range []bool{false, true} {
		r := newRig(t, Config{Durable: durable}, 5)
		var disk []byte
		restart := func() {
			r.m, _ = New(r.m.cfg)
			r.fx.Reset()
			r.step(protocol.Input{Kind: protocol.Boot, Durable: disk})
			disk = append([]byte(nil), r.fx.Saves[0].Data...)
			r.step(protocol.Input{Kind: protocol.Saved, Number: 1})
		}
		keep := func() {
			for _, s := range r.fx.Saves {
				disk = append([]byte(nil), s.Data...)
			}
		}
		restart()
		r.hear("n2", ElectionProposal, 3, false)
		if waits := r.fx.Sends[0].After != 0; waits != durable {
			t.Errorf("durable %t: the vote waits for the disk: %t", durable, waits)
		}
		keep()
		restart()
		r.hear("n3", ElectionProposal, 3, false)
		if twice := r.said() != ""; twice == durable {
			t.Errorf("durable %t: a second vote in one term: %t", durable, twice)
		}
		r.hear("n3", LeaderHeartbeat, 3, false)
		keep()
		restart()
		r.hear("n4", ElectionProposal, 3, false)
		if r.said() != "" || r.m.term != 3 {
			t.Errorf("durable %t: a vote in the term of a leader that was followed; the term is %d", durable, r.m.term)
		}
	}
}

// TestTwoInOneTerm: without Durable, two may lead in one term, because n2 restarts between two
// votes of three.
func TestTwoInOneTerm(t *testing.T) {
	for _, durable := range []bool{false, true} {
		w := newWorld(t, 1, 3, Config{Durable: durable, Mode: Sticky})
		a, voter, b := w.nodes[0], w.nodes[1], w.nodes[2]
		voter.candidate, b.candidate = false, false
		w.start()
		w.until(time.Minute, w.agreed)
		w.Run(time.Second) // all have saved the term
		// The next election: a restarts, the voter supports it, and a dies before it hears the new
		// leader. Then b stands.
		a.crash(true)
		b.crash(true)
		a.start()
		w.until(time.Minute, func() bool {
			return len(w.votes[[2]uint64{uint64(voter.i), a.Machine.term}]) > 0 && a.Machine.role == protocol.Candidate
		})
		for i := range w.nodes {
			w.cut[[2]int{a.i, i}] = true // no other hears its heartbeats
		}
		if durable {
			w.Run(3 * time.Millisecond) // the vote waits for the disk
		}
		voter.crash(true)
		w.Run(time.Second)
		if len(w.leading()) != 1 {
			t.Fatalf("durable %t: leading: %s; want the one that the voter supported", durable, names(w.leading()))
		}
		voter.start()
		b.candidate = true
		b.start()
		w.Run(30 * time.Second)
		two := false
		for _, who := range w.leaders {
			two = two || len(who) > 1
		}
		if two == durable {
			t.Errorf("durable %t: two in one term: %t; %v", durable, two, w.leaders)
		}
	}
}

func TestAlone(t *testing.T) {
	for _, durable := range []bool{false, true} {
		r := newRig(t, Config{Durable: durable}, 1)
		r.do(protocol.Campaign, 0)
		r.fire()
		if durable {
			r.want("")
			r.step(protocol.Input{Kind: protocol.Saved, Number: 2})
		}
		r.want("elected ")
	}
}

// TestBadDisk: a failed save is tried again, and until then no message that depends on it leaves.
func TestBadDisk(t *testing.T) {
	m, err := New(Config{Self: "n1", Members: classictest.IDs(3)})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, m: m}
	r.step(protocol.Input{Kind: protocol.Boot})
	r.step(protocol.Input{Kind: protocol.Saved, Number: 1, Failed: true})
	r.hear("n2", ElectionProposal, 1, false)
	r.want("")
	r.fire()
	if len(r.fx.Saves) != 1 || r.fx.Saves[0].Number != 2 {
		t.Fatalf("saves %+v; want the second try", r.fx.Saves)
	}
	r.hear("n2", ElectionProposal, 2, false)
	if len(r.fx.Sends) != 1 || r.fx.Sends[0].After != 1 {
		t.Fatalf("sends %+v; want one that waits for the incarnation", r.fx.Sends)
	}
	r.step(protocol.Input{Kind: protocol.Saved, Number: 2})
	r.hear("n2", ElectionProposal, 3, false)
	if r.fx.Sends[0].After != 0 {
		t.Errorf("it waits for save %d", r.fx.Sends[0].After)
	}
}

func TestHalted(t *testing.T) {
	m, err := New(Config{Self: "n1", Members: classictest.IDs(3)})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, m: m}
	r.step(protocol.Input{Kind: protocol.Boot, Durable: []byte("?")})
	r.do(protocol.Campaign, 0)
	if v := m.View(); v.Role != protocol.Halted || !strings.Contains(v.Fault, "want a ballot") || m.NextFire() != protocol.Never || r.said() != "" {
		t.Errorf("%+v, next %v", v, m.NextFire())
	}
}

func TestLSN(t *testing.T) {
	a, b := LSN{5, 2}, LSN{4, 1000}
	if a.Compare(b) <= 0 || b.Compare(a) >= 0 || a.Compare(a) != 0 || a.String() != "(5, 2)" {
		t.Error("the article's example does not hold")
	}
	r := newRig(t, Config{}, 3)
	r.lead()
	r.fire()
	if got := r.m.LSN(); got != (LSN{1, 2}) || r.fx.Sends[0].Message.Seq != 2 {
		t.Errorf("its second message has %v", got)
	}
}

func TestConfig(t *testing.T) {
	good := Config{Self: "n2", Members: classictest.IDs(3)}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	if got := good.WorstTakeover(); got != 13*time.Second {
		t.Errorf("the worst takeover is %v; want 3 · 2 s + 3 s + 4 s", got)
	}
	if good.Silence() != 6*time.Second {
		t.Errorf("a silence of %v", good.Silence())
	}
	if (Config{}).WorstTakeover() != 0 || (Config{}).Silence() != 0 {
		t.Error("nothing has a worst takeover")
	}
	for wrong, change := range map[string]func(*Config){
		"0 members; want 1 to 10000":         func(c *Config) { c.Members = nil },
		"\"n2\" after \"n3\"; want each":     func(c *Config) { c.Members = []protocol.NodeID{"n1", "n3", "n2"} },
		"\"n2\" after \"n2\"":                func(c *Config) { c.Members = []protocol.NodeID{"n2", "n2"} },
		"node id \"?\"":                      func(c *Config) { c.Self = "?" },
		"n4 is none of the 3 members":        func(c *Config) { c.Self = "n4" },
		"the mode \"sly\"; want":             func(c *Config) { c.Mode = "sly" },
		"a heartbeat every 1µs":              func(c *Config) { c.Heartbeat = time.Microsecond },
		"a heartbeat every -1s":              func(c *Config) { c.Heartbeat = -time.Second },
		"after 1 missed heartbeats":          func(c *Config) { c.Missed = 1 },
		"a random wait of up to 3h0m0s":      func(c *Config) { c.RandomWait = 3 * time.Hour },
		"an initial wait of 1s; want more":   func(c *Config) { c.InitialWait = time.Second },
		"an initial wait of 5h0m0s; want at": func(c *Config) { c.InitialWait = 5 * time.Hour },
		"-1ns to wait for answers":           func(c *Config) { c.Result = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("error %v; want one with %q", err, wrong)
		}
	}
}
