package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

func dir(b byte) (d protocol.DirID) {
	for i := range d {
		d[i] = b
	}
	return d
}

func membership(voters, observers int) *protocol.Membership {
	m := &protocol.Membership{ConfigTerm: 7, Version: 3}
	for i := range voters {
		m.Voters = append(m.Voters, protocol.Voter{ID: protocol.NodeID("n" + strconv.Itoa(i+1)), Dir: dir(byte(i + 1))})
	}
	for i := range observers {
		m.Observers = append(m.Observers, protocol.NodeID("o"+strconv.Itoa(i+1)))
	}
	for i := range voters {
		m.Addresses = append(m.Addresses, protocol.Address{ID: m.Voters[i].ID, Addr: "127.0.0.1:" + strconv.Itoa(7400+i)})
	}
	for i := range observers / 2 { // the others listen nowhere
		m.Addresses = append(m.Addresses, protocol.Address{ID: m.Observers[i], Addr: "[::1]:" + strconv.Itoa(7500+i)})
	}
	return m
}

func heartbeat() *wire.Frame {
	return &wire.Frame{Letter: &wire.Letter{Number: 1, Since: 1_700_000_000_000_000_000, Message: protocol.Message{
		Type: "heartbeat", Dir: dir(1), Incarnation: 4, Term: 12, Membership: membership(3, 0), Seq: 123456,
		Promise: time.Second, Leader: protocol.Leadership{ID: "n1", Incarnation: 4, Term: 12},
		Ranking: []protocol.NodeID{"n2", "n3"}, Metadata: `{"address":"10.0.0.1:80"}`,
	}}}
}

// whole has a value other than zero in every field of every kind.
func whole() []*wire.Frame {
	return []*wire.Frame{
		{Hello: &wire.Hello{
			Version: 1, Oldest: 1, Caller: wire.Node, Cluster: "elect", ID: "n1", Dir: dir(9), Starts: 3, Life: math.MaxUint64, Program: "v1.2.3",
		}},
		{Welcome: &wire.Welcome{Number: 3, Membership: membership(9, protocol.MaxObservers), Program: "v1.2.3"}},
		{Refusal: &wire.Refusal{Code: wire.CodeDirectory, Says: "another directory", Final: true, Number: 4}},
		{Letter: &wire.Letter{Number: math.MaxUint32, Next: next(math.MaxUint64), Since: math.MaxInt64, Token: 1<<48 - 1, Message: protocol.Message{
			Type: "vote-reply", Dir: dir(1), Incarnation: 1, Term: 2, Membership: membership(9, 2), Echo: 3, Round: 4, Seq: 5,
			Promise: 6, Clock: math.MaxInt64, Jumps: 17, Residual: wire.MaxTime, PrevTerm: 7, RetryAfter: 8, Granted: true, Unhealthy: true, Reason: "voted",
			Leader: protocol.Leadership{ID: "n2", Incarnation: 9, Term: 10}, Ranking: []protocol.NodeID{"n3", "n1"}, Metadata: "m", Body: "b",
			Priority: protocol.NeverLead, Position: "0/16B37é", Held: protocol.ConfigID{Term: 11, Version: 12},
			Handover: &protocol.Handover{Leader: protocol.Voter{ID: "n2", Dir: dir(2)}, Incarnation: 13, Term: 14, Seq: 15, Target: "n3"},
		}}},
		{Request: &wire.Request{Call: 1, Verb: "resign", Token: math.MaxInt64, Body: []byte("{}"), Election: "nightly"}},
		{Response: &wire.Response{Call: 1, More: true, Body: []byte("null"), Code: "busy", Error: "too many"}},
		{Enter: &wire.Enter{
			Number: 5, Election: "nightly-é", Dir: dir(8), Incarnation: 3, Voters: []protocol.NodeID{"n1", "n2", "n10"}, Era: 7, Promise: time.Second,
			Join: true, Held: protocol.ConfigID{Term: 5, Version: 6}, Protocol: "raft", Answer: true,
		}},
		{Leave: &wire.Leave{Number: 6}},
	}
}

func small() []*wire.Frame {
	return []*wire.Frame{
		heartbeat(),
		{Hello: &wire.Hello{Version: 1, Oldest: 1, Caller: wire.ClientOf, Cluster: "c"}},
		{Hello: &wire.Hello{Version: 1, Oldest: 1, Caller: wire.WitnessOf, Cluster: "c", ID: "n1"}},
		{Welcome: &wire.Welcome{}},
		{Letter: &wire.Letter{Number: 1, Message: protocol.Message{Type: "x"}}},
		{Enter: &wire.Enter{Number: 1, Election: "e"}},
		{Request: &wire.Request{Verb: "status"}},
		{Response: &wire.Response{}},
	}
}

func encode(t testing.TB, f *wire.Frame) []byte {
	t.Helper()
	b, err := wire.Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for i, f := range append(whole(), small()...) {
		b, err := wire.Append([]byte("before"), f)
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		b, ok := bytes.CutPrefix(b, []byte("before"))
		if size := len(b) - 4; !ok || size != int(binary.BigEndian.Uint32(b)) {
			t.Fatalf("frame %d: wrong length or beginning in % x", i, b)
		}
		if (f.Hello != nil || f.Enter != nil || f.Refusal != nil) && len(b) > wire.MaxHello {
			t.Errorf("frame %d: %d bytes, more than may be said before admission", i, len(b))
		}
		payload := b[4:]
		got, err := wire.Decode(payload)
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		clear(payload) // nothing that was decoded may point there
		if !reflect.DeepEqual(&got, f) {
			t.Errorf("frame %d:\n got %+v\nwant %+v", i, got, *f)
		}
	}
}

// A field that is added to a message and forgotten here would be lost on its
// way.
func TestNoFieldIsForgotten(t *testing.T) {
	t.Parallel()
	var zero func(path string, v reflect.Value)
	zero = func(path string, v reflect.Value) {
		switch {
		case v.Kind() == reflect.Struct && v.NumField() == 0: // there is nothing to be lost
		case v.IsZero():
			t.Errorf("%s is zero: whole() is to have a value in it", path)
		case v.Kind() == reflect.Pointer:
			zero(path, v.Elem())
		case v.Kind() == reflect.Slice:
			zero(path+"[0]", v.Index(0))
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				zero(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
	for _, f := range whole() {
		for _, kind := range reflect.ValueOf(*f).Fields() {
			if !kind.IsZero() {
				zero(kind.Type().String(), kind)
			}
		}
	}
}

// Append and Decode refuse the same, by the name of the field.
func TestOutOfRange(t *testing.T) {
	t.Parallel()
	hello := func(change func(h *wire.Hello)) *wire.Frame {
		h := *whole()[0].Hello
		change(&h)
		return &wire.Frame{Hello: &h}
	}
	enter := func(change func(e *wire.Enter)) *wire.Frame {
		e := *whole()[6].Enter
		change(&e)
		return &wire.Frame{Enter: &e}
	}
	message := func(change func(m *protocol.Message)) *wire.Frame {
		l := *whole()[3].Letter
		change(&l.Message)
		return &wire.Frame{Letter: &l}
	}
	addressed := func(all ...protocol.Address) *wire.Frame {
		return message(func(m *protocol.Message) {
			m.Membership = membership(3, 0)
			m.Membership.Addresses = all
		})
	}
	many := make([]protocol.NodeID, 10)
	for i := range many {
		many[i] = protocol.NodeID("n" + strconv.Itoa(i))
	}
	for _, c := range []struct {
		frame *wire.Frame
		want  string
	}{
		{&wire.Frame{}, "exactly one of"},
		{&wire.Frame{Welcome: &wire.Welcome{}, Refusal: &wire.Refusal{}}, "exactly one of"},
		{hello(func(h *wire.Hello) { h.Version = 0 }), "hello.version"},
		{hello(func(h *wire.Hello) { h.Oldest = 2 }), "hello.version"},
		{hello(func(h *wire.Hello) { h.Caller = "visitor" }), "hello.caller"},
		{hello(func(h *wire.Hello) { h.Caller = wire.ClientOf }), "hello.id"},
		{hello(func(h *wire.Hello) { h.ID = "" }), "hello.id"},
		{hello(func(h *wire.Hello) { h.ID = "n 1" }), "hello.id"},
		{hello(func(h *wire.Hello) { h.Cluster = "" }), "hello.cluster"},
		{enter(func(e *wire.Enter) { e.Election = strings.Repeat("e", 129) }), "enter.election"},
		{enter(func(e *wire.Enter) { e.Election = strings.Repeat("e", 64<<10) }), "enter.election: 65536 bytes; want 1 to 128"},
		{enter(func(e *wire.Enter) { e.Election = "" }), "enter.election"},
		{enter(func(e *wire.Enter) { e.Election = "\xff" }), "enter.election"},
		{enter(func(e *wire.Enter) { e.Number = 0 }), "enter.number"},
		{enter(func(e *wire.Enter) { e.Era = 1 << 15 }), "enter.era"},
		{enter(func(e *wire.Enter) { e.Promise = -1 }), "enter.promise"},
		{&wire.Frame{Leave: &wire.Leave{}}, "leave.number"},
		{&wire.Frame{Letter: &wire.Letter{Message: protocol.Message{Type: "x"}}}, "letter.number"},
		{&wire.Frame{Request: &wire.Request{Verb: "x", Election: strings.Repeat("e", 129)}}, "request.election"},
		{enter(func(e *wire.Enter) { e.Protocol = strings.Repeat("r", 65) }), "enter.protocol"},
		{enter(func(e *wire.Enter) { e.Protocol = "chang roberts" }), "enter.protocol"},
		{enter(func(e *wire.Enter) { e.Voters = many }), "enter.voters: 10"},
		{enter(func(e *wire.Enter) { e.Voters = []protocol.NodeID{"n2", "n1"} }), "enter.voters: n1 after n2"},
		{enter(func(e *wire.Enter) { e.Voters = []protocol.NodeID{"n1", "n1"} }), "enter.voters: n1 after n1"},
		{&wire.Frame{Welcome: &wire.Welcome{Membership: &protocol.Membership{}}}, "welcome.membership"},
		{&wire.Frame{Welcome: &wire.Welcome{Membership: membership(3, protocol.MaxObservers+1)}}, "welcome.membership.observers"},
		{&wire.Frame{Refusal: &wire.Refusal{}}, "refusal.code"},
		{&wire.Frame{Refusal: &wire.Refusal{Code: "two words"}}, "refusal.code"},
		{&wire.Frame{Letter: &wire.Letter{Number: 1, Since: -1, Message: protocol.Message{Type: "x"}}}, "letter.since_ns"},
		{&wire.Frame{Letter: &wire.Letter{Number: 1, Token: 1 << 48, Message: protocol.Message{Type: "x"}}}, "letter.token"},
		{&wire.Frame{Letter: &wire.Letter{Number: 1}}, "letter.message.type"},
		{message(func(m *protocol.Message) { m.Type = protocol.MessageType(strings.Repeat("x", 65)) }), "letter.message.type"},
		{message(func(m *protocol.Message) { m.Reason = "\n" }), "letter.message.reason"},
		{message(func(m *protocol.Message) { m.Promise = -1 }), "letter.message.promise_ns: -1"},
		{message(func(m *protocol.Message) { m.Residual = wire.MaxTime + 1 }), "letter.message.residual_ns"},
		{message(func(m *protocol.Message) { m.RetryAfter = math.MinInt64 }), "letter.message.retry_after_ns"},
		{message(func(m *protocol.Message) { m.Leader.ID = "/" }), "letter.message.leader"},
		{message(func(m *protocol.Message) { m.Ranking = many }), "letter.message.ranking"},
		{message(func(m *protocol.Message) { m.Ranking = []protocol.NodeID{""} }), "letter.message.ranking"},
		{message(func(m *protocol.Message) { m.Metadata = strings.Repeat("m", wire.MaxMetadata+1) }), "letter.message.metadata"},
		{message(func(m *protocol.Message) { m.Metadata = "\xff" }), "letter.message.metadata"},
		{message(func(m *protocol.Message) { m.Body = strings.Repeat("m", wire.MaxBody+1) }), "letter.message.body"},
		{message(func(m *protocol.Message) { m.Priority = -2 }), "letter.message.priority: -2; want -1 to 1000"},
		{message(func(m *protocol.Message) { m.Priority = 1001 }), "letter.message.priority: 1001"},
		{message(func(m *protocol.Message) { m.Position = strings.Repeat("9", 257) }), "letter.message.position: 257 bytes; want at most 256"},
		{message(func(m *protocol.Message) { m.Position = "\xff" }), "letter.message.position"},
		{message(func(m *protocol.Message) { m.Handover = &protocol.Handover{} }), "letter.message.handover.leader"},
		{message(func(m *protocol.Message) {
			m.Handover = &protocol.Handover{Leader: protocol.Voter{ID: "n1"}, Target: "n 2"}
		}), "letter.message.handover.target"},
		{addressed(protocol.Address{ID: "n9", Addr: "x"}), "letter.message.membership: membership: an address of n9"},
		{addressed(protocol.Address{ID: "n1"}), "an address of n1 with 0 bytes"},
		{addressed(protocol.Address{ID: "n1", Addr: strings.Repeat("x", 321)}), "an address of n1 with 321 bytes"},
		{addressed(protocol.Address{ID: "n1", Addr: "\xff"}), "letter.message.membership.addresses: that of n1"},
		{addressed(protocol.Address{ID: "n1", Addr: "x"}, protocol.Address{ID: "n1", Addr: "y"}), "two addresses of n1"},
		{message(func(m *protocol.Message) { m.Membership = membership(10, 0) }), "letter.message.membership: membership: 10 voters"},
		{&wire.Frame{Request: &wire.Request{}}, "request.verb"},
		{&wire.Frame{Request: &wire.Request{Verb: "x", Token: 1 << 63}}, "request.token"},
		{&wire.Frame{Response: &wire.Response{Code: strings.Repeat("x", 65)}}, "response.code"},
		{&wire.Frame{Response: &wire.Response{Body: make([]byte, wire.MaxFrame)}}, "at most 262144"},
	} {
		before := []byte("before")
		b, err := wire.Append(before, c.frame)
		if err == nil || !strings.Contains(err.Error(), c.want) || string(b) != "before" {
			t.Errorf("Append: %q, %v; want an error with %q and nothing appended", b, err, c.want)
		}
	}
}

// Frames that no program of this repository sends, written by hand.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	field := func(n protowire.Number, body ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), bytes.Join(body, nil))
	}
	number := func(n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
	}
	const kind, vote = 4, 2 // letter, message
	of := number(1, 1)      // the number of an election
	typed := field(1, []byte("vote"))
	one := field(3, field(1, []byte("n1")))
	for _, c := range []struct {
		payload []byte
		want    string
	}{
		{nil, "exactly one of"},
		{[]byte{}, "exactly one of"},
		{field(99, []byte("a kind to come")), "exactly one of"},
		{[]byte{0xff}, "frame: "},
		{[]byte("GET / HTTP/1.1\r\n\r\n"), "frame: "},
		{[]byte{0x16, 0x03, 0x01, 0x02, 0x00}, "frame: "},
		{field(kind, of), "letter.message.type"},
		{field(kind, of, field(vote, typed, number(9, 1<<63))), "letter.message.promise_ns: -9223372036854775808"},
		{field(kind, of, field(vote, typed, field(2, []byte("short")))), "letter.message.dir: 5 bytes; want 16"},
		{field(kind, of, field(vote, typed, field(5))), "letter.message.membership: membership: 0 voters"},
		{field(kind, of, field(vote, typed, field(5, bytes.Repeat(one, 10)))), "letter.message.membership.voters: 10"},
		{field(kind, of, field(vote, typed, field(5, field(3, field(1, []byte("n1")), field(2, []byte{1}))))), "letter.message.membership.voters.dir: 1"},
		{field(kind, of, field(vote, typed, field(5, one, bytes.Repeat(field(4, []byte("o")), protocol.MaxObservers+1)))), "letter.message.membership.observers: 65"},
		{field(kind, of, field(vote, typed, field(5, one, bytes.Repeat(field(5, field(1, []byte("n1")), field(2, []byte("a"))), 2)))), "letter.message.membership.addresses: 2 of them for 1"},
		{field(kind, of, field(vote, typed, number(20, 3))), "letter.message.priority: -2"},
		{field(kind, of, field(vote, typed, field(23))), "letter.message.handover.leader"},
		{field(kind, of, field(vote, typed, field(23, field(1, field(1, []byte("n1")), field(2, []byte{1}))))), "letter.message.handover.leader.dir: 1"},
		{field(kind, of, field(vote, typed, bytes.Repeat(field(17, []byte("n1")), 10))), "letter.message.ranking: 10"},
		{field(kind, of, field(vote, typed, field(18, []byte{0xff}))), "frame: string field contains invalid UTF-8"},
		{field(1, number(1, 1), number(2, 1)), "hello.caller: 0"},
		{field(1, number(1, 1), number(2, 1), number(3, 9)), "hello.caller: 9"},
		{field(kind, field(vote, typed)), "letter.number: 0"},
		{field(7, of, field(2, []byte("e")), bytes.Repeat(field(5, []byte("n1")), 10)), "enter.voters: 10"},
		{field(7, of, field(2, []byte("e")), field(3, []byte("short"))), "enter.dir: 5 bytes; want 16"},
		{make([]byte, wire.MaxFrame+1), "at most 262144"},
	} {
		f, err := wire.Decode(c.payload)
		if err == nil || !strings.Contains(err.Error(), c.want) || !reflect.ValueOf(f).IsZero() {
			t.Errorf("Decode(%.40q) = %+v, %v; want an error with %q", c.payload, f, err, c.want)
		}
	}
}

// Versions are told apart before anything else is interpreted.
func TestVersions(t *testing.T) {
	t.Parallel()
	// A Hello as a later version may write it: fields that nobody knows, a caller
	// that nobody knows, a cluster that is a number, an id that is no text.
	later := func(version, oldest uint64, changed bool) []byte {
		var h []byte
		if changed {
			h = protowire.AppendVarint(protowire.AppendTag(h, 3, protowire.VarintType), 77)
			h = protowire.AppendVarint(protowire.AppendTag(h, 4, protowire.VarintType), 5)
			h = protowire.AppendBytes(protowire.AppendTag(h, 6, protowire.BytesType), []byte{0xff, 0xfe})
		} else {
			h = protowire.AppendVarint(protowire.AppendTag(h, 3, protowire.VarintType), 1)
			h = protowire.AppendString(protowire.AppendTag(h, 4, protowire.BytesType), "elect")
			h = protowire.AppendString(protowire.AppendTag(h, 5, protowire.BytesType), "n1")
			h = protowire.AppendVarint(protowire.AppendTag(h, 7, protowire.VarintType), 12)
		}
		h = protowire.AppendBytes(protowire.AppendTag(h, 50, protowire.BytesType), []byte("new"))
		h = protowire.AppendFixed64(protowire.AppendTag(h, 51, protowire.Fixed64Type), 1)
		h = protowire.AppendVarint(protowire.AppendTag(h, 1, protowire.VarintType), version)
		h = protowire.AppendVarint(protowire.AppendTag(h, 2, protowire.VarintType), oldest)
		f := protowire.AppendBytes(protowire.AppendTag(nil, 50, protowire.BytesType), []byte("new"))
		return protowire.AppendBytes(protowire.AppendTag(f, 1, protowire.BytesType), h)
	}

	const newer = uint64(wire.Version) + 1
	f, err := wire.Decode(later(newer, 1, false))
	if err != nil || f.Hello == nil || f.Hello.Version != uint32(newer) || f.Hello.ID != "n1" || f.Hello.Starts != 12 {
		t.Fatalf("a newer version that speaks ours too: %+v, %v", f.Hello, err)
	}
	if v, err := f.Hello.Speaks(); v != wire.Version || err != nil {
		t.Errorf("Speaks() = %d, %v; want %d", v, err, wire.Version)
	}

	for _, c := range []struct {
		version, oldest uint64
		want            string
	}{
		{newer + 1, newer, fmt.Sprintf("it speaks a newer protocol, versions %d to %d; want one of 1 to %d", newer, newer+1, wire.Version)},
		{math.MaxUint64, math.MaxUint64, "newer"},
	} {
		f, err := wire.Decode(later(c.version, c.oldest, true))
		v, ok := errors.AsType[*wire.VersionError](err)
		if !ok || !strings.Contains(err.Error(), c.want) {
			t.Fatalf("version %d: %v; want a VersionError with %q", c.version, err, c.want)
		}
		want := &wire.Hello{Version: v.Version, Oldest: v.Oldest}
		if !reflect.DeepEqual(f.Hello, want) || v.Version != uint32(min(c.version, math.MaxUint32)) {
			t.Errorf("version %d: %+v; want nothing but the versions", c.version, f.Hello)
		}
	}
	if _, err := (&wire.Hello{}).Speaks(); err == nil || !strings.Contains(err.Error(), "older") {
		t.Errorf("Speaks of version 0: %v; want an error that says older", err)
	}
}

// What people read is cut, never refused.
func TestTextsAreCut(t *testing.T) {
	t.Parallel()
	says := strings.Repeat("é", 800) + "\xff"
	got, err := wire.Decode(encode(t, &wire.Frame{Refusal: &wire.Refusal{Code: "busy", Says: says}})[4:])
	if err != nil || len(got.Refusal.Says) > 1024 || len(got.Refusal.Says) < 1020 || !strings.HasSuffix(got.Refusal.Says, "é…") {
		t.Errorf("%+v, %v", got.Refusal, err)
	}
	got, err = wire.Decode(encode(t, &wire.Frame{Response: &wire.Response{Code: "x", Error: "a\xffb"}})[4:])
	if err != nil || got.Response.Error != "a?b" {
		t.Errorf("%+v, %v", got.Response, err)
	}
}

// Metadata that the contract allows must fit into a heartbeat, whatever JSON
// makes of it: else a leader could be elected and never be heard.
func TestAllMetadataFits(t *testing.T) {
	t.Parallel()
	controls, entries := map[string]string{"": strings.Repeat("\x01", driver.MaxMetadata)}, map[string]string{}
	size := 0
	for c := 0; ; c++ {
		key := string([]byte{byte(c % 32), byte(c / 32 % 128)})
		if c < 32 {
			key = key[:1]
		}
		if size += len(key); size > driver.MaxMetadata {
			break
		}
		entries[key] = ""
	}
	for _, m := range []map[string]string{controls, entries} {
		if err := driver.CheckMetadata(m); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		f := heartbeat()
		f.Letter.Message.Metadata = string(text)
		if _, err := wire.Append(nil, f); err != nil {
			t.Errorf("%d entries, %d bytes of JSON: %v", len(m), len(text), err)
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	var stream []byte
	frames := append(whole(), small()...)
	for _, f := range frames {
		stream = append(stream, encode(t, f)...)
	}
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(stream), "byte by byte": iotest.OneByteReader(bytes.NewReader(stream)), "in halves": iotest.HalfReader(bytes.NewReader(stream)),
	} {
		read := wire.NewReader(r, wire.MaxFrame)
		var got []wire.Frame
		for {
			f, err := read.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, f)
		}
		if len(got) != len(frames) {
			t.Fatalf("%s: %d frames; want %d", name, len(got), len(frames))
		}
		for i := range got {
			if !reflect.DeepEqual(&got[i], frames[i]) {
				t.Errorf("%s: frame %d: %+v; want %+v", name, i, got[i], frames[i])
			}
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	frame := encode(t, heartbeat())
	for n := 1; n < len(frame); n++ {
		if _, err := wire.NewReader(bytes.NewReader(frame[:n]), wire.MaxFrame).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes of %d: %v; want io.ErrUnexpectedEOF", n, len(frame), err)
		}
	}

	// A length is refused before memory is taken or anything more is read.
	r := wire.NewReader(io.MultiReader(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff}), iotest.ErrReader(errors.New("read on"))), wire.MaxHello)
	_, err := r.Next()
	if e, ok := errors.AsType[*wire.TooLarge](err); !ok || e.Size != math.MaxUint32 || e.Max != wire.MaxHello {
		t.Errorf("a huge length: %v", err)
	}
	if _, err := r.Next(); err == nil {
		t.Error("a stream goes on after a frame that was too large")
	}

	big := encode(t, &wire.Frame{Response: &wire.Response{Body: make([]byte, wire.MaxHello)}})
	r = wire.NewReader(bytes.NewReader(append(big, big...)), wire.MaxHello)
	r.SetMax(wire.MaxFrame)
	if _, err := r.Next(); err != nil {
		t.Errorf("after SetMax: %v", err)
	}
	r.SetMax(wire.MaxHello)
	if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "want at most 16384") {
		t.Errorf("after SetMax to less: %v", err)
	}

	// What cannot be read concerns one frame.
	r = wire.NewReader(bytes.NewReader(append([]byte{0, 0, 0, 1, 0xff}, frame...)), wire.MaxHello)
	if _, err := r.Next(); err == nil {
		t.Error("nonsense was accepted")
	}
	if f, err := r.Next(); err != nil || f.Letter == nil {
		t.Errorf("the frame after nonsense: %+v, %v", f, err)
	}
}
