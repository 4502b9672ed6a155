package quorum

import (
	"testing"
	"time"

	"github.com/electd/elect/protocol"
)

// at is a reading, and start a machine that has booted and saved.
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

// from is a message of a voter in its first life.
func from(i int, kind protocol.MessageType, ms *protocol.Membership, term uint64) protocol.Input {
	v := voter(i)
	return protocol.Input{Kind: protocol.Receive, Now: at(time.Second), From: v.ID, Message: protocol.Message{
		Type: kind, Dir: v.Dir, Incarnation: 1, Term: term, Membership: ms, Round: 1, Seq: 1,
	}}
}

// TestPromotedObserver: an observer that learns from the message itself that it
// is a voter keeps the promise, and votes (R14).
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

// TestWipedDisk: a node that has lost its disk is another voter.
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

// TestNoRoomForPromises: when there are more live promises than places, the
// one that ends first is still owed, to everybody.
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

// TestMaxPromiseShrinks: not before what may have been promised has elapsed.
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

// TestFailedSave: what waits for a save that failed is not sent; the vote is
// still given, to nobody else; and a later save makes good for it.
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

// TestConfirm: the count rises with the round trip, also for commands that were
// given while another was under way, and not before.
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

// TestUnknown: inputs that make no sense change nothing.
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

// TestMetadata: the next heartbeats carry what the latest Campaign brought, also
// after the state was saved and loaded; an empty one changes nothing.
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
		s.leader.reign.confirmAsked = 0 // as if answered
		if got := told(); got != c.want {
			t.Errorf("heartbeats carry %q after a campaign with %q; want %q", got, c.brings, c.want)
		}
	}
}
