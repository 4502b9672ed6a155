package bully

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/protocol"
)

func TestConfig(t *testing.T) {
	three := classictest.IDs(3)
	for _, c := range []struct {
		cfg  Config
		says string // empty: valid
	}{
		{Config{Self: "n1", Members: three}, ""},
		{Config{Self: "n1", Members: three[:1]}, ""},
		{Config{Self: "n 1", Members: three}, "n 1"},
		{Config{Self: "n1"}, "0 members"},
		{Config{Self: "n1", Members: make([]protocol.NodeID, MaxMembers+1)}, "10001 members"},
		{Config{Self: "n1", Members: []protocol.NodeID{"n2", "n1"}}, `"n1" after "n2"`},
		{Config{Self: "n1", Members: []protocol.NodeID{"n1", "n1"}}, `"n1" after "n1"`},
		{Config{Self: "n4", Members: three}, "n4 is none of the 3"},
		{Config{Self: "n1", Members: three, Heartbeat: -1}, "heartbeat -1ns"},
		{Config{Self: "n1", Members: three, Silence: 2 * time.Hour}, "silence 2h"},
		{Config{Self: "n1", Members: three, Heartbeat: time.Second, Silence: time.Second}, "want at least 2s"},
		{Config{Self: "n1", Members: three, Answer: time.Second}, "longer one"},
	} {
		_, err := New(c.cfg)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v; want %q", c.cfg.Self, err, c.says)
		}
	}
	if got := (Config{}).WorstTakeover(); got != 1600*time.Millisecond {
		t.Errorf("the worst takeover is %v", got)
	}
}

// TestHalted: a ballot that cannot be read is told, and nothing is done.
func TestHalted(t *testing.T) {
	m, err := New(Config{Self: "n1", Members: classictest.IDs(1)})
	if err != nil {
		t.Fatal(err)
	}
	var fx protocol.Effects
	m.Step(&protocol.Input{Kind: protocol.Boot, Durable: []byte{9}}, &fx)
	m.Step(&protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}}, &fx)
	if v := m.View(); v.Role != protocol.Halted || v.Fault == "" || len(fx.Saves)+len(fx.Sends) > 0 || m.NextFire() != protocol.Never {
		t.Errorf("%+v, %+v", v, fx)
	}
}

// TestStateKnowsAllFields changes each field of a machine, and looks whether its
// state has changed with it.
func TestStateKnowsAllFields(t *testing.T) {
	apart := map[string]bool{"cfg": true, "place": true, "now": true, "dirty": true, "fault": true}
	count := 0
	var walk func(v reflect.Value, name string, m *Machine)
	walk = func(v reflect.Value, name string, m *Machine) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				if name != "" || !apart[v.Type().Field(i).Name] {
					walk(v.Field(i), name+"."+v.Type().Field(i).Name, m)
				}
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
	m := &Machine{role: protocol.Follower}
	walk(reflect.ValueOf(m).Elem(), "", m)
	if count < 20 {
		t.Errorf("%d fields were changed", count)
	}
}

func FuzzDecodeBallot(f *testing.F) {
	f.Add(Ballot{Epoch: 7, Incarnation: 2}.Append(nil))
	f.Add(Ballot{Epoch: MaxEpoch + 1, Incarnation: 1}.Append(nil))
	f.Add(Ballot{}.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := DecodeBallot(data)
		if err == nil && !bytes.Equal(b.Append(nil), data) {
			t.Errorf("%x was accepted and encodes to %x", data, b.Append(nil))
		}
	})
}

// FuzzStep feeds anything at all: nothing panics, orders come in order, and a
// machine that is loaded goes the same way.
func FuzzStep(f *testing.F) {
	f.Add(bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, 40))
	f.Add(bytes.Repeat([]byte{6, 0, 9, 1, 2, 250, 3, 1, 0}, 60))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() byte {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return b
		}
		number := func() uint64 {
			if b := next(); b < 240 || len(data) < 8 {
				return uint64(b % 8)
			}
			v := binary.BigEndian.Uint64(data)
			data = data[8:]
			return v
		}
		cfg := Config{Self: "n2", Members: classictest.IDs(4)}
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		at := protocol.Instant(time.Hour)
		elected := uint64(0)
		step := func(in protocol.Input) {
			in.Now, in.Rand = protocol.Reading{Boot: at, Mono: at}, uint64(at)
			other, _ := New(cfg)
			if err := other.LoadState(m.AppendState(nil)); err != nil {
				t.Fatal(err)
			}
			var fx, again protocol.Effects
			m.Step(&in, &fx)
			other.Step(&in, &again)
			if !bytes.Equal(m.AppendState(nil), other.AppendState(nil)) || m.View() != other.View() || m.NextFire() != other.NextFire() {
				t.Fatalf("a loaded machine goes another way on %+v", in)
			}
			for _, o := range fx.Orders {
				if (o.Kind == protocol.Elected) == (elected != 0) || o.Kind != protocol.Elected && o.Token != elected {
					t.Fatalf("order %+v with token %d", o, elected)
				}
				if elected = 0; o.Kind == protocol.Elected {
					elected = o.Token
				}
			}
			if v := m.View(); v.Token != elected {
				t.Fatalf("view %+v with token %d", v, elected)
			}
		}
		step(protocol.Input{Kind: protocol.Boot})
		types := [...]protocol.MessageType{Election, Coordinator, Alive, OK, "other"}
		for len(data) > 0 {
			at = at.Add(time.Duration(next()) * 10 * time.Millisecond)
			in := protocol.Input{Kind: protocol.InputKind(next() % 9), From: cfg.Members[next()%4]}
			switch in.Kind {
			case protocol.Receive:
				in.Message = protocol.Message{
					Type: types[next()%5], Incarnation: number(), Term: number(), Round: number(), Seq: number(), Echo: number(),
					Leader: protocol.Leadership{ID: cfg.Members[next()%4], Term: number()},
				}
				if next()%2 == 0 {
					in.Message.Echo = m.ballot.Incarnation
				}
			case protocol.Saved:
				in.Number, in.Failed = m.saveNo-min(m.saveNo, number()%3), next()%4 == 0
			case protocol.Do:
				in.Command = protocol.Command{Verb: protocol.Verb(next() % 15), Token: m.reign}
			}
			step(in)
		}
	})
}

func FuzzLoadState(f *testing.F) {
	m, err := New(Config{Self: "n2", Members: classictest.IDs(4)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.AppendState(nil))
	m.Step(&protocol.Input{Kind: protocol.Boot}, new(protocol.Effects))
	f.Add(m.AppendState(nil))
	f.Fuzz(func(t *testing.T, src []byte) {
		m, _ := New(Config{Self: "n2", Members: classictest.IDs(4)})
		if m.LoadState(src) != nil {
			return
		}
		if again := m.AppendState(nil); !bytes.Equal(again, src) {
			t.Fatalf("%x was loaded and is %x", src, again)
		}
		m.Step(&protocol.Input{Kind: protocol.Fire}, new(protocol.Effects))
	})
}
