package quorum

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

func FuzzDecodeBallot(f *testing.F) {
	b := Ballot{Term: 7, VotedFor: voter(1), Membership: members(3), MaxPromise: time.Second, Incarnation: 2}
	again := b
	again.VotedFor = protocol.Voter{}
	again.Membership = &protocol.Membership{ConfigTerm: 3, Version: 9, Voters: members(1).Voters, Observers: []protocol.NodeID{"o"}}
	classictest.FuzzDecode(f, DecodeBallot, b, again)
}

// tape turns bytes into numbers, and into zeros after its end.
type tape struct{ data []byte }

func (p *tape) byte() byte {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return b
}

// number is small in most cases and any number in some.
func (p *tape) number() uint64 {
	b := p.byte()
	if b < 240 || len(p.data) < 8 {
		return uint64(b % 16)
	}
	v := binary.BigEndian.Uint64(p.data)
	p.data = p.data[8:]
	return v
}

func (p *tape) duration() time.Duration {
	b := p.byte()
	if b < 250 {
		return time.Duration(b) * 10 * time.Millisecond
	}
	return time.Duration(p.number())
}

func (p *tape) priority() int { return int(p.byte())*5 - 2 }

func (p *tape) position() string {
	b := p.byte()
	return strings.Repeat(string("019./ax"[b%7]), int(b/7))
}

// membership is some of seven voters, and sometimes an invalid membership.
func (p *tape) membership() *protocol.Membership {
	ms := &protocol.Membership{ConfigTerm: p.number(), Version: p.number()}
	set, other := p.byte(), p.byte()
	for i := range 7 {
		switch v := voter(i); {
		case set&(1<<i) != 0:
			if other == 255 {
				v.Dir[15]++
			}
			ms.Voters = append(ms.Voters, v)
		case other&(1<<i) != 0:
			ms.Observers = append(ms.Observers, v.ID)
		}
	}
	if set&other&1 != 0 {
		ms.Addresses = []protocol.Address{{ID: "n1", Addr: "there:1"}}
	}
	return ms
}

// input reads one input, valid or not.
func (p *tape) input(clock *protocol.Reading) protocol.Input {
	types := [...]protocol.MessageType{Heartbeat, HeartbeatAck, PreVote, PreVoteReply, Vote, VoteReply, Release, WitnessRelease, TransferNow, News, "other"}
	d := p.duration()
	clock.Boot += protocol.Instant(d)
	if p.byte() < 250 {
		clock.Mono += protocol.Instant(d)
	}
	in := protocol.Input{Kind: protocol.InputKind(p.byte() % 9), Now: *clock, Rand: p.number()}
	from := voter(int(p.byte() % 5))
	in.From = from.ID
	switch in.Kind {
	case protocol.Boot:
		n := int(p.byte())
		in.Durable = p.data[:min(len(p.data), n)]
	case protocol.Saved:
		in.Number, in.Failed = p.number(), p.byte()%4 == 0
	case protocol.PeerClosed:
		in.Incarnation = p.number()
	case protocol.Do:
		in.Command = protocol.Command{Verb: protocol.Verb(p.byte() % 14), Token: p.number()}
		switch in.Command.Verb {
		case protocol.Campaign:
			in.Command.Priority = p.priority()
		case protocol.Transfer:
			in.Command.Target = voter(int(p.byte() % 6)).ID
		case protocol.Locate:
			in.Command.Position = p.position()
		case protocol.Reconfigure:
			in.Command.Membership = p.membership()
		}
	case protocol.Receive:
		msg := protocol.Message{
			Type: types[int(p.byte())%len(types)], Dir: from.Dir, Incarnation: p.number(), Term: p.number(), Echo: p.number(), Round: p.number(), Seq: p.number(),
			Promise: p.duration(), Residual: p.duration(), PrevTerm: p.number(), RetryAfter: p.duration(),
		}
		bits, more := p.byte(), p.byte()
		msg.Granted, msg.Unhealthy = bits&1 != 0, bits&2 != 0
		if bits&4 != 0 {
			msg.Dir = protocol.DirID{bits}
		}
		if bits&24 != 24 {
			msg.Membership = p.membership()
		}
		if bits&32 != 0 {
			msg.Membership = &protocol.Membership{ConfigTerm: 99}
		}
		if bits&64 != 0 {
			msg.Ranking = []protocol.NodeID{"n3", "n1", "x"}
		}
		if more&1 != 0 {
			msg.Priority, msg.Position = p.priority(), p.position()
		}
		if more&2 != 0 {
			msg.Held = protocol.ConfigID{Term: p.number(), Version: p.number()}
		}
		if more&4 != 0 || msg.Type == TransferNow && more&8 == 0 {
			h := &protocol.Handover{Leader: from, Incarnation: msg.Incarnation, Term: msg.Term, Seq: msg.Seq, Target: "n1"}
			if more&16 != 0 {
				h.Leader, h.Incarnation, h.Term, h.Seq, h.Target = voter(int(p.byte()%5)), p.number(), p.number(), p.number(), voter(int(p.byte()%5)).ID
			}
			msg.Handover = h
		}
		if more&32 != 0 {
			msg.Reason = BehindPosition
		}
		in.Message = msg
	}
	return in
}

// FuzzStep feeds a machine any inputs at any time. It must not panic, must have only the effects
// that package protocol allows, and must keep all that it knows in its state.
func FuzzStep(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{5, 1, 7, 3, 0, 1}, 40))
	f.Add(bytes.Repeat([]byte{100, 0, 3, 1, 1, 3, 2, 4, 1, 2, 0, 9, 5, 1, 1, 2, 10, 0, 3}, 30))
	f.Add([]byte("a campaign, a fire, some saves and whatever the characters stand for; and again, a campaign"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &tape{data}
		cfg := Config{Self: voter(0), Membership: members(int(p.byte()%5) + 1)}
		if b := p.byte(); b > 128 {
			cfg.Position = []PositionPolicy{IgnorePosition, PreferPosition, RequirePosition}[b%3]
			cfg.Priority = int(b%4) * 100
			cfg.MinTenure, cfg.Steady = time.Duration(p.byte()+1)*time.Millisecond, time.Duration(p.byte()+1)*time.Millisecond
		}
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		clock := protocol.Reading{Boot: 1 << 40, Mono: 1 << 39}
		play := func(in protocol.Input) {
			was := m.View()
			before := m.AppendState(nil)
			fx := step(m, &in)
			twin, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := classictest.Reloaded(m, fx, twin, before, &in); err != nil {
				t.Fatal(err)
			}
			if len(fx.Saves) > 1 || len(fx.Asks) > 0 {
				t.Fatalf("%d saves and %d asks in one step", len(fx.Saves), len(fx.Asks))
			}
			for _, s := range fx.Saves {
				if _, err := DecodeBallot(s.Data); err != nil {
					t.Fatalf("saves what it cannot read: %v", err)
				}
			}
			for _, s := range fx.Sends {
				if s.After > m.saveNo || s.To == m.cfg.Self.ID {
					t.Fatalf("sends %+v; the last save is %d", s, m.saveNo)
				}
			}
			elected := was.Elected
			for _, o := range fx.Orders {
				if o.Kind == protocol.CatchUp {
					if elected || cfg.Position == IgnorePosition || o.From == m.cfg.Self.ID {
						t.Fatalf("the order %+v while elected is %v", o, elected)
					}
					continue
				}
				if elected == (o.Kind == protocol.Elected) {
					t.Fatalf("the order %v while elected is %v", o.Kind, elected)
				}
				elected = o.Kind != protocol.Stop
			}
			if elected != m.View().Elected {
				t.Fatalf("after %+v, elected is %v", fx.Orders, m.View().Elected)
			}
			m.NextFire()
			if ms, settled := m.Membership(); settled && !m.View().Elected || ms.Validate() != nil {
				t.Fatalf("membership %+v, settled: %v", ms, settled)
			}
			m.Members(nil)
		}
		play(protocol.Input{Kind: protocol.Boot, Now: clock})
		play(protocol.Input{Kind: protocol.Saved, Now: clock, Number: 1})
		play(protocol.Input{Kind: protocol.Do, Now: clock, Command: protocol.Command{Verb: protocol.Campaign}})
		for n := 0; len(p.data) > 0 && n < 200; n++ {
			play(p.input(&clock))
		}
	})
}

// FuzzLoadState loads any bytes: they are refused, or make a machine that works.
func FuzzLoadState(f *testing.F) {
	for seed := range uint64(3) {
		w := chaos(seed+1, nil)
		w.run(time.Second)
		for _, n := range w.nodes {
			if n.m != nil {
				f.Add(n.m.AppendState(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := New(Config{Self: voter(0), Membership: members(3)})
		if err != nil {
			t.Fatal(err)
		}
		if m.LoadState(data) != nil {
			return
		}
		clock := m.now
		p := &tape{bytes.Clone(data[len(data)/2:])}
		for range 20 {
			in := p.input(&clock)
			step(m, &in)
			step(m, &protocol.Input{Kind: protocol.Fire, Now: clock})
			m.NextFire()
			m.View()
		}
	})
}
