package raft

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// one is a single machine, n1 of three, and the effects of its latest step.
type one struct {
	*Machine
	t   *testing.T
	fx  protocol.Effects
	at  protocol.Instant
	num uint64 // of the latest save
}

func newOne(t *testing.T, cfg Config) *one {
	cfg.Self, cfg.Members = "n1", classictest.IDs(3)
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := &one{Machine: m, t: t, at: 1}
	o.give(protocol.Input{Kind: protocol.Boot})
	o.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}})
	o.durable()
	return o
}

func (o *one) give(in protocol.Input) {
	in.Now = protocol.Reading{Boot: o.at, Mono: o.at}
	o.fx.Reset()
	o.Step(&in, &o.fx)
	for _, s := range o.fx.Saves {
		o.num = s.Number
	}
}

func (o *one) durable() { o.give(protocol.Input{Kind: protocol.Saved, Number: o.num}) }

func (o *one) fire() {
	o.at = max(o.at, o.NextFire())
	o.give(protocol.Input{Kind: protocol.Fire})
}

func (o *one) hear(from protocol.NodeID, m protocol.Message) {
	o.give(protocol.Input{Kind: protocol.Receive, From: from, Message: m})
}

// answer returns the only message that was sent.
func (o *one) answer() protocol.Send {
	o.t.Helper()
	if len(o.fx.Sends) != 1 {
		o.t.Fatalf("%d messages sent; want an answer: %+v", len(o.fx.Sends), o.fx.Sends)
	}
	return o.fx.Sends[0]
}

// Only answers to the present question count.
func TestPreVoteAnswers(t *testing.T) {
	for name, change := range map[string]func(*protocol.Message){
		"of this round":     func(*protocol.Message) {},
		"of an older round": func(m *protocol.Message) { m.Round-- },
		"of another life":   func(m *protocol.Message) { m.Echo++ },
		"that refuses":      func(m *protocol.Message) { m.Granted = false },
		"to another kind":   func(m *protocol.Message) { m.Type = VoteReply },
	} {
		o := newOne(t, Config{PreVote: true})
		o.fire()
		o.fire() // the second round
		q := o.fx.Sends[0].Message
		if q.Type != PreVote || q.Term != 1 || q.Round != 2 || o.ballot.Term != 0 {
			t.Fatalf("asks %+v in term %d", q, o.ballot.Term)
		}
		m := protocol.Message{Type: PreVoteReply, Echo: q.Incarnation, Round: q.Round, Granted: true}
		change(&m)
		o.hear("n2", m)
		if stands := o.role == protocol.Candidate; stands != (name == "of this round") {
			t.Errorf("an answer %s: role %v", name, o.role)
		}
	}
}

// A pre-vote is refused in a term that the voter is in already, so that the asker learns of it, and
// while a leader is heard or the voter leads itself.
func TestPreVoteRefusals(t *testing.T) {
	o := newOne(t, Config{})
	o.hear("n2", protocol.Message{Type: HeartbeatReply, Term: 5})
	o.durable()
	ask := func(term uint64, granted bool, reason protocol.Reason) {
		t.Helper()
		state := o.AppendState(nil)
		o.hear("n2", protocol.Message{Type: PreVote, Term: term, Incarnation: 9, Round: 4})
		a := o.answer().Message
		if a.Granted != granted || a.Reason != reason || a.Term != 5 || a.Echo != 9 || a.Round != 4 {
			t.Errorf("pre-vote for term %d: %+v", term, a)
		}
		if string(o.AppendState(nil)) != string(state) {
			t.Error("a pre-vote has changed something")
		}
	}
	ask(4, false, OldTerm)
	ask(5, false, OldTerm)
	ask(6, true, "")
	o.hear("n3", protocol.Message{Type: Heartbeat, Term: 5})
	ask(6, false, LeaderHeard)
	o.at += protocol.Instant(150*time.Millisecond) - 1
	ask(6, false, LeaderHeard)
	o.at++
	ask(6, true, "")
}

// There is one vote a term, whatever asks again, and none in an earlier term.
func TestVotes(t *testing.T) {
	o := newOne(t, Config{})
	ask := func(from protocol.NodeID, term uint64, granted bool, reason protocol.Reason) {
		t.Helper()
		o.hear(from, protocol.Message{Type: Vote, Term: term})
		a := o.answer()
		if a.To != from || a.Message.Granted != granted || a.Message.Reason != reason || a.Message.Term != o.ballot.Term {
			t.Errorf("vote of %s for term %d: %+v", from, term, a)
		}
		if len(o.fx.Saves) > 0 && a.After != o.num {
			t.Errorf("the answer waits for save %d; want %d", a.After, o.num)
		}
		o.durable()
	}
	ask("n2", 2, true, "")
	ask("n2", 2, true, "")
	ask("n3", 2, false, Voted)
	o.hear("n3", protocol.Message{Type: HeartbeatReply, Term: 5})
	o.durable()
	ask("n2", 4, false, OldTerm)
	if o.ballot.VotedFor != "" {
		t.Errorf("it has voted for %s in term 5", o.ballot.VotedFor)
	}
	ask("n3", 5, true, "")
	o.hear("n9", protocol.Message{Type: Vote, Term: 8})
	o.hear("n1", protocol.Message{Type: Vote, Term: 8})
	o.hear("n2", protocol.Message{Type: Vote, Term: protocol.MaxCount + 1})
	if o.ballot.Term != 5 {
		t.Errorf("a stranger, itself, or an impossible term has moved it to term %d", o.ballot.Term)
	}
}

// Where positions count, a participant that does not know its own neither votes nor stands.
func TestUnplaced(t *testing.T) {
	o := newOne(t, Config{Position: RequirePosition})
	o.hear("n2", protocol.Message{Type: Vote, Term: 1, Position: "7"})
	if a := o.answer().Message; a.Granted || a.Reason != Unplaced {
		t.Errorf("answers %+v", a)
	}
	o.fire()
	if o.role != protocol.Follower || len(o.fx.Sends) > 0 {
		t.Errorf("role %v, sends %+v", o.role, o.fx.Sends)
	}
	o.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Locate, Position: "7"}})
	o.durable()
	o.hear("n2", protocol.Message{Type: Vote, Term: 1, Position: "6"})
	if a := o.answer().Message; a.Granted || a.Reason != BehindPosition {
		t.Errorf("answers %+v", a)
	}
	o.hear("n3", protocol.Message{Type: Vote, Term: 1, Position: "10"})
	if a := o.answer().Message; !a.Granted {
		t.Errorf("answers %+v", a)
	}
}

// After a failed save no message that depends on it leaves, until a later save is durable.
func TestFailedSave(t *testing.T) {
	o := newOne(t, Config{})
	o.hear("n2", protocol.Message{Type: Vote, Term: 1})
	o.give(protocol.Input{Kind: protocol.Saved, Number: o.num, Failed: true})
	o.hear("n2", protocol.Message{Type: Vote, Term: 1})
	if len(o.fx.Sends)+len(o.fx.Saves) > 0 {
		t.Errorf("after the failure: %+v", o.fx)
	}
	failed := o.num
	o.fire()
	if o.num != failed+1 || o.at != 1+protocol.Instant(50*time.Millisecond) {
		t.Fatalf("it saves %d at %v", o.num, o.at)
	}
	o.hear("n2", protocol.Message{Type: Vote, Term: 1})
	if a := o.answer(); a.After != o.num || !a.Message.Granted {
		t.Errorf("answers %+v; want it after save %d", a, o.num)
	}
	// It stands again only when it can save.
	o.give(protocol.Input{Kind: protocol.Saved, Number: o.num, Failed: true})
	o.at = max(o.at, o.electAt)
	o.give(protocol.Input{Kind: protocol.Fire})
	if o.role != protocol.Follower || len(o.fx.Sends) > 0 {
		t.Errorf("role %v, sends %+v", o.role, o.fx.Sends)
	}
	o.durable()
	o.fire()
	if o.role != protocol.Candidate {
		t.Errorf("role %v", o.role)
	}
}

// A leader is heard in its term only, and nothing stands beyond the last term.
func TestTerms(t *testing.T) {
	o := newOne(t, Config{PreVote: true})
	o.hear("n3", protocol.Message{Type: Heartbeat, Term: 1})
	o.durable()
	if v := o.View(); v.Leader != (protocol.Leadership{ID: "n3", Term: 1}) {
		t.Errorf("view %+v", v)
	}
	o.hear("n2", protocol.Message{Type: VoteReply, Term: 2})
	o.durable()
	if v := o.View(); v.Leader != (protocol.Leadership{}) || v.Term != 2 {
		t.Errorf("view %+v", v)
	}
	o.hear("n2", protocol.Message{Type: PreVote, Term: 3})
	if a := o.answer().Message; !a.Granted {
		t.Errorf("answers %+v", a)
	}
	for _, preVote := range []bool{false, true} {
		o := newOne(t, Config{PreVote: preVote})
		o.hear("n2", protocol.Message{Type: HeartbeatReply, Term: protocol.MaxCount})
		o.durable()
		o.fire()
		if v := o.View(); v.Role != protocol.Follower || v.Term != protocol.MaxCount || len(o.fx.Sends) > 0 || o.NextFire() <= o.at {
			t.Errorf("in the last term: %+v, sends %+v", v, o.fx.Sends)
		}
	}
}
