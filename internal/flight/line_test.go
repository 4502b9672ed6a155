package flight

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// drawn fills a value with random contents, all fields of it or few.
func drawn(r *rand.Rand, v reflect.Value, members []*protocol.Membership) {
	if r.IntN(3) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64))
	case reflect.Int64, reflect.Int:
		v.SetInt(int64(r.Uint64() >> r.IntN(64)))
	case reflect.Uint8:
		v.SetUint(r.Uint64N(7))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString([]string{"n2", `{"address":"10.0.0.1:80"}`, `a\b`, "<&>", strings.Repeat("x", 100), "é", "\u2028", "a\nb", "\x7f"}[r.IntN(5+r.IntN(5))])
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(r.IntN(256)))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			drawn(r, v.Index(i), members)
		}
	case reflect.Pointer:
		if v.Type().Elem() == reflect.TypeFor[protocol.Handover]() {
			if r.IntN(20) == 0 {
				v.Set(reflect.ValueOf(&protocol.Handover{Term: 7, Target: "n2"}))
			}
			return
		}
		v.Set(reflect.ValueOf(members[r.IntN(len(members))]))
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				drawn(r, field, members)
			}
		}
	}
}

// TestLinesAsEncoded: what is written by hand is byte for byte what the encoder of
// package trace writes, whatever is in the step.
func TestLinesAsEncoded(t *testing.T) {
	t.Parallel()
	members := []*protocol.Membership{
		{Version: 1, Voters: []protocol.Voter{{ID: "n1", Dir: protocol.DirID{1}}, {ID: "n2"}}},
		{ConfigTerm: math.MaxUint64, Version: 2, Voters: []protocol.Voter{{ID: "n3"}}, Observers: []protocol.NodeID{"o1", "o2"}},
	}
	cfg := plain
	var text bytes.Buffer
	enc, err := trace.NewEncoder(&text, cfg.header())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	l := new(lines)
	byHand, digests := 0, 0
	for n := range uint64(30_000) {
		var in protocol.Input
		var v protocol.View
		var fx protocol.Effects
		in.Kind = protocol.Receive
		if r.IntN(3) == 0 {
			in.Kind = protocol.Fire
		} else {
			drawn(r, reflect.ValueOf(&in.Message).Elem(), members)
		}
		for _, f := range []any{&in.Now, &in.Rand, &in.From, &v, &fx.Sends} {
			drawn(r, reflect.ValueOf(f).Elem(), members)
		}
		event := &trace.Event{N: n + 1, Node: "n1", Life: n % 3, Kind: trace.Step, Input: &in, View: &v}
		if len(fx.Sends) > 0 {
			if event.Digest, err = trace.Digest(&fx); err != nil {
				t.Fatal(err)
			}
		}
		text.Reset()
		if err := enc.Event(event); err != nil {
			t.Fatal(err)
		}
		got, ok := l.step(n+1, n%3, "n1", &in, &fx, &v)
		if !ok {
			continue
		}
		if byHand++; event.Digest != "" {
			digests++
		}
		if !bytes.Equal(got, text.Bytes()) {
			t.Fatalf("got:\n%swant:\n%s", got, &text)
		}
	}
	if byHand < 5000 || digests < 1000 {
		t.Errorf("%d by hand, %d with digests; want it to be worth while", byHand, digests)
	}
}

// TestNoFieldIsMissing: a field that a later version has must be written by hand
// too.
func TestNoFieldIsMissing(t *testing.T) {
	t.Parallel()
	inTraces := func(of reflect.Type) (n int) {
		for f := range of.Fields() {
			if f.Tag.Get("json") != "-" {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		of   any
		want int
	}{
		{trace.Event{}, 19}, {protocol.Input{}, 11}, {protocol.Message{}, 25}, {protocol.View{}, 11},
		{protocol.Send{}, 3}, {protocol.Leadership{}, 3}, {protocol.Reading{}, 2}, {protocol.Effects{}, 5},
	} {
		if got := inTraces(reflect.TypeOf(c.of)); got != c.want {
			t.Errorf("%T has %d fields; line.go knows %d", c.of, got, c.want)
		}
	}
}

// TestLineAllocatesNothing: the memory of a line is used again.
func TestLineAllocatesNothing(t *testing.T) {
	ms := &protocol.Membership{Version: 1, Voters: []protocol.Voter{{ID: "n1"}, {ID: "n2"}}}
	in := protocol.Input{Kind: protocol.Receive, From: "n2", Rand: 7, Message: protocol.Message{Type: "heartbeat", Term: 2, Membership: ms, Metadata: `{"a":"b"}`}}
	fx := protocol.Effects{Sends: []protocol.Send{{To: "n2", Message: protocol.Message{Type: "heartbeat-ack", Membership: ms}}}}
	v := protocol.View{Role: protocol.Follower, Term: 2, Leader: protocol.Leadership{ID: "n2", Term: 2}}
	l := new(lines)
	if _, ok := l.step(1, 1, "n1", &in, &fx, &v); !ok {
		t.Fatal("a heartbeat is left to the encoder")
	}
	if n := testing.AllocsPerRun(100, func() { l.step(1, 1, "n1", &in, &fx, &v) }); n > 0 {
		t.Errorf("%v allocations; want none", n)
	}
}
