package lease

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// TestReload drives a copy beside each machine of the net; before each step the copy is loaded from
// the machine's state.
func TestReload(t *testing.T) {
	for seed := range long.Or[uint64](20, 4) {
		n := newNet(seed, nil)
		n.w.length = 30 * time.Second
		states := make(map[*Machine][]byte)
		n.check = func(n *net, d *netNode, in *protocol.Input, _ stage) {
			if state := states[d.m]; state != nil {
				c, _ := New(d.cfg)
				if err := classictest.Reloaded(d.m, &d.fx, c, state, in); err != nil {
					n.fail("%s: %v", d.cfg.Self, err)
				} else if *c != *d.m {
					n.fail("%s: the copy went elsewhere after %v:\n%+v\n%+v", d.cfg.Self, in.Kind, *c, *d.m)
				}
			}
			states[d.m] = d.m.AppendState(states[d.m][:0])
		}
		if err := n.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// mess makes inputs of bytes, with few distinct values, so that they often match.
type mess struct {
	src  []byte
	now  protocol.Reading
	last []protocol.Ask
}

func (s *mess) byte() byte {
	if len(s.src) == 0 {
		return 0
	}
	b := s.src[0]
	s.src = s.src[1:]
	return b
}

func (s *mess) record() protocol.Record {
	names := []protocol.NodeID{"", "n1", "n2", "n3"}
	b := s.byte()
	r := protocol.Record{
		Holder: names[b&3], Nonce: protocol.Nonce{uint64(b >> 2 & 3), uint64(b >> 4 & 3)}, Count: uint64(s.byte() & 15),
		Attempt: uint64(s.byte() & 7), Duration: time.Duration(int8(s.byte())) * 10 * time.Millisecond,
	}
	switch s.byte() & 7 {
	case 0:
		r.Count = 1<<63 + 5
	case 1:
		r.Duration = 1<<63 - 1
	case 2:
		r.Free = protocol.FreeMark{Holder: "n2", Nonce: r.Nonce, Count: r.Count}
	case 3:
		r.Store = "other"
	}
	return r
}

func (s *mess) input() protocol.Input {
	b := s.byte()
	switch s.byte() & 15 {
	case 0:
		s.now.Boot += protocol.Instant(int8(s.byte())) * 10_000_000 // a jump
	case 1:
		s.now = protocol.Reading{Boot: 1<<63 - 2, Mono: 1<<63 - 2}
	case 2:
		s.now = protocol.Reading{Boot: -1 << 63, Mono: -1 << 63}
	default:
		d := protocol.Instant(s.byte()) * 2_000_000
		s.now.Boot += d
		s.now.Mono += d
	}
	in := protocol.Input{Now: s.now, Rand: uint64(b & 7)}
	switch b & 7 {
	case 0:
		in.Kind = protocol.Boot
	case 1, 2:
		in.Kind = protocol.Fire
	case 3:
		in.Kind = protocol.Do
		in.Command = protocol.Command{Verb: protocol.Verb(s.byte() % 10), Token: uint64(s.byte() & 15)}
	case 4:
		in.Kind = protocol.InputKind(s.byte())
	default:
		in.Kind = protocol.Replied
		in.Answer = protocol.Answer{Number: uint64(s.byte() & 15), Status: protocol.Status(s.byte() % 9), Version: uint64(s.byte() & 7)}
		in.Answer.Record = s.record()
		if len(s.last) > 0 && b&64 == 0 {
			a := s.last[int(b>>3&7)%len(s.last)]
			in.Answer.Number = a.Number
			if b&128 != 0 {
				in.Answer.Record = a.Record
			}
		}
		if s.byte()&7 == 0 {
			in.Answer.Store = "other"
		}
	}
	return in
}

// FuzzMachine hands a machine any inputs in any order. It must not panic, its orders must be in
// order, and a copy must do the same.
func FuzzMachine(f *testing.F) {
	f.Add([]byte("\x00\x03\x00\x03\x03\x00\x01\x00"))
	var long []byte
	for i := range uint64(40) {
		long = binary.LittleEndian.AppendUint64(long, draw(i, forHerd))
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := New(Config{Self: "n1", Duration: time.Second, GlobalVersions: len(data)%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		s := &mess{src: data, now: protocol.Reading{Boot: 1e9, Mono: 1e9}}
		var fx protocol.Effects
		var term uint64
		for first := true; len(s.src) > 0; first = false {
			in := s.input()
			if first {
				in.Kind = protocol.Boot
			}
			before := m.AppendState(nil)
			fx.Reset()
			m.Step(&in, &fx)
			c, _ := New(m.c)
			if err := classictest.Reloaded(m, &fx, c, before, &in); err != nil {
				t.Fatal(err)
			}
			if *c != *m {
				t.Fatalf("a copy goes elsewhere after %+v:\n%+v\n%+v", in, *m, *c)
			}
			s.last = append(s.last, fx.Asks...)
			if len(s.last) > 8 {
				s.last = s.last[len(s.last)-8:]
			}
			for _, o := range fx.Orders {
				switch {
				case o.Kind == protocol.Elected && term == 0 && o.Token != 0 && o.Token <= protocol.MaxCount:
					term = o.Token
				case o.Kind == protocol.Lead && term == o.Token:
				case o.Kind == protocol.Stop && term == o.Token:
					term = 0
				default:
					t.Fatalf("order %+v while the term is %d", o, term)
				}
			}
			v := m.View()
			if v.Elected != (term != 0) || v.Active != v.Elected {
				t.Fatalf("view %+v while the term is %d", v, term)
			}
			if v.Active && (m.NextFire() > v.LeaseEnd || !v.Proven(in.Now)) {
				t.Fatalf("view %+v at %v, next at %v", v, in.Now, m.NextFire())
			}
		}
	})
}

func FuzzLoadState(f *testing.F) {
	classictest.FuzzLoadState(f, func() (*Machine, error) { return New(Config{Self: "n1"}) })
}
