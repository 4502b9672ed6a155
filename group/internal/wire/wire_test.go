package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/group"
)

func sample() map[string]Packet {
	s := group.Session{Member: "n1", Process: protocol.Nonce{0x0102030405060708, 0x1112131415161718}, Epoch: 3}
	return map[string]Packet{
		"hello":   {Hello: &Hello{Version: Version, Group: "g", ID: "n1", Keys: 64, Digest: 1 << 63, Bits: 16, Control: true, Admitted: true, Addr: "h:1"}},
		"welcome": {Welcome: &Welcome{Version: Version, ID: "n2", Process: "5f", Refused: "no", Misfit: true}},
		"poll":    {Message: &group.Message{Type: group.Poll, Tenure: 7, Number: 2, Seq: 300, Acked: 5, Admitted: true}},
		"answer":  {Message: &group.Message{Type: group.Answer, Tenure: 7, Number: 2, Seq: 300, Promise: 3 * time.Second, Members: 3}},
		"report": {Message: &group.Message{
			Type: group.Report, Session: s, Number: 1, Tenure: 7, Seq: 1, Promise: time.Second, Cover: 2 * time.Second, Registry: &group.Registry{Tenure: 6, Version: 2, Sessions: []group.Session{s}},
			Held:     []group.Held{{Key: "shard-10", Token: group.Token{Tenure: 7, N: 1}}, {Key: "shard-11", Token: group.Token{Tenure: 6, N: 2}}},
			Overruns: []group.Held{{Key: "x", Token: group.Token{Tenure: 5, N: 1}}},
			Wants:    []group.Want{{Key: "a"}, {Key: "ab", Priority: -1}}, Traits: group.Traits{Weight: 100, Zone: "z", Draining: true, Back: time.Minute},
		}},
		"wish":   {Message: &group.Message{Type: group.Wish, Number: 1, Unwants: []group.Key{"a", "ab", "b"}}},
		"assign": {Message: &group.Message{Type: group.Assign, Tenure: 7, Number: 2, Held: []group.Held{{Key: "k", Token: group.Token{Tenure: 7, N: 1}, State: []byte("hi")}, {Key: "l", Token: group.Token{Tenure: 7, N: 1}}}}},
		"refuse": {Message: &group.Message{Type: group.Refuse, Text: "why", Misfit: true}},
		"states": {Side: &Side{Kind: States, Entries: []Entry{{Key: "k", Member: "n1", Token: group.Token{Tenure: 7, N: 2}, Since: 5, Metadata: []byte(`{"a":"b"}`), Load: 1.5}}}},
		"reply":  {Side: &Side{Kind: Reply, Call: 9, Method: "m", Code: "c", Body: []byte("{}")}},
	}
}

// TestGolden: the bytes stay what they are, because members of two versions of a program are in one group.
func TestGolden(t *testing.T) {
	golden := map[string]string{
		"answer":  "030ace80010207ac0280bcc1960b03",
		"assign":  "030b86020207030200016b0e010102686900016c000100",
		"hello":   "01020167026e31408080808080808080800110010103683a31",
		"poll":    "03043e0207ac0205",
		"refuse":  "030280c00403776879",
		"reply":   "040209016d0163027b7d00",
		"report":  "0303cfaf02026e3101020304050607081112131415161718030107018094ebdc0380a8d6b907060201026e3101020304050607081112131415161718030102000873686172642d31300e01070131010201010001780a0104020001610001016201c801017a0180b09dc2df01",
		"states":  "04050000000001016b026e31070205097b2261223a2262227d80808080808080fc3f",
		"welcome": "0202026e32023566026e6f01",
		"wish":    "03078210010003000161010162000162",
	}
	for name, p := range sample() {
		b := Append(nil, &p)
		got, err := Decode(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got, p) {
			t.Errorf("%s: read back as %+v, want %+v", name, got, p)
		}
		if text := hex.EncodeToString(b); text != golden[name] {
			t.Errorf("%s is written as %s; want %s", name, text, golden[name])
		}
		for n := range b {
			if _, err := Decode(b[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes are taken for a packet", name, n, len(b))
			}
		}
		if _, err := Decode(append(b[:len(b):len(b)], 0)); err == nil {
			t.Errorf("%s: a byte too many is taken", name)
		}
	}
}

// TestLists: what is not in order is put in order, and what is hostile is refused.
func TestLists(t *testing.T) {
	p := Packet{Message: &group.Message{Type: group.Wish, Unwants: []group.Key{"b", "a"}}}
	got, err := Decode(Append(nil, &p))
	if err != nil || !reflect.DeepEqual(got.Message.Unwants, []group.Key{"a", "b"}) || p.Message.Unwants[0] != "b" {
		t.Errorf("%v, %v; the message itself %v", got.Message, err, p.Message)
	}
	long := Packet{Message: &group.Message{Type: group.Wish, Unwants: []group.Key{group.Key(strings.Repeat("x", maxKey+1))}}}
	if _, err := Decode(Append(nil, &long)); err == nil {
		t.Error("a key of 129 bytes is taken")
	}
	// Two bytes a key, each of which shares 127 bytes with the one before: more keys than there is memory for.
	b := uints([]byte{kindMessage, 7}, hasUnwants)
	b = uints(b, 0, maxKeys)
	b = text(uints(b, 0), strings.Repeat("x", maxKey-1))
	for range maxKeys - 1 {
		b = text(uints(b, maxKey-1), "y")
	}
	if _, err := Decode(b); err == nil {
		t.Error("a list of 256 MiB is taken")
	}
	if _, err := Decode(uints(uints([]byte{kindMessage, 7}, hasUnwants), 0, 1<<40)); err == nil {
		t.Error("a list that is longer than its message is taken")
	}
}

// big is a report of many keys.
func big(n int) Packet {
	m := &group.Message{Type: group.Report, Number: 1, Tenure: 1, Seq: 1}
	for i := range n {
		m.Held = append(m.Held, group.Held{Key: group.Key(fmt.Sprintf("key-%07d", i)), Token: group.Token{Tenure: 12, N: uint64(i%3 + 1)}})
	}
	return Packet{Message: m}
}

// TestPieces: what does not fit into a frame is cut, renewals come between, and nothing else may.
func TestPieces(t *testing.T) {
	p, poll, wish := big(100_000), sample()["poll"], sample()["wish"]
	whole := Append(nil, &p)
	var out bytes.Buffer
	write := func(b []byte) error { _, err := out.Write(b); return err }
	frames := 0
	_, err := Frames(nil, whole, func(b []byte) error {
		if frames++; len(b) > MaxFrame+4 {
			t.Errorf("a frame of %d bytes", len(b))
		}
		return write(b)
	}, func() error {
		_, err := Frames(nil, Append(nil, &poll), write, nil)
		return err
	})
	if err != nil || frames < 2 {
		t.Fatalf("%d frames, %v", frames, err)
	}
	r := NewReader(&out)
	r.Open()
	polls := 0
	for {
		got, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got.Message.Type == group.Poll {
			polls++
			continue
		}
		if !reflect.DeepEqual(got, p) {
			t.Error("the report was read back as another")
		}
		break
	}
	if polls != frames-1 {
		t.Errorf("%d polls between %d frames", polls, frames)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
	out.Reset()
	_, _ = Frames(nil, whole, write, func() error { _, err := Frames(nil, Append(nil, &wish), write, nil); return err })
	r = NewReader(&out)
	r.Open()
	if _, err := r.Next(); err == nil {
		t.Error("a message between the pieces of another is taken")
	}
	r = NewReader(bytes.NewReader([]byte{0, 0, 0x20, 0}))
	if _, err := r.Next(); err == nil || err == io.EOF {
		t.Errorf("a frame of 8 KiB before the hello: %v", err)
	}
}

// TestSplit: states of many keys become several messages.
func TestSplit(t *testing.T) {
	m := &group.Message{Type: group.Released}
	for range 10 {
		m.Held = append(m.Held, group.Held{Key: "k", State: make([]byte, group.MaxState)})
	}
	all, n := Split(m), 0
	for _, part := range all {
		n += len(part.Held)
	}
	if len(all) != 3 || n != 10 {
		t.Errorf("%d parts with %d keys; want 3 with 10", len(all), n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, p := range sample() {
		f.Add(Append(nil, &p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, &p))
		if p.Hello != nil && p.Hello.Version != Version || p.Welcome != nil && p.Welcome.Version != Version {
			return
		}
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if !bytes.Equal(Append(nil, &again), Append(nil, &p)) {
			t.Fatal("what was read is written in two ways")
		}
	})
}

func FuzzReader(f *testing.F) {
	var out bytes.Buffer
	for _, p := range sample() {
		_, _ = Frames(nil, Append(nil, &p), func(b []byte) error { _, err := out.Write(b); return err }, nil)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		r.Open()
		for {
			if _, err := r.Next(); err != nil {
				return
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	p := big(33_334)
	var buf []byte
	for b.Loop() {
		buf = Append(buf[:0], &p)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkDecode(b *testing.B) {
	p := big(33_334)
	buf := Append(nil, &p)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPoll(b *testing.B) {
	p := sample()["poll"]
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], &p)
		if _, err := Decode(buf); err != nil {
			b.Fatal(err)
		}
	}
}
