package raft

import (
	"bytes"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

func FuzzBallot(f *testing.F) {
	classictest.FuzzDecode(f, DecodeBallot, Ballot{Incarnation: 1}, Ballot{Term: protocol.MaxCount, VotedFor: "n10", Incarnation: 1 << 60})
}

// TestBallot: an invalid ballot halts the machine, and Fault says why.
func TestBallot(t *testing.T) {
	good := Ballot{Term: 3, VotedFor: "n2", Incarnation: 7}.Append(nil)
	if b, err := DecodeBallot(good); err != nil || b != (Ballot{3, "n2", 7}) {
		t.Errorf("read back %+v, %v", b, err)
	}
	for name, data := range map[string][]byte{
		"empty": {}, "another version": append([]byte{9}, good[1:]...), "short": good[:len(good)-1], "long": append(bytes.Clone(good), 0),
		"a term": Ballot{Term: protocol.MaxCount + 1, Incarnation: 1}.Append(nil), "no life": Ballot{Term: 1}.Append(nil), "a vote": Ballot{VotedFor: "n 2", Incarnation: 1}.Append(nil),
	} {
		if _, err := DecodeBallot(data); err == nil {
			t.Errorf("%s: accepted", name)
		}
		m, err := New(Config{Self: "n1", Members: classictest.IDs(3)})
		if err != nil {
			t.Fatal(err)
		}
		var fx protocol.Effects
		m.Step(&protocol.Input{Kind: protocol.Boot, Durable: data}, &fx)
		m.Step(&protocol.Input{Kind: protocol.Fire, Now: protocol.Reading{Boot: protocol.Instant(time.Hour)}}, &fx)
		if v := m.View(); v.Role != protocol.Halted || v.Fault == "" || len(fx.Saves)+len(fx.Sends)+len(fx.Orders) > 0 || m.NextFire() != protocol.Never {
			t.Errorf("%s: %+v, effects %+v", name, v, fx)
		}
	}
}

var kinds = [...]protocol.MessageType{PreVote, PreVoteReply, Vote, VoteReply, Heartbeat, HeartbeatReply, "no-such"}

// drive hands a machine inputs made of bytes, three each, and checks what must hold for any inputs.
func drive(t *testing.T, cfg Config, script []byte) {
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var fx protocol.Effects
	now := protocol.Instant(time.Hour)
	saves, elected, fenced, last := uint64(0), uint64(0), false, uint64(0)
	disk := map[uint64]Ballot{} // by save
	in := protocol.Input{Kind: protocol.Boot}
	for {
		in.Now, in.Rand = protocol.Reading{Boot: now, Mono: now}, uint64(now)*0x9e3779b97f4a7c15
		fx.Reset()
		m.Step(&in, &fx)
		for _, o := range fx.Orders {
			switch {
			case o.Kind == protocol.Elected && elected == 0 && !fenced && o.Token > last:
				elected, last = o.Token, o.Token
			case o.Kind == protocol.Stop && o.Token == elected && elected > 0:
				elected, fenced = 0, true
			default:
				t.Fatalf("order %+v while %d is elected, after %d, fencing %t", o, elected, last, fenced)
			}
		}
		if v := m.View(); v.Elected != (elected > 0) || (v.Role == protocol.Fencing) != fenced || v.Term > protocol.MaxCount {
			t.Fatalf("view %+v; elected %d, fencing %t", v, elected, fenced)
		}
		for _, s := range fx.Saves {
			b, err := DecodeBallot(s.Data)
			if was := disk[saves]; err != nil || s.Number != saves+1 || b.Term < was.Term || b.Term == was.Term && was.VotedFor != "" && b.VotedFor != was.VotedFor {
				t.Fatalf("save %d: %+v, %v after %+v", s.Number, b, err, was)
			}
			saves = s.Number
			disk[saves] = b
		}
		for _, s := range fx.Sends {
			if s.To == cfg.Self || members.Place(cfg.Members, s.To) < 0 || s.After > saves {
				t.Fatalf("sends to %s after save %d of %d", s.To, s.After, saves)
			}
			if s.Message.Type == VoteReply && s.Message.Granted && disk[max(s.After, m.saved)].VotedFor != s.To {
				t.Fatalf("grants %s its vote once %+v is durable", s.To, disk[max(s.After, m.saved)])
			}
		}
		state := m.AppendState(nil)
		if err := m.LoadState(state); err != nil {
			t.Fatalf("its own state is refused: %v", err)
		}
		if again := m.AppendState(nil); !bytes.Equal(again, state) {
			t.Fatalf("state %x is written as %x", state, again)
		}
		if len(script) < 3 {
			return
		}
		a, b, c := script[0], script[1], script[2]
		script = script[3:]
		in = protocol.Input{}
		switch a % 6 {
		case 0, 1:
			in.Kind, in.From = protocol.Receive, cfg.Members[int(b)%len(cfg.Members)]
			in.Message = protocol.Message{Type: kinds[int(c)%len(kinds)], Term: m.ballot.Term + uint64(b>>4)%3 - uint64(c>>6)%2, Granted: c&8 > 0, Round: m.round, Echo: m.ballot.Incarnation, Position: string("59"[b&1])}
		case 2:
			in.Kind, in.Number, in.Failed = protocol.Saved, m.saved+1+uint64(b)%2, c%4 == 0
		case 3:
			if now = max(now, m.NextFire()); now == protocol.Never {
				return
			}
			in.Kind = protocol.Fire
		case 4:
			in.Kind = protocol.Do
			in.Command = protocol.Command{Verb: protocol.Verb(b % 16), Token: m.token, Position: string("4689"[c&3])}
			if in.Command.Verb == protocol.Joined {
				fenced = false
			}
		default:
			now = now.Add(time.Duration(b) * time.Duration(c) * time.Millisecond / 64)
			in.Kind = protocol.Fire
		}
	}
}

func FuzzStep(f *testing.F) {
	f.Add(uint8(1), []byte{2, 0, 1, 4, 1, 0, 3, 0, 0, 2, 0, 1, 4, 3, 0, 4, 4, 0})
	f.Add(uint8(0x03), []byte{2, 0, 1, 4, 1, 0, 3, 0, 0, 2, 0, 1, 0, 1, 11, 4, 3, 0, 5, 200, 200})
	f.Add(uint8(0xf3), []byte{2, 0, 1, 4, 12, 1, 4, 1, 0, 3, 0, 0, 0, 1, 8, 2, 0, 1, 0, 1, 10, 5, 100, 100, 0, 18, 4, 4, 4, 0})
	f.Fuzz(func(t *testing.T, shape uint8, script []byte) {
		cfg := Config{Self: "n1", Members: classictest.IDs(1 + int(shape%5)), PreVote: shape&0x10 > 0, CheckQuorum: shape&0x20 > 0}
		if shape&0x40 > 0 {
			cfg.Position = RequirePosition
		}
		drive(t, cfg, script)
	})
}

func FuzzState(f *testing.F) {
	w := newWorld(f, 1, 3, Config{PreVote: true, CheckQuorum: true})
	w.start()
	for range 20 {
		w.Run(40 * time.Millisecond)
		f.Add(w.nodes[0].Machine.AppendState(nil))
	}
	classictest.FuzzLoadState(f, func() (*Machine, error) { return New(w.nodes[0].cfg) })
}
