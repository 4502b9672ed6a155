package link

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// FuzzAccept gives the accepting side arbitrary bytes. It must end, start nothing that stays, and admit no caller
// without a proper Hello.
func FuzzAccept(f *testing.F) {
	w := &testNet{}
	hello := w.hello("n2")
	begin := frame(&wire.Frame{Hello: &hello})
	own := part()
	welcome, enter := frame(&wire.Frame{Welcome: &wire.Welcome{}}), frame(&wire.Frame{Enter: &own})
	client, witness := w.hello(""), w.hello("n2")
	client.Caller, witness.Caller = wire.ClientOf, wire.WitnessOf
	for _, seed := range []string{
		"", "\x00\x00\x00\x00", "\x16\x03\x01\x02\x00\x01", begin, begin + welcome, begin + welcome + frame(&wire.Frame{Letter: letter(1)}),
		begin + welcome + enter, begin + welcome + enter + frame(&wire.Frame{Welcome: &wire.Welcome{Number: 1}}) + frame(&wire.Frame{Letter: letter(1)}),
		begin + welcome + enter + enter, begin + welcome + enter + frame(&wire.Frame{Leave: &wire.Leave{Number: 1}}),
		begin + welcome + frame(&wire.Frame{Enter: &wire.Enter{Number: 7, Election: "another"}}) + enter,
		begin + welcome + enter + frame(&wire.Frame{Refusal: &wire.Refusal{Code: wire.CodeUnknown, Number: 1}}),
		begin + welcome + "\x00\x00\x00\x02\xff\xff",
		begin + frame(&wire.Frame{Refusal: &wire.Refusal{Code: wire.CodeUnknown}}),
		frame(&wire.Frame{Hello: &client}) + frame(&wire.Frame{Request: &wire.Request{Call: 1, Verb: "x", Election: "e"}}),
		frame(&wire.Frame{Hello: &client}) + frame(&wire.Frame{Request: &wire.Request{Call: 1, Verb: "x", Election: "another"}}),
		frame(&wire.Frame{Hello: &client}) + frame(&wire.Frame{Request: &wire.Request{Call: 1, Verb: "cancel"}}),
		frame(&wire.Frame{Hello: &witness}) + frame(&wire.Frame{Letter: &wire.Letter{Number: 1, Message: *release()}}),
		frame(&wire.Frame{Hello: &witness}) + enter + frame(&wire.Frame{Letter: &wire.Letter{Number: 1, Message: *release()}}),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var admitted atomic.Bool
		e := Start(Config{
			HostConfig: HostConfig{Hello: w.hello("n1"), Idle: time.Second, Logger: slog.New(slog.DiscardHandler)},
			Enter:      part(),
			Admit: func(from protocol.NodeID, e *wire.Enter, caller wire.Caller) (*wire.Welcome, *wire.Refusal) {
				admitted.Store(true)
				if e.Election != "e" || caller == wire.Node && from == "n1" {
					t.Errorf("%s was admitted: %+v", from, e)
				}
				return nil, nil
			},
			Welcomed: func(protocol.NodeID, *wire.Welcome) {},
			Refused:  func(protocol.NodeID, *wire.Refusal) {},
			Receive: func(_ protocol.NodeID, l *wire.Letter) {
				if !admitted.Load() || l == nil {
					t.Error("a letter of somebody who was not admitted")
				}
			},
			Closed: func(protocol.NodeID, uint64) {},
			Serve: func(_ context.Context, _ Caller, q *wire.Request, reply func(*wire.Response) error) {
				if q.Election != "e" {
					t.Errorf("a request about %q", q.Election)
				}
				_ = reply(&wire.Response{Body: q.Body})
			},
		})
		l := e.link
		near, far := net.Pipe()
		l.admitGuest(far)
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			_, _ = io.Copy(io.Discard, near)
		}()
		_ = near.SetWriteDeadline(time.Now().Add(deadline))
		_, _ = near.Write(data)
		near.Close()
		<-heard
		e.Close()
		if l.accepted != 0 || len(l.guests) != 0 || len(l.live) != 0 || l.clients != 0 || len(l.witnesses) != 0 {
			t.Errorf("left: %d accepted, %d guests, %d live, %d clients, %d witnesses", l.accepted, len(l.guests), len(l.live), l.clients, len(l.witnesses))
		}
	})
}
