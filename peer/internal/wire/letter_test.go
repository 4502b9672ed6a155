package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire/wirepb"
)

// letterpb is all that an ordinary letter consists of, in one piece of memory.
type letterpb struct {
	frame   wirepb.Frame
	kind    wirepb.Frame_Letter
	letter  wirepb.Letter
	message wirepb.Message
	leader  wirepb.Leadership
	held    wirepb.ConfigID
}

func encodeLetter(l *Letter) *wirepb.Frame {
	m, p := &l.Message, new(letterpb)
	p.frame.Kind = &p.kind
	p.kind.Letter = &p.letter
	p.letter.Number = l.Number
	p.letter.Message, p.letter.SinceNs, p.letter.Token = &p.message, l.Since, l.Token
	b := &p.message
	b.Type, b.Dir, b.Incarnation, b.Term = string(m.Type), encodeDir(&m.Dir), m.Incarnation, m.Term
	b.Membership = encodeMembership(m.Membership)
	b.Echo, b.Round, b.Seq = m.Echo, m.Round, m.Seq
	b.PromiseNs, b.ResidualNs, b.PrevTerm, b.RetryAfterNs = int64(m.Promise), int64(m.Residual), m.PrevTerm, int64(m.RetryAfter)
	b.ClockNs, b.Jumps = int64(m.Clock), m.Jumps
	b.Granted, b.Unhealthy, b.Reason = m.Granted, m.Unhealthy, string(m.Reason)
	if m.Leader != (protocol.Leadership{}) {
		p.leader.Id, p.leader.Incarnation, p.leader.Term = string(m.Leader.ID), m.Leader.Incarnation, m.Leader.Term
		b.Leader = &p.leader
	}
	b.Ranking, b.Metadata, b.Body = encodeIDs(m.Ranking), m.Metadata, m.Body
	b.Priority, b.Position = int32(m.Priority), m.Position
	if m.Held != (protocol.ConfigID{}) {
		p.held.Term, p.held.Version = m.Held.Term, m.Held.Version
		b.Held = &p.held
	}
	if h := m.Handover; h != nil {
		b.Handover = &wirepb.Handover{
			Leader:      &wirepb.Voter{Id: string(h.Leader.ID), Dir: encodeDir(&h.Leader.Dir)},
			Incarnation: h.Incarnation, Term: h.Term, Seq: h.Seq, Target: string(h.Target),
		}
	}
	return &p.frame
}

// draw makes a letter that Append takes.
func draw(r *rand.Rand) *Letter {
	number := func() uint64 {
		switch r.IntN(4) {
		case 0:
			return 0
		case 1:
			return r.Uint64N(300)
		case 2:
			return math.MaxUint64
		}
		return r.Uint64() >> r.IntN(64)
	}
	span := func() time.Duration { return time.Duration(number() % uint64(MaxTime+1)) }
	text := func(most int) string {
		return strings.Repeat("é\x00xy", []int{0, 1, 25, 26, r.IntN(most / 5)}[r.IntN(5)])
	}
	id := func(i int) protocol.NodeID { return protocol.NodeID(strings.Repeat("n", i+1)) }
	var dir protocol.DirID
	if r.IntN(2) == 0 {
		dir[r.IntN(16)] = byte(r.IntN(256))
	}
	l := &Letter{Number: []uint32{1, 2, 300, math.MaxUint32}[r.IntN(4)], Since: int64(number() >> 1), Token: number() >> 16, Message: protocol.Message{
		Type: protocol.MessageType(strings.Repeat("t", 1+r.IntN(64))), Dir: dir, Incarnation: number(), Term: number(), Echo: number(), Round: number(), Seq: number(),
		Promise: span(), Residual: span(), PrevTerm: number(), RetryAfter: span(), Clock: time.Duration(number() >> 1), Jumps: number(), Granted: r.IntN(2) == 0, Unhealthy: r.IntN(2) == 0,
		Reason: protocol.Reason(strings.Repeat("r", r.IntN(64))), Metadata: text(MaxMetadata), Body: text(MaxBody),
	}}
	if r.IntN(2) == 0 {
		l.Message.Leader = protocol.Leadership{ID: id(r.IntN(9)), Incarnation: number(), Term: number()}
	}
	if r.IntN(2) == 0 {
		l.Message.Priority = r.IntN(protocol.MaxPriority+2) + protocol.NeverLead
		l.Message.Position = text(protocol.MaxPosition)
		l.Message.Held = protocol.ConfigID{Term: number(), Version: number()}
	}
	if r.IntN(4) == 0 {
		l.Message.Handover = &protocol.Handover{
			Leader: protocol.Voter{ID: id(r.IntN(9)), Dir: dir}, Incarnation: number(), Term: number(), Seq: number(),
		}
		if r.IntN(2) == 0 {
			l.Message.Handover.Target = id(r.IntN(9))
		}
	}
	for i := range r.IntN(protocol.MaxVoters + 1) {
		l.Message.Ranking = append(l.Message.Ranking, id(i))
	}
	if r.IntN(3) > 0 {
		m := &protocol.Membership{ConfigTerm: number(), Version: number()}
		for i := range 1 + r.IntN(protocol.MaxVoters) {
			m.Voters = append(m.Voters, protocol.Voter{ID: id(i), Dir: dir})
		}
		for i := range r.IntN(3) * r.IntN(17) {
			m.Observers = append(m.Observers, protocol.NodeID(strings.Repeat("o", i+1)))
		}
		for _, v := range m.Voters {
			if r.IntN(2) == 0 {
				m.Addresses = append(m.Addresses, protocol.Address{ID: v.ID, Addr: strings.Repeat("a", 1+r.IntN(protocol.MaxAddress))})
			}
		}
		for _, o := range m.Observers {
			if r.IntN(3) == 0 {
				m.Addresses = append(m.Addresses, protocol.Address{ID: o, Addr: strings.Repeat("é", 1+r.IntN(protocol.MaxAddress/2))})
			}
		}
		l.Message.Membership = m
	}
	return l
}

// TestLettersAsGenerated: what is written by hand is byte for byte what the
// generated code writes, and what is read by hand is what it reads.
func TestLettersAsGenerated(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var k memory
	shared := 0
	for i := range 3000 {
		l := draw(r)
		f := &Frame{Letter: l}
		if err := f.check(); err != nil {
			t.Fatal(err)
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(encodeLetter(l))
		if err != nil {
			t.Fatal(err)
		}
		frame, err := Append(nil, f)
		if err != nil || !bytes.Equal(frame[prefixSize:], want) || int(binary.BigEndian.Uint32(frame)) != len(want) {
			t.Fatalf("letter %d: %v\n got %x\nwant %x", i, err, frame[min(len(frame), prefixSize):], want)
		}
		asked, err := Decode(want)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			before := k.of(l.Number).member
			got, ok := k.letter(want)
			if !ok || !reflect.DeepEqual(got, asked.Letter) {
				t.Fatalf("letter %d: %v\n got %+v\nwant %+v", i, ok, got, asked.Letter)
			}
			if got.Message.Membership != nil && got.Message.Membership == before {
				shared++
			}
		}
		clear(want)
		if got := *asked.Letter; !reflect.DeepEqual(&got, l) {
			t.Fatalf("letter %d: %+v points into the payload", i, got)
		}
	}
	if shared < 1000 {
		t.Errorf("%d memberships were shared", shared)
	}
}

// FuzzLetter: of whatever bytes, what is read by hand is what the generated code
// reads, also when other letters came before on the connection.
func FuzzLetter(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	var last []byte
	for range 20 {
		b := appendLetter(nil, draw(r))
		if len(b) > 2000 {
			continue
		}
		f.Add(last, b)
		last = b
	}
	// Two in a ranking, the tag of the first in more bytes than it needs.
	f.Add([]byte(nil), []byte{0x22, 0x11, 0x08, 0x01, 0x12, 0x0d, 0x0a, 0x01, 'x', 0x8a, 0x81, 0x00, 0x01, 'n', 0x8a, 0x01, 0x02, 'n', '2'})
	f.Add([]byte(nil), []byte{0x22, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0xff, 0xfe})
	f.Add(last, append([]byte{0xa2, 0x00}, last...))
	f.Fuzz(func(t *testing.T, before, payload []byte) {
		var k memory
		k.letter(before)
		for range 2 {
			got, ok := k.letter(payload)
			if !ok {
				continue // the generated code has the word
			}
			want, err := Decode(payload)
			if err != nil || !reflect.DeepEqual(got, want.Letter) {
				t.Fatalf("by hand %+v, by the generated code %+v, %v", got, want.Letter, err)
			}
			again, err := proto.MarshalOptions{Deterministic: true}.Marshal(encodeLetter(got))
			if hand := appendLetter(nil, got); err != nil || !bytes.Equal(hand, again) {
				t.Fatalf("by hand % x, by the generated code % x, %v", hand, again, err)
			}
		}
	})
}

// TestLetterAllocatesOnce: a heartbeat after a heartbeat costs the letter itself.
func TestLetterAllocatesOnce(t *testing.T) {
	l := &Letter{Number: 1, Since: 1, Token: 12, Message: protocol.Message{
		Type: "heartbeat", Dir: protocol.DirID{1}, Incarnation: 4, Term: 12, Seq: 123456, Promise: time.Second,
		Membership: &protocol.Membership{
			Voters:    []protocol.Voter{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}},
			Addresses: []protocol.Address{{ID: "n1", Addr: "127.0.0.1:1"}, {ID: "n2", Addr: "127.0.0.1:2"}, {ID: "n3", Addr: "127.0.0.1:3"}},
		},
		Priority: 100, Position: "0/16B3748", Held: protocol.ConfigID{Term: 12, Version: 3},
		Ranking: []protocol.NodeID{"n2", "n3"}, Metadata: `{"address":"10.0.0.1:80"}`,
	}}
	b := appendLetter(nil, l)
	var k memory
	if _, ok := k.letter(b); !ok {
		t.Fatal("not read")
	}
	if n := testing.AllocsPerRun(100, func() { k.letter(b) }); n != 1 {
		t.Errorf("%v allocations; want 1", n)
	}
	f := &Frame{Letter: l}
	if n := testing.AllocsPerRun(100, func() { b, _ = Append(b[:0], f) }); n != 0 {
		t.Errorf("%v allocations to write one; want none", n)
	}
}
