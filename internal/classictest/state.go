package classictest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Halted fails unless a machine halts on an unreadable ballot, and then does nothing.
func Halted(t *testing.T, m protocol.Machine) {
	t.Helper()
	var fx protocol.Effects
	m.Step(&protocol.Input{Kind: protocol.Boot, Durable: []byte{9}}, &fx)
	m.Step(&protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}}, &fx)
	if v := m.View(); v.Role != protocol.Halted || v.Fault == "" || len(fx.Saves)+len(fx.Sends) > 0 || m.NextFire() != protocol.Never {
		t.Errorf("%+v, %+v", v, fx)
	}
}

// StateKnowsAllFields changes each field of a machine, which is a pointer to a
// struct, and fails unless its state has changed with it. apart are the fields
// that are no part of it, such as "ballot.dirty".
func StateKnowsAllFields(t *testing.T, m protocol.Machine, apart ...string) {
	t.Helper()
	count := 0
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		if slices.Contains(apart, name) {
			return
		}
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				field := v.Type().Field(i).Name
				if name != "" {
					field = name + "." + field
				}
				walk(v.Field(i), field)
			}
			return
		}
		before := m.AppendState(nil)
		p := v.Addr().UnsafePointer()
		switch v.Kind() {
		case reflect.String:
			*(*string)(p) += "x"
		default: // the first byte of a number or a bool
			*(*uint8)(p) ^= 1
		}
		count++
		if bytes.Equal(before, m.AppendState(nil)) {
			t.Errorf("%s is no part of the state", name)
		}
	}
	walk(reflect.ValueOf(m).Elem(), "")
	if count < 20 {
		t.Errorf("%d fields were changed", count)
	}
}

// Reloaded returns how another machine, loaded with the state before, differs in a step with the
// effects fx; nil if it does not.
func Reloaded(one protocol.Machine, fx *protocol.Effects, other protocol.Machine, before []byte, in *protocol.Input) error {
	if err := other.LoadState(before); err != nil {
		return fmt.Errorf("its state cannot be loaded: %w", err)
	}
	if again := other.AppendState(nil); !bytes.Equal(again, before) {
		return fmt.Errorf("its state is not canonical: %x is written as %x", before, again)
	}
	var again protocol.Effects
	other.Step(in, &again)
	for _, sends := range [][]protocol.Send{fx.Sends, again.Sends} {
		for i := range sends {
			if m := &sends[i].Message; len(m.Ranking) == 0 {
				m.Ranking = nil // an empty one says as much
			}
		}
	}
	a, b := other.AppendState(nil), one.AppendState(nil)
	switch {
	case !same(again.Orders, fx.Orders) || !same(again.Saves, fx.Saves) || !same(again.Sends, fx.Sends) || !same(again.Asks, fx.Asks):
		return fmt.Errorf("loaded, it does %+v on %v, and %+v otherwise", again, in.Kind, *fx)
	case !bytes.Equal(a, b):
		return fmt.Errorf("loaded, it is %x after %v, and %x otherwise", a, in.Kind, b)
	case other.View() != one.View() || other.NextFire() != one.NextFire():
		return fmt.Errorf("loaded, it shows %+v until %v after %v, and %+v until %v otherwise", other.View(), other.NextFire(), in.Kind, one.View(), one.NextFire())
	}
	return nil
}

func same[T any](a, b []T) bool { return len(a)+len(b) == 0 || reflect.DeepEqual(a, b) }

// FuzzDecode decodes arbitrary bytes: what is accepted encodes to the same bytes.
func FuzzDecode[T interface{ Append(dst []byte) []byte }](f *testing.F, decode func(data []byte) (T, error), seeds ...T) {
	for _, s := range seeds {
		f.Add(s.Append(nil))
	}
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := decode(data); err == nil && !bytes.Equal(v.Append(nil), data) {
			t.Errorf("%x was accepted and encodes to %x", data, v.Append(nil))
		}
	})
}

// FuzzLoadState loads arbitrary bytes into what machine returns: an accepted state is
// written as it was read, and the machine can go on from it.
func FuzzLoadState[M protocol.Machine](f *testing.F, machine func() (M, error)) {
	m, err := machine()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add(m.AppendState(nil))
	var fx protocol.Effects
	m.Step(&protocol.Input{Kind: protocol.Boot}, &fx)
	f.Add(m.AppendState(nil))
	m.Step(&protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}}, &fx)
	f.Add(m.AppendState(nil))
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := machine()
		if err != nil {
			t.Fatal(err)
		}
		if m.LoadState(src) != nil {
			return
		}
		if again := m.AppendState(nil); !bytes.Equal(again, src) {
			t.Fatalf("%x was loaded and is %x", src, again)
		}
		var fx protocol.Effects
		for _, at := range []protocol.Instant{0, protocol.Instant(time.Hour)} {
			for _, in := range []protocol.Input{
				{Kind: protocol.Fire},
				{Kind: protocol.Receive, From: "n2", Message: protocol.Message{Term: 1}},
				{Kind: protocol.Replied, Answer: protocol.Answer{Number: 1, Status: protocol.StatusDone, Version: 1}},
				{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Resign}},
			} {
				in.Now = protocol.Reading{Boot: at, Mono: at}
				m.Step(&in, &fx)
				m.NextFire()
				m.View()
			}
		}
	})
}

// Bytes are a fuzzer's input. They end in zeros.
type Bytes []byte

// Byte reads one.
func (b *Bytes) Byte() byte {
	if len(*b) == 0 {
		return 0
	}
	first := (*b)[0]
	*b = (*b)[1:]
	return first
}

// Number reads a number, small in most cases.
func (b *Bytes) Number() uint64 {
	if small := b.Byte(); small < 240 || len(*b) < 8 {
		return uint64(small % 8)
	}
	v := binary.BigEndian.Uint64(*b)
	*b = (*b)[8:]
	return v
}

// Anything describes what FuzzStep hands to machines.
type Anything[M protocol.Machine] struct {
	// Shape says how the machines of a run are made. They are n2 of n1 to n4, or of
	// some of these.
	Shape func(b *Bytes) func() (M, error)
	// Types and Bodies are those of the messages; no Bodies are empty ones.
	Types  []protocol.MessageType
	Bodies []string
	// Life is the machine's incarnation, which answers have to name.
	Life func(m M) uint64
	// Pace is the unit of the time between two steps, which is 0 to 255 of it.
	Pace time.Duration
}

// FuzzStep hands arbitrary inputs to a machine: nothing panics, orders come in order, and a loaded
// machine behaves the same.
func FuzzStep[M protocol.Machine](f *testing.F, a Anything[M]) {
	f.Add(bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, 40))
	f.Add(bytes.Repeat([]byte{6, 0, 9, 1, 2, 250, 3, 1, 0}, 60))
	f.Add([]byte{})
	ids := IDs(4)
	f.Fuzz(func(t *testing.T, data []byte) {
		b := Bytes(data)
		machine := a.Shape(&b)
		m, err := machine()
		if err != nil {
			t.Fatal(err)
		}
		at := protocol.Instant(time.Hour)
		var saves, elected, latest uint64
		step := func(in protocol.Input) {
			in.Now, in.Rand = protocol.Reading{Boot: at, Mono: at}, uint64(at)
			before := m.AppendState(nil)
			var fx protocol.Effects
			m.Step(&in, &fx)
			other, _ := machine()
			if err := Reloaded(m, &fx, other, before, &in); err != nil {
				t.Fatal(err)
			}
			for _, o := range fx.Orders {
				if (o.Kind == protocol.Elected) == (elected != 0) || o.Kind != protocol.Elected && o.Token != elected {
					t.Fatalf("order %+v with token %d", o, elected)
				}
				if elected = 0; o.Kind == protocol.Elected {
					elected, latest = o.Token, o.Token
				}
			}
			if v := m.View(); v.Token != elected || v.Elected != (elected != 0) {
				t.Fatalf("view %+v with token %d", v, elected)
			}
			for _, s := range fx.Saves {
				saves = s.Number
			}
		}
		step(protocol.Input{Kind: protocol.Boot})
		for len(b) > 0 {
			at = at.Add(time.Duration(b.Byte()) * a.Pace)
			in := protocol.Input{Kind: protocol.InputKind(b.Byte() % 9), From: ids[b.Byte()%4]}
			switch in.Kind {
			case protocol.Receive:
				msg := &in.Message
				msg.Type = a.Types[int(b.Byte())%len(a.Types)]
				msg.Incarnation, msg.Term, msg.Round, msg.Seq, msg.Echo = b.Number(), b.Number(), b.Number(), b.Number(), b.Number()
				if len(a.Bodies) > 0 {
					msg.Body = a.Bodies[int(b.Byte())%len(a.Bodies)]
				}
				msg.Leader = protocol.Leadership{ID: ids[b.Byte()%4], Term: b.Number()}
				if b.Byte()%2 == 0 {
					msg.Echo = a.Life(m)
				}
				msg.Granted = b.Byte()%2 == 0
			case protocol.Saved:
				in.Number, in.Failed = saves-min(saves, b.Number()%3), b.Byte()%4 == 0
			case protocol.PeerClosed:
				in.Incarnation = b.Number()
			case protocol.Do:
				in.Command = protocol.Command{Verb: protocol.Verb(b.Byte() % 15), Token: latest}
			}
			step(in)
		}
	})
}
