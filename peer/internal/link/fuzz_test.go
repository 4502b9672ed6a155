package link

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// FuzzAccept gives the accepting side what anybody may send. It must end, start
// nothing that stays, and admit nobody who has not said Hello properly.
func FuzzAccept(f *testing.F) {
	w := &town{}
	hello := w.hello("n2")
	begin := frame(&wire.Frame{Hello: &hello})
	welcome := frame(&wire.Frame{Welcome: &wire.Welcome{}})
	client, witness := w.hello(""), w.hello("n2")
	client.Caller, witness.Caller = wire.ClientOf, wire.WitnessOf
	for _, seed := range []string{
		"", "\x00\x00\x00\x00", "\x16\x03\x01\x02\x00\x01", begin, begin + welcome, begin + welcome + frame(&wire.Frame{Letter: letter(1)}),
		begin + welcome + "\x00\x00\x00\x02\xff\xff",
		begin + frame(&wire.Frame{Refusal: &wire.Refusal{Code: wire.CodeUnknown}}),
		frame(&wire.Frame{Hello: &client}) + frame(&wire.Frame{Request: &wire.Request{Call: 1, Verb: "x"}}),
		frame(&wire.Frame{Hello: &client}) + frame(&wire.Frame{Request: &wire.Request{Call: 1, Verb: "cancel"}}),
		frame(&wire.Frame{Hello: &witness}) + frame(&wire.Frame{Letter: &wire.Letter{Message: *release()}}),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		admitted := false
		l := Start(Config{
			Hello: w.hello("n1"), Idle: time.Second,
			Admit: func(h *wire.Hello, caller wire.Caller) (*wire.Welcome, *wire.Refusal) {
				admitted = true
				if h.Cluster != "test" || h.Election != "e" || caller == wire.Node && h.ID == "n1" {
					t.Errorf("admitted %+v", h)
				}
				return nil, nil
			},
			Welcomed: func(protocol.NodeID, *wire.Welcome) {},
			Refused:  func(protocol.NodeID, *wire.Refusal) {},
			Receive: func(_ protocol.NodeID, l *wire.Letter) {
				if !admitted || l == nil {
					t.Error("a letter of somebody who was not admitted")
				}
			},
			Closed: func(protocol.NodeID, uint64) {},
			Serve: func(_ context.Context, _ Caller, q *wire.Request, reply func(*wire.Response) error) {
				if !admitted {
					t.Error("a request of somebody who was not admitted")
				}
				_ = reply(&wire.Response{Body: q.Body})
			},
			Logger: slog.New(slog.DiscardHandler),
		})
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
		l.Close()
		if l.accepted != 0 || len(l.guests) != 0 || len(l.live) != 0 || l.clients != 0 || len(l.witnesses) != 0 {
			t.Errorf("left: %d accepted, %d guests, %d live, %d clients, %d witnesses", l.accepted, len(l.guests), len(l.live), l.clients, len(l.witnesses))
		}
	})
}
