package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// at is a reading; start returns a machine that has booted and saved.
func at(d time.Duration) protocol.Reading {
	return protocol.Reading{Boot: protocol.Instant(d), Mono: protocol.Instant(d)}
}

func start(t *testing.T, cfg Config, durable []byte) *Machine {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	step(m, &protocol.Input{Kind: protocol.Boot, Now: at(time.Second), Durable: durable})
	step(m, &protocol.Input{Kind: protocol.Saved, Now: at(time.Second), Number: 1})
	return m
}

// from is a message of a voter in its first incarnation.
func from(i int, kind protocol.MessageType, ms *protocol.Membership, term uint64) protocol.Input {
	v := voter(i)
	return protocol.Input{Kind: protocol.Receive, Now: at(time.Second), From: v.ID, Message: protocol.Message{
		Type: kind, Dir: v.Dir, Incarnation: 1, Term: term, Membership: ms, Round: 1, Seq: 1,
	}}
}

// TestPromotedObserver: an observer that learns from a message that it is a voter acks and votes in
// answer to that message (R14).
func TestPromotedObserver(t *testing.T) {
	old, grown := members(3), members(4)
	grown.Version = 2
	cfg := Config{Self: voter(3), Membership: old}

	m := start(t, cfg, nil)
	if m.View().Role != protocol.Observer {
		t.Fatalf("it is a %v", m.View().Role)
	}
	in := from(0, Heartbeat, old, 1)
	if fx := step(m, &in); len(fx.Sends) != 0 {
		t.Errorf("an observer answers a heartbeat that asks for nothing: %+v", fx.Sends)
	}
	in = from(0, Heartbeat, grown, 1)
	in.Message.Seq, in.Message.Promise = 2, time.Second
	fx := step(m, &in)
	if len(fx.Sends) != 1 || fx.Sends[0].Message.Promise != time.Second || m.View().Role != protocol.Follower {
		t.Errorf("a promoted one, asked for a promise, is a %v and sends %+v", m.View().Role, fx.Sends)
	}

	m = start(t, cfg, nil)
	in = from(0, Vote, grown, 1)
	fx = step(m, &in)
	if len(fx.Sends) != 1 || !fx.Sends[0].Message.Granted || fx.Sends[0].After != 2 || len(fx.Saves) != 1 {
		t.Errorf("a promoted one, asked for its vote, sends %+v", fx.Sends)
	}
}

// TestWipedDisk: a node whose disk was wiped is another voter.
func TestWipedDisk(t *testing.T) {
	ms := members(3)
	m := start(t, Config{Self: voter(0), Membership: ms}, nil)
	in := from(1, Vote, ms, 1)
	in.Message.Dir = protocol.DirID{9}
	fx := step(m, &in)
	if len(fx.Sends) != 1 || fx.Sends[0].Message.Granted || fx.Sends[0].Message.Reason != NotVoter || m.View().Term != 0 {
		t.Errorf("asked by n2 with another directory, it sends %+v in term %d", fx.Sends, m.View().Term)
	}
}

// TestNoRoomForPromises: when there are more live promises than places, the one that ends first is
// still owed, to all.
func TestNoRoomForPromises(t *testing.T) {
	m := start(t, Config{Self: voter(0), Membership: members(3)}, nil)
	now := m.now.Boot
	for i := range protocol.MaxVoters + 2 {
		msg := &protocol.Message{Incarnation: uint64(i + 1), Term: uint64(i + 1), Seq: 1}
		m.promise(voter(1), msg, time.Duration(i+1)*100*time.Millisecond)
	}
	in := protocol.Input{Kind: protocol.Receive, Now: m.now, From: "n2", Message: protocol.Message{Type: WitnessRelease, Dir: voter(1).Dir, Echo: 99}}
	step(m, &in)
	if got, want := m.owed(voter(1), 1), now.Add(200*time.Millisecond); got != want {
		t.Errorf("after the release of all that has a place, it is owed until %v; want %v, of the two that have none", got, want)
	}
}

// TestMaxPromiseShrinks: MaxPromise does not shrink before what may have been promised has elapsed.
func TestMaxPromiseShrinks(t *testing.T) {
	ms := members(3)
	before := Ballot{Membership: ms, MaxPromise: 10 * time.Second, Incarnation: 4}
	m := start(t, Config{Self: voter(0), Membership: ms}, before.Append(nil))
	for _, c := range []struct {
		after time.Duration
		term  uint64
		want  time.Duration
	}{{9 * time.Second, 1, 10 * time.Second}, {11 * time.Second, 2, time.Second}} {
		in := from(1, Vote, ms, c.term)
		in.Now = at(time.Second + c.after)
		fx := step(m, &in)
		if len(fx.Saves) != 1 {
			t.Fatalf("%v after the start: %d saves", c.after, len(fx.Saves))
		}
		if b, err := DecodeBallot(fx.Saves[0].Data); err != nil || b.MaxPromise != c.want || b.Incarnation != 5 {
			t.Errorf("%v after the start, it saves %+v, error %v; want a bound of %v", c.after, b, err, c.want)
		}
	}
}

// TestFailedSave: what waits for a failed save is not sent; the voter keeps its vote for the same
// candidate; a later save lets the answer leave.
func TestFailedSave(t *testing.T) {
	ms := members(3)
	m := start(t, Config{Self: voter(0), Membership: ms}, nil)
	ask := from(1, Vote, ms, 1)
	if fx := step(m, &ask); len(fx.Sends) != 1 || fx.Sends[0].After != 2 {
		t.Fatalf("sends %+v", fx.Sends)
	}
	step(m, &protocol.Input{Kind: protocol.Saved, Now: m.now, Number: 2, Failed: true})
	if fx := step(m, &ask); len(fx.Sends) != 1 || fx.Sends[0].Message.Granted || fx.Sends[0].Message.Reason != BadDisk {
		t.Errorf("asked again: %+v", fx.Sends)
	}
	again := m.NextFire()
	fx := step(m, &protocol.Input{Kind: protocol.Fire, Now: protocol.Reading{Boot: again, Mono: again}})
	if len(fx.Saves) != 1 || fx.Saves[0].Number != 3 {
		t.Fatalf("saves %+v at %v", fx.Saves, again)
	}
	step(m, &protocol.Input{Kind: protocol.Saved, Now: m.now, Number: 3})
	ask.Now = m.now
	if fx := step(m, &ask); len(fx.Sends) != 1 || !fx.Sends[0].Message.Granted || fx.Sends[0].After != 0 {
		t.Errorf("when it is saved: %+v", fx.Sends)
	}
	other := from(2, Vote, ms, 1)
	other.Now = m.now
	if fx := step(m, &other); len(fx.Sends) != 1 || fx.Sends[0].Message.Granted || fx.Sends[0].Message.Reason != Voted {
		t.Errorf("asked by another: %+v", fx.Sends)
	}
}

// TestConfirm: the count rises with the round trip, also for commands that were given during
// another one, and not before.
func TestConfirm(t *testing.T) {
	s := newSteady(t, 3)
	confirm := func() {
		s.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Confirm}}
		s.step(s.leader)
	}
	answer := func() { // of one follower
		for _, sent := range append([]protocol.Send(nil), s.fx.Sends...) {
			if sent.To == "n2" && sent.Message.Type == Heartbeat {
				s.beat = sent.Message
			}
		}
		s.hear()
		ack := s.fx.Sends[0].Message
		s.in = protocol.Input{Kind: protocol.Receive, From: "n2", Message: ack}
		s.step(s.leader)
	}
	confirm()
	first := s.fx.Sends[0].Message
	confirm()
	if len(s.fx.Sends) != 0 {
		t.Error("a second round trip begins while the first is under way")
	}
	if got := s.leader.View().Confirmed; got != 0 {
		t.Errorf("%d confirmed before any answer", got)
	}
	s.fx.Sends = append(s.fx.Sends, protocol.Send{To: "n2", Message: first})
	answer()
	if got := s.leader.View().Confirmed; got != 1 {
		t.Errorf("%d confirmed; want 1: the second command came after the heartbeat", got)
	}
	answer()
	if got := s.leader.View().Confirmed; got != 2 {
		t.Errorf("%d confirmed; want 2", got)
	}
}

// TestUnknown: invalid inputs change nothing.
func TestUnknown(t *testing.T) {
	ms := members(3)
	m := start(t, Config{Self: voter(0), Membership: ms}, nil)
	before := string(m.AppendState(nil))
	for name, in := range map[string]protocol.Input{
		"a second boot":           {Kind: protocol.Boot, Now: m.now},
		"a store's answer":        {Kind: protocol.Replied, Now: m.now},
		"a save of tomorrow":      {Kind: protocol.Saved, Now: m.now, Number: 99},
		"a term beyond a token's": from(1, Vote, ms, MaxTerm+1),
		"its own message":         from(0, Vote, ms, 7),
		"an unknown type":         from(1, "gossip", ms, 7),
	} {
		if fx := step(m, &in); len(fx.Sends)+len(fx.Saves)+len(fx.Orders) > 0 || string(m.AppendState(nil)) != before {
			t.Errorf("%s: has an effect", name)
		}
	}
}

// TestMetadata: the next heartbeats carry the metadata of the latest Campaign, also after the state
// was saved and loaded; an empty one changes nothing.
func TestMetadata(t *testing.T) {
	s := newSteady(t, 3)
	told := func() string {
		s.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Confirm}}
		s.step(s.leader)
		return s.fx.Sends[0].Message.Metadata
	}
	for _, c := range []struct{ brings, want string }{{"10.0.0.1:80", "10.0.0.1:80"}, {"", "10.0.0.1:80"}} {
		s.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign, Metadata: c.brings}}
		s.step(s.leader)
		if err := s.leader.LoadState(s.leader.AppendState(nil)); err != nil {
			t.Fatal(err)
		}
		s.leader.tenure.confirmAsked = 0 // as if answered
		if got := told(); got != c.want {
			t.Errorf("heartbeats carry %q after a campaign with %q; want %q", got, c.brings, c.want)
		}
	}
}

// TestIllFormed: a message beyond the bounds of every honest sender has no effect; the same message
// at the bound has one.
func TestIllFormed(t *testing.T) {
	ms := members(3)
	for _, c := range []struct {
		name string
		kind protocol.MessageType
		well func(*protocol.Message)
		ill  func(*protocol.Message)
	}{
		{"term", Vote, func(m *protocol.Message) { m.Term = MaxTerm }, func(m *protocol.Message) { m.Term = MaxTerm + 1 }},
		{"the voter's term before", Vote, func(m *protocol.Message) { m.PrevTerm = MaxTerm }, func(m *protocol.Message) { m.PrevTerm = MaxTerm + 1 }},
		{"the term of a handover", Vote, func(m *protocol.Message) { m.Handover = &protocol.Handover{Term: MaxTerm} }, func(m *protocol.Message) { m.Handover = &protocol.Handover{Term: MaxTerm + 1} }},
		{"a high priority", Vote, func(m *protocol.Message) { m.Priority = protocol.MaxPriority }, func(m *protocol.Message) { m.Priority = protocol.MaxPriority + 1 }},
		{"a low priority", Vote, func(m *protocol.Message) { m.Priority = protocol.NeverLead }, func(m *protocol.Message) { m.Priority = protocol.NeverLead - 1 }},
		{"a long position", Vote, func(m *protocol.Message) { m.Position = strings.Repeat("1", protocol.MaxPosition) }, func(m *protocol.Message) { m.Position = strings.Repeat("1", protocol.MaxPosition+1) }},
		{"a long ranking", Heartbeat, func(m *protocol.Message) { m.Ranking = make([]protocol.NodeID, protocol.MaxVoters) }, func(m *protocol.Message) { m.Ranking = make([]protocol.NodeID, protocol.MaxVoters+1) }},
		{"a long promise", Heartbeat, func(m *protocol.Message) { m.Promise = LongestPromise }, func(m *protocol.Message) { m.Promise = LongestPromise + 1 }},
		{"a negative promise", Heartbeat, func(m *protocol.Message) { m.Promise = 0 }, func(m *protocol.Message) { m.Promise = -1 }},
		{"a long residual", Vote, func(m *protocol.Message) { m.Residual = LongestPromise }, func(m *protocol.Message) { m.Residual = LongestPromise + 1 }},
		{"a negative residual", Vote, func(*protocol.Message) {}, func(m *protocol.Message) { m.Residual = -1 }},
		{"a long time to wait", Vote, func(m *protocol.Message) { m.RetryAfter = LongestPromise }, func(m *protocol.Message) { m.RetryAfter = LongestPromise + 1 }},
		{"a negative time to wait", Vote, func(*protocol.Message) {}, func(m *protocol.Message) { m.RetryAfter = -1 }},
	} {
		for i, change := range []func(*protocol.Message){c.well, c.ill} {
			m := start(t, Config{Self: voter(0), Membership: ms}, nil)
			in := from(1, c.kind, ms, 1)
			before := string(m.AppendState(nil))
			change(&in.Message)
			fx := step(m, &in)
			if ill := i == 1; ill != (len(fx.Sends) == 0 && string(m.AppendState(nil)) == before) {
				t.Errorf("%s: a message that is ill-formed: %v, has the effects %+v", c.name, ill, fx.Sends)
			}
		}
	}
}

// TestTransferNow: a participant that the token does not make the successor does not stand.
func TestTransferNow(t *testing.T) {
	ms := members(3)
	for _, c := range []struct {
		name   string
		change func(m *Machine, msg *protocol.Message)
		stands bool
	}{
		{"as it should be", func(*Machine, *protocol.Message) {}, true},
		{"no token", func(_ *Machine, msg *protocol.Message) { msg.Handover = nil }, false},
		{"another's name", func(_ *Machine, msg *protocol.Message) { msg.Handover.Target = "n3" }, false},
		{"another leader", func(_ *Machine, msg *protocol.Message) { msg.Handover.Leader = voter(2) }, false},
		{"another life", func(_ *Machine, msg *protocol.Message) { msg.Handover.Incarnation = 9 }, false},
		{"no candidate", func(m *Machine, _ *protocol.Message) { m.candidate = false }, false},
		{"paused", func(m *Machine, _ *protocol.Message) { m.paused = true }, false},
		{"ill", func(m *Machine, _ *protocol.Message) { m.sick = true }, false},
		{"never leads", func(m *Machine, _ *protocol.Message) { m.priority = protocol.NeverLead }, false},
		{"bad disk", func(m *Machine, _ *protocol.Message) { m.badDisk = true }, false},
		{"somebody has stood since", func(m *Machine, _ *protocol.Message) { m.ballot.Term = 2 }, false},
		{"heard since", func(m *Machine, _ *protocol.Message) { m.heard.seq = 6 }, false},
		{"the last term there is", func(m *Machine, msg *protocol.Message) { m.maxSeen = MaxTerm }, false},
	} {
		m := start(t, Config{Self: voter(0), Membership: ms}, nil)
		step(m, &protocol.Input{Kind: protocol.Do, Now: m.now, Command: protocol.Command{Verb: protocol.Campaign}})
		beat := from(1, Heartbeat, ms, 1)
		beat.Message.Promise, beat.Message.Seq = time.Second, 5
		step(m, &beat)
		in := from(1, TransferNow, ms, 1)
		in.Message.Handover = &protocol.Handover{Leader: voter(1), Incarnation: 1, Term: 1, Seq: 5, Target: "n1"}
		c.change(m, &in.Message)
		fx := step(m, &in)
		asked := 0
		for _, s := range fx.Sends {
			if s.Message.Type == Vote {
				asked++
				if h := s.Message.Handover; h == nil || *h != *in.Message.Handover || s.Message.Term != 2 || s.Message.Reason != HandedOver {
					t.Errorf("%s: asks for a vote with %+v", c.name, s.Message)
				}
			}
			if s.Message.Type == PreVote {
				t.Errorf("%s: asks first", c.name)
			}
		}
		if want := 2; (asked == want) != c.stands || asked != 0 && asked != want || (m.role == protocol.Candidate) != c.stands {
			t.Errorf("%s: asks %d for their vote, as a %v; want it to stand: %v", c.name, asked, m.role, c.stands)
		}
	}
}

// TestHonour: which promises a release, or the token of a transfer, waives.
func TestHonour(t *testing.T) {
	for _, c := range []struct {
		name                   string
		leader                 int
		incarnation, term, seq uint64
		waived                 bool
	}{
		{"that very promise", 1, 3, 7, 5, true},
		{"with later heartbeats that did not come", 1, 3, 7, 9, true},
		{"of an earlier heartbeat", 1, 3, 7, 4, false},
		{"of an earlier term of that life", 1, 3, 6, 9, false},
		{"of a later term of that life", 1, 3, 8, 2, true},
		{"of an earlier life", 1, 2, 7, 5, false},
		{"of a later life", 1, 4, 7, 5, false},
		{"of another", 2, 3, 7, 5, false},
	} {
		for _, kind := range []protocol.MessageType{Release, TransferNow, Vote} {
			m := start(t, Config{Self: voter(0), Membership: members(3)}, nil)
			beat := from(1, Heartbeat, members(3), 7)
			beat.Message.Incarnation, beat.Message.Seq, beat.Message.Promise = 3, 5, time.Second
			step(m, &beat)
			in := from(c.leader, kind, members(3), c.term)
			in.Message.Incarnation, in.Message.Seq = c.incarnation, c.seq
			if kind != Release {
				in.Message.Handover = &protocol.Handover{Leader: voter(c.leader), Incarnation: c.incarnation, Term: c.term, Seq: c.seq, Target: "n1"}
			}
			step(m, &in)
			if got := m.promises.to(voter(1), 3) == nil; got != c.waived {
				t.Errorf("%s, by a %s: waived is %v; want %v", c.name, kind, got, c.waived)
			}
		}
	}
}

// TestReanchorAfterAdd has a voter return in a higher term after voters were added: they count as
// grantors, and the tenure goes on (R5).
func TestReanchorAfterAdd(t *testing.T) {
	for _, grow := range []bool{false, true} {
		w := newWorld(1)
		for i := range 5 {
			w.add(Config{Self: voter(i), Membership: members(3)})
		}
		for i := range 5 {
			w.nodes[i].start()
		}
		w.run(3 * time.Second)
		lead := w.leader()
		if lead == nil || lead.i != 0 {
			t.Fatal("n1 does not lead")
		}
		now := 3 * time.Second
		voters := 3
		do := func(ms *protocol.Membership) {
			if err := lead.m.Objection(ms); err != nil {
				t.Fatal(err)
			}
			lead.do(protocol.Command{Verb: protocol.Reconfigure, Membership: ms})
			now += 2 * time.Second
			w.run(now)
			voters++
		}
		if grow {
			do(among(0, 1, 2, 3))
			do(among(0, 1, 2, 3, 4))
		}
		token := lead.m.tenure.token
		b := &w.nodes[2].m.ballot // n3 stood in an election without a winner
		w.nodes[2].m.votePrev, b.Term, b.VotedFor = b.Term, b.Term+1, voter(2)
		w.run(now + 3*time.Second)
		v := lead.m.View()
		if v.Token != token {
			t.Errorf("%d voters: the tenure was ended (overtaken)", voters)
		}
	}
}

// TestPositionNotKnownYet restarts a voter that is told its position later: until then it votes for
// no candidate and does not stand.
func TestPositionNotKnownYet(t *testing.T) {
	cfg := Config{Self: voter(0), Membership: members(3), Position: RequirePosition, AwaitPosition: true}
	m := start(t, cfg, nil)
	step(m, &protocol.Input{Kind: protocol.Do, Now: at(time.Second), Command: protocol.Command{Verb: protocol.Campaign}})
	if m.fit() {
		t.Error("it would stand")
	}
	ask := from(1, Vote, members(3), 7)
	ask.Now, ask.Message.Position = at(2*time.Second), "90"
	if fx := step(m, &ask); len(fx.Sends) != 1 || fx.Sends[0].Message.Reason != BehindPosition {
		t.Errorf("it answered %+v", fx.Sends)
	}
	step(m, &protocol.Input{Kind: protocol.Do, Now: at(3 * time.Second), Command: protocol.Command{Verb: protocol.Locate, Position: "80"}})
	if !m.fit() {
		t.Error("it would not stand")
	}
	ask.Now, ask.Message.Round = at(4*time.Second), 2
	if fx := step(m, &ask); len(fx.Sends) != 1 || !fx.Sends[0].Message.Granted {
		t.Errorf("it answered %+v", fx.Sends)
	}
}

// TestPreferDoesNotWaitForEver has a voter that is never told its position: with PreferPosition it
// stands after a promise and the grace.
func TestPreferDoesNotWaitForEver(t *testing.T) {
	m := start(t, Config{Self: voter(0), Membership: members(1), Position: PreferPosition, AwaitPosition: true}, nil)
	step(m, &protocol.Input{Kind: protocol.Do, Now: at(time.Second), Command: protocol.Command{Verb: protocol.Campaign}})
	due := m.NextFire()
	if want := at(time.Second + m.cfg.Promise + m.cfg.Grace).Boot; due != want {
		t.Fatalf("it wakes at %v; want %v", due, want)
	}
	step(m, &protocol.Input{Kind: protocol.Fire, Now: at(time.Duration(due))})
	if m.role == protocol.Follower {
		t.Error("it does not stand")
	}
}
