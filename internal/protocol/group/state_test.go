package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// machine is what both have.
type machine interface {
	Step(in *Input, fx *Effects)
	NextFire() protocol.Instant
	AppendState(dst []byte) []byte
	LoadState(src []byte) error
}

// reloaded returns an error unless a copy that is loaded from state does the same as m did with in.
func reloaded(m machine, fx *Effects, copied machine, state []byte, in *Input) error {
	if err := copied.LoadState(state); err != nil {
		return err
	}
	if again := copied.AppendState(nil); !bytes.Equal(again, state) {
		return fmt.Errorf("a loaded state is appended in another way:\n%x\n%x", again, state)
	}
	var got Effects
	copied.Step(in, &got)
	if !alike(got.Stops, fx.Stops) || !alike(got.Sends, fx.Sends) || !alike(got.Starts, fx.Starts) || !alike(got.Closes, fx.Closes) || !alike(got.Changes, fx.Changes) ||
		!alike(got.Wanted, fx.Wanted) || got.Members != fx.Members || got.Resign != fx.Resign || got.Reason != fx.Reason {
		return fmt.Errorf("the copy does\n%+v\nand the machine did\n%+v", got, *fx)
	}
	if next := copied.NextFire(); next != m.NextFire() {
		return fmt.Errorf("the copy fires at %v, the machine at %v", next, m.NextFire())
	}
	if a, b := copied.AppendState(nil), m.AppendState(nil); !bytes.Equal(a, b) {
		return fmt.Errorf("the copy goes elsewhere:\n%x\n%x", a, b)
	}
	return nil
}

func alike[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b)) }

// TestReload drives a copy beside each machine of the net. Before each step it is loaded from the machine's state.
func TestReload(t *testing.T) {
	for i, g := range gusts {
		for seed := range long.Or[uint64](8, 1) {
			n := newNet(t, seed+uint64(1000*i), g, nil)
			states := make(map[machine][]byte)
			n.watch = func(m machine, fx *Effects, in *Input) {
				if state := states[m]; state != nil {
					var c machine
					if o, ok := m.(*Member); ok {
						c, _ = NewMember(o.cfg)
					} else {
						c, _ = NewCoordinator(m.(*Coordinator).cfg)
					}
					if err := reloaded(m, fx, c, state, in); err != nil {
						n.fail("after %+v: %v", *in, err)
					}
				}
				states[m] = m.AppendState(states[m][:0])
			}
			if err := n.run(); err != nil {
				t.Fatalf("%s, seed %d: %v", g.name, seed, err)
			}
		}
	}
}

// mess makes inputs of bytes, with few distinct values, so that they often match.
type mess struct {
	src []byte
	now protocol.Reading
}

func (s *mess) byte() byte {
	if len(s.src) == 0 {
		return 0
	}
	b := s.src[0]
	s.src = s.src[1:]
	return b
}

func (s *mess) few(n byte) uint64 { return uint64(s.byte() % n) }

func (s *mess) session() Session {
	return Session{Member: []protocol.NodeID{"n1", "n2", "n3", ""}[s.few(4)], Process: protocol.Nonce{s.few(4), 1}, Epoch: s.few(4)}
}

func (s *mess) key() Key { return Key("abcde"[s.few(5):][:1]) }

func (s *mess) held() (all []Held) {
	for range s.few(4) {
		all = append(all, Held{Key: s.key(), Token: Token{s.few(4), s.few(4)}, State: make([]byte, s.few(3))})
	}
	return all
}

func (s *mess) input() Input {
	switch s.few(24) {
	case 0:
		s.now.Boot += protocol.Instant(int8(s.byte())) * 10_000_000 // a jump
	case 1:
		s.now = protocol.Reading{Boot: 1<<63 - 2, Mono: 1<<63 - 2}
	case 2:
		s.now = protocol.Reading{Boot: -1 << 63, Mono: -1 << 63}
	default:
		d := protocol.Instant(s.byte()) * 4_000_000
		s.now.Boot += d
		s.now.Mono += d
	}
	in := Input{Kind: InputKind(s.few(16)), Now: s.now, Proven: s.few(64) != 1}
	if s.few(2) == 0 {
		in.Kind = Receive
	}
	in.Conn = Conn(s.few(5))
	in.From = []protocol.NodeID{"n1", "n2", "n3"}[s.few(3)]
	in.Tenure = 2
	if s.few(8) == 7 {
		in.Tenure = 1<<62 + s.few(4)<<40
	}
	switch in.Kind {
	case Receive:
		m := &in.Message
		m.Type = []MessageType{
			Greet, Refuse, Report, Report, Report, Poll, Released, Ended, Wish, Tell, Goodbye, Answer, Assign, Revoke, Enrol, Admit, Over, "",
		}[s.few(18)]
		m.Session, m.Number, m.Tenure, m.Seq, m.Acked = s.session(), s.few(8), 2, s.few(8), s.few(4)
		if s.few(8) == 7 {
			m.Tenure = s.few(4)
		}
		m.Admitted, m.Promise = s.few(2) == 1, time.Duration(s.few(40))*100*time.Millisecond
		if s.few(3) == 0 {
			m.Registry = &Registry{Tenure: s.few(3), Version: s.few(4)}
			for range s.few(4) {
				m.Registry.Sessions = append(m.Registry.Sessions, s.session())
			}
		}
		m.Held, m.Overruns = s.held(), s.held()
		for range s.few(4) {
			m.Wants = append(m.Wants, Want{s.key(), int(int8(s.byte()))})
		}
		for range s.few(3) {
			m.Unwants = append(m.Unwants, s.key())
		}
		m.Traits = Traits{Draining: s.few(4) == 3, Back: time.Duration(s.few(3)) * time.Second}
		m.Members = s.few(5)
	case Moves:
		for range s.few(5) {
			m := Move{Key: s.key()}
			if s.few(2) == 0 {
				m.From = s.session()
			}
			if s.few(4) != 0 {
				m.To = s.session()
			}
			in.Moves = append(in.Moves, m)
		}
	case Dead, Start:
		in.Session = s.session()
	case Choose:
		for range s.few(4) {
			in.Wants = append(in.Wants, Want{s.key(), int(s.few(3))})
		}
		for range s.few(4) {
			in.Unwants = append(in.Unwants, s.key())
		}
		if s.few(2) == 0 {
			in.Traits = &Traits{Weight: int(s.few(3)), Zone: "z"}
		}
	case Returned:
		in.Held = s.held()
	}
	return in
}

func seedFuzz(f *testing.F) {
	for seed := range uint64(8) {
		var long []byte
		for i := range uint64(400) {
			x := (seed*1000 + i + 1) * 0x9e3779b97f4a7c15
			long = binary.LittleEndian.AppendUint64(long, x^x>>29)
		}
		f.Add(long)
	}
}

// FuzzCoordinator hands a coordinator any inputs in any order. What it keeps must fit together, and a copy must do the
// same.
func FuzzCoordinator(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		set := settings()
		set.Bits, set.Vouchers = 3, len(data)%3
		c, err := NewCoordinator(CoordinatorConfig{Settings: set, Unclocked: len(data)%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		s := &mess{src: data, now: protocol.Reading{Boot: 1e9, Mono: 1e9}}
		var fx Effects
		last := make(map[Key]Token)
		for first := true; len(s.src) > 0; first = false {
			in := s.input()
			if first {
				in.Kind, in.Tenure = Begin, 2
			}
			state := c.AppendState(nil)
			fx.Reset()
			c.Step(&in, &fx)
			if err := c.sane(); err != nil {
				t.Fatalf("after %+v: %v", in, err)
			}
			n, _ := NewCoordinator(c.cfg)
			if err := reloaded(c, &fx, n, state, &in); err != nil {
				t.Fatalf("after %+v: %v", in, err)
			}
			for i := range fx.Sends {
				msg := &fx.Sends[i].Message
				if msg.Type != Assign {
					continue
				}
				for _, h := range msg.Held {
					if !c.covered || h.Token.Tenure != 2 || h.Token.N == 0 || h.Token.N >= 1<<set.Bits || h.Token.Compare(last[h.Key]) <= 0 {
						t.Fatalf("%+v is assigned after %v; covered: %v", h, last[h.Key], c.covered)
					}
					last[h.Key] = h.Token
				}
			}
			if c.over != (c.over && c.NextFire() == protocol.Never) {
				t.Fatal("it is over and fires")
			}
		}
	})
}

// FuzzMember hands a member any inputs in any order. Its starts and stops must fit together, and a copy must do the same.
func FuzzMember(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := NewMember(MemberConfig{Settings: settings(), ID: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		s := &mess{src: data, now: protocol.Reading{Boot: 1e9, Mono: 1e9}}
		var fx Effects
		runs := make(map[work]stage)
		for first := true; len(s.src) > 0; first = false {
			in := s.input()
			if first {
				in.Kind = Start
			}
			if in.Kind == Receive && s.few(2) == 0 {
				in.Conn, in.Message.Number, in.Message.Tenure, in.Message.Seq = m.at.conn, m.number, m.at.tenure, m.seq
				in.Message.Session, in.Message.Promise = m.session, 3*time.Second
			}
			state := m.AppendState(nil)
			fx.Reset()
			m.Step(&in, &fx)
			n, _ := NewMember(m.cfg)
			if err := reloaded(m, &fx, n, state, &in); err != nil {
				t.Fatalf("after %+v: %v", in, err)
			}
			for _, h := range in.Held {
				if in.Kind == Returned {
					delete(runs, work{h.Key, h.Token})
				}
			}
			for _, h := range fx.Stops {
				if w := (work{h.Key, h.Token}); runs[w] != running {
					t.Fatalf("a stop of %v, which is %d", h, runs[w])
				}
				runs[work{h.Key, h.Token}] = stopping
			}
			for _, h := range fx.Starts {
				for w, is := range runs {
					if w.key == h.Key && is != idle {
						t.Fatalf("%v begins while %v runs", h, w)
					}
				}
				runs[work{h.Key, h.Token}] = running
				if v := m.View(); !v.Proven(in.Now) || !v.Admitted {
					t.Fatalf("%v begins at %v with %+v", h, in.Now, v)
				}
			}
			running, held := 0, 0
			for i, p := range m.keys.all {
				if m.keys.find(p.key) != &m.keys.all[i] || p.stage == idle && !p.wanted {
					t.Fatalf("%+v is out of place", p)
				}
				if p.stage != idle {
					held++
					if runs[work{p.key, p.token}] != p.stage {
						t.Fatalf("%+v: its work is %d", p, runs[work{p.key, p.token}])
					}
				}
				if p.stage == 1 {
					running++
				}
			}
			if held+len(m.keys.over) != len(runs) || m.keys.running != running || m.keys.held != held {
				t.Fatalf("%d held, %d overruns, %d works", held, len(m.keys.over), len(runs))
			}
		}
	})
}

// FuzzLoadState loads any bytes: a state that is taken is appended as it was.
func FuzzLoadState(f *testing.F) {
	n := newNet(f, 3, gusts[4], nil)
	n.watch = func(m machine, _ *Effects, _ *Input) {
		if n.rng.IntN(400) == 0 {
			f.Add(m.AppendState(nil))
		}
	}
	n.run()
	f.Fuzz(func(t *testing.T, data []byte) {
		m, _ := NewMember(MemberConfig{Settings: settings(), ID: "n1"})
		c, _ := NewCoordinator(CoordinatorConfig{Settings: settings()})
		for _, m := range []machine{m, c} {
			if m.LoadState(data) != nil {
				continue
			}
			if again := m.AppendState(nil); !bytes.Equal(again, data) {
				t.Fatalf("%x is appended as %x", data, again)
			}
		}
	})
}
