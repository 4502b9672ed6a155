package flight

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// leading is a leader of three voters, and the answer to its next heartbeat.
type leading struct {
	m      *quorum.Machine
	config json.RawMessage
	in     protocol.Input
	fx     protocol.Effects
	view   protocol.View
	saved  uint64 // a save that is not answered
	asked  []protocol.Message
}

// lead elects n1 among three; the others grant whatever is asked.
func lead(b *testing.B) *leading {
	b.Helper()
	c := quorum.Config{Membership: &protocol.Membership{Version: 1}, Metadata: "10.0.0.1:8080"}
	for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		c.Membership.Voters = append(c.Membership.Voters, protocol.Voter{ID: id, Dir: protocol.DirID{id[1]}})
	}
	c.Self = c.Membership.Voters[0]
	m, err := quorum.New(c)
	if err != nil {
		b.Fatal(err)
	}
	l := &leading{m: m}
	if l.config, err = json.Marshal(c); err != nil {
		b.Fatal(err)
	}
	l.step(protocol.Input{Kind: protocol.Boot})
	l.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}})
	for range 100 {
		if l.view = m.View(); l.view.Active {
			return l
		}
		l.next()
	}
	b.Fatalf("n1 does not lead: %+v", l.view)
	return nil
}

func (l *leading) step(in protocol.Input) {
	in.Now, in.Rand = l.in.Now, 1
	l.in = in
	l.fx.Reset()
	l.m.Step(&l.in, &l.fx)
	for _, s := range l.fx.Saves {
		l.saved = max(l.saved, s.Number)
	}
	for _, s := range l.fx.Sends {
		if s.To == "n2" {
			l.asked = append(l.asked, s.Message)
		}
	}
}

// next does one thing that the machine waits for: it has saved, n2 answers, or
// the time has come.
func (l *leading) next() {
	now := l.in.Now.Boot + protocol.Instant(100*time.Microsecond)
	if l.saved == 0 && len(l.asked) == 0 {
		now = l.m.NextFire()
	}
	l.in.Now = protocol.Reading{Boot: now, Mono: now}
	switch {
	case l.saved > 0:
		number := l.saved
		l.saved = 0
		l.step(protocol.Input{Kind: protocol.Saved, Number: number})
	case len(l.asked) > 0:
		q := l.asked[0]
		l.asked = l.asked[1:]
		a := protocol.Message{Dir: protocol.DirID{'2'}, Incarnation: 1, Term: q.Term, Membership: q.Membership, Echo: q.Incarnation, Round: q.Round, Seq: q.Seq, Granted: true}
		switch q.Type {
		case quorum.PreVote:
			a.Type = quorum.PreVoteReply
		case quorum.Vote:
			a.Type = quorum.VoteReply
		case quorum.Heartbeat:
			a.Type, a.Promise = quorum.HeartbeatAck, q.Promise
		}
		l.step(protocol.Input{Kind: protocol.Receive, From: "n2", Message: a})
	default:
		l.step(protocol.Input{Kind: protocol.Fire})
	}
}

// beats are the inputs of a heartbeat: the fire that sends it and its answer.
func (l *leading) beats(b *testing.B) (fire, ack protocol.Input, sent, none protocol.Effects) {
	b.Helper()
	for range 100 {
		l.next()
		if l.in.Kind == protocol.Fire && len(l.asked) == 1 && l.asked[0].Type == quorum.Heartbeat {
			fire, sent = l.in, protocol.Effects{Sends: append([]protocol.Send(nil), l.fx.Sends...)}
			l.next()
			return fire, l.in, sent, protocol.Effects{}
		}
	}
	b.Fatal("no heartbeat")
	return
}

// BenchmarkStep is what a heartbeat and its answer cost: on the goroutine of
// the node while the recorder keeps up or not (waking it is in it), and all told.
func BenchmarkStep(b *testing.B) {
	l := lead(b)
	fire, ack, sent, none := l.beats(b)
	view := l.m.View()
	state := func() []byte { return l.m.AppendState(nil) }
	open := func(b *testing.B) *Recorder {
		r, err := Open(Config{Dir: place.At{Path: b.TempDir()}, Node: "n1", Protocol: quorum.Name, Config: l.config})
		if err != nil {
			b.Fatal(err)
		}
		r.Step(&protocol.Input{Kind: protocol.Boot, Now: fire.Now}, &none, &view, state)
		settle(r)
		b.Cleanup(func() {
			if err := r.Close(); err != nil {
				b.Error(err)
			}
		})
		return r
	}
	b.Run("node", func(b *testing.B) { // the recorder sleeps before each step
		r := open(b)
		b.ReportAllocs()
		var spent time.Duration
		for b.Loop() {
			start := time.Now()
			r.Step(&fire, &sent, &view, state)
			spent += time.Since(start)
			settle(r)
		}
		b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/step")
	})
	for _, c := range []struct {
		name string
		in   *protocol.Input
		fx   *protocol.Effects
	}{{"heartbeat", &fire, &sent}, {"answer", &ack, &none}} {
		b.Run(c.name, func(b *testing.B) {
			r := open(b)
			b.ReportAllocs()
			for b.Loop() {
				r.Step(c.in, c.fx, &view, state)
				settle(r)
			}
			b.ReportMetric(float64(r.Gaps()), "gaps")
		})
	}
}
