package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// token is a machine that leads while it has the token of a ring of two, and hands it on when
// ordered to. It uses every kind of effect.
type token struct {
	peer  protocol.NodeID
	count uint64
	has   bool
	saves uint64
	wrong bool // breaks the rule, to be found out
}

// tokenConfig is what it is made from.
type tokenConfig struct {
	Peer  protocol.NodeID `json:"peer"`
	First bool            `json:"first,omitempty"`
	Wrong bool            `json:"wrong,omitempty"`
}

func makeToken(_ protocol.NodeID, config json.RawMessage) (protocol.Machine, error) {
	var c tokenConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	if c.Peer == "" {
		return nil, errors.New("no peer")
	}
	return &token{peer: c.Peer, has: c.First, wrong: c.Wrong}, nil
}

func makers() map[string]trace.Maker { return map[string]trace.Maker{"token": makeToken} }

func (m *token) Step(in *protocol.Input, fx *protocol.Effects) {
	switch in.Kind {
	case protocol.Boot:
		if in.Durable != nil {
			m.has = in.Durable[0] == 1
			m.count = uint64(in.Durable[1])
		}
	case protocol.Receive:
		m.has, m.count = true, in.Message.Term
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: m.count}, protocol.Order{Kind: protocol.Lead, Token: m.count})
		m.save(fx)
	case protocol.Do:
		if in.Command.Verb == protocol.Resign && m.has {
			m.has = m.wrong
			fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.count, Reason: "resigned"})
			m.save(fx)
			fx.Sends = append(fx.Sends, protocol.Send{To: m.peer, After: m.saves, Message: protocol.Message{Type: "token", Term: m.count + 1}})
		}
		if in.Command.Verb == protocol.Confirm {
			panic("it confirms nothing")
		}
	}
}

func (m *token) save(fx *protocol.Effects) {
	m.saves++
	fx.Save(m.saves, m.encode)
}

func (m *token) encode(dst []byte) []byte {
	return append(protocol.AppendBool(dst, m.has), byte(m.count))
}

func (m *token) NextFire() protocol.Instant { return protocol.Never }

func (m *token) View() protocol.View {
	v := protocol.View{Role: protocol.Follower, Term: m.count}
	if m.has {
		v.Role, v.Token, v.Elected, v.Active, v.LeaseEnd = protocol.Leader, m.count, true, true, protocol.Never
	}
	return v
}

func (m *token) AppendState(dst []byte) []byte { return m.encode(dst) }

func (m *token) LoadState(src []byte) error {
	if len(src) != 2 {
		return fmt.Errorf("%d bytes; want 2", len(src))
	}
	if src[0] > 1 {
		panic(fmt.Sprintf("%d is neither true nor false", src[0]))
	}
	m.has, m.count = src[0] == 1, uint64(src[1])
	return nil
}

// writer makes a trace by driving machines.
type writer struct {
	t       testing.TB
	buf     bytes.Buffer
	enc     *trace.Encoder
	n       uint64
	now     int64
	digests bool
	alive   map[string]protocol.Machine
	configs map[protocol.NodeID]json.RawMessage
}

func newWriter(t testing.TB, digests bool) *writer {
	t.Helper()
	w := &writer{t: t, digests: digests, alive: map[string]protocol.Machine{}, configs: map[protocol.NodeID]json.RawMessage{
		"n1": json.RawMessage(`{"peer":"n2","first":true}`), "n2": json.RawMessage(`{"peer":"n1"}`),
	}}
	h := &trace.Header{Format: trace.Format, Protocol: "token", Source: trace.Sim, Seed: 7, Nodes: []trace.Node{{ID: "n1", Config: w.configs["n1"]}, {ID: "n2", Config: w.configs["n2"]}}}
	enc, err := trace.NewEncoder(&w.buf, h)
	if err != nil {
		t.Fatal(err)
	}
	w.enc = enc
	return w
}

func (w *writer) event(e *trace.Event) {
	w.t.Helper()
	w.n++
	e.N, e.At = w.n, w.now
	if err := w.enc.Event(e); err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) step(node protocol.NodeID, life, cause uint64, in *protocol.Input) *protocol.Effects {
	w.t.Helper()
	w.now += 1_000_000
	in.Now = protocol.Reading{Boot: protocol.Instant(w.now), Mono: protocol.Instant(w.now)}
	who := fmt.Sprint(node, life)
	if in.Kind == protocol.Boot {
		m, err := makeToken(node, w.configs[node])
		if err != nil {
			w.t.Fatal(err)
		}
		w.alive[who] = m
	}
	fx := new(protocol.Effects)
	w.alive[who].Step(in, fx)
	v := w.alive[who].View()
	e := &trace.Event{Cause: cause, Node: node, Life: life, Kind: trace.Step, Input: in, Effects: fx, View: &v}
	if w.digests {
		digest, err := trace.Digest(fx)
		if err != nil {
			w.t.Fatal(err)
		}
		e.Effects, e.Digest = nil, digest
	}
	w.event(e)
	return fx
}

// story is a trace with every kind of line: the token is handed over, lost on its way back, and its
// holder restarts from its disk.
func story(t testing.TB, digests bool) string {
	t.Helper()
	w := newWriter(t, digests)
	w.step("n1", 1, 0, &protocol.Input{Kind: protocol.Boot})
	w.step("n2", 1, 0, &protocol.Input{Kind: protocol.Boot})
	fx := w.step("n1", 1, 0, &protocol.Input{Kind: protocol.Do, Rand: 1<<63 + 1, Command: protocol.Command{Verb: protocol.Resign}})
	w.step("n1", 1, 3, &protocol.Input{Kind: protocol.Saved, Number: 1})
	fx = w.step("n2", 1, 3, &protocol.Input{Kind: protocol.Receive, From: "n1", Message: fx.Sends[0].Message})
	durable := fx.Saves[0].Data
	w.event(&trace.Event{Kind: trace.Fault, Node: "n2", Says: "kill n2 for 2 s"})
	w.event(&trace.Event{Kind: trace.Down, Node: "n2", Life: 1, Cause: 6})
	w.step("n2", 2, 0, &protocol.Input{Kind: protocol.Boot, Durable: durable})
	fx = w.step("n2", 2, 0, &protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Resign}})
	w.event(&trace.Event{Kind: trace.Lost, Node: "n2", Life: 2, Cause: 9, Send: &fx.Sends[0], Says: "the link is cut"})
	w.event(&trace.Event{Kind: trace.Violation, Invariant: "live", Says: "the token is lost <& it shows>"})
	w.event(&trace.Event{Kind: trace.End, Hash: "00112233445566ff"})
	return w.buf.String()
}
