package link

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// bench is two nodes with certificates; a letter to n2 comes back.
func bench(b *testing.B) (n1 *Election, back chan struct{}, hello wire.Hello, addr string, tls *certs.Identity) {
	b.Helper()
	dir := b.TempDir()
	if err := certs.Make(dir, certs.Options{Cluster: "test", Nodes: []certs.Node{{ID: "n1"}, {ID: "n2"}}}); err != nil {
		b.Fatal(err)
	}
	back = make(chan struct{}, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	w := &testNet{}
	start := func(id protocol.NodeID, l net.Listener, peers Peers, receive func(protocol.NodeID, *wire.Letter)) *Election {
		identity, err := certs.LoadDir(dir, string(id))
		if err != nil {
			b.Fatal(err)
		}
		tls = identity
		n := Start(Config{
			HostConfig: HostConfig{Hello: w.hello(id), Listener: l, TLS: identity, Logger: slog.New(slog.DiscardHandler)},
			Enter:      part(), Peers: peers, Receive: receive,
			Admit:    func(protocol.NodeID, *wire.Enter, wire.Caller) (*wire.Welcome, *wire.Refusal) { return nil, nil },
			Welcomed: func(protocol.NodeID, *wire.Welcome) {},
			Refused:  func(_ protocol.NodeID, r *wire.Refusal) { b.Error(r) },
			Closed:   func(protocol.NodeID, uint64) {},
			Serve:    func(context.Context, Caller, *wire.Request, func(*wire.Response) error) {},
		})
		b.Cleanup(func() { n.Close() })
		return n
	}
	var n2 *Election
	ready := make(chan struct{})
	n2 = start("n2", listener, nil, func(from protocol.NodeID, l *wire.Letter) {
		<-ready
		n2.Send(from, l)
	})
	close(ready)
	n1 = start("n1", nil, Peers{"n2": {listener.Addr().String()}}, func(protocol.NodeID, *wire.Letter) { back <- struct{}{} })
	for len(n1.Peers()) == 0 || !n1.Peers()[0].Connected || !n2connected(n2) {
	}
	return n1, back, w.hello(""), listener.Addr().String(), tls
}

func n2connected(n2 *Election) bool { p := n2.Peers(); return len(p) > 0 && p[0].Connected }

// BenchmarkRoundTrip is a letter there and one back, over TLS on loopback.
func BenchmarkRoundTrip(b *testing.B) {
	n1, back, _, _, _ := bench(b)
	l := letter(1)
	b.ReportAllocs()
	for b.Loop() {
		n1.Send("n2", l)
		<-back
	}
}

// BenchmarkHandshake is a connection with certificates on both sides, up to the
// Welcome, and its end.
func BenchmarkHandshake(b *testing.B) {
	_, _, hello, addr, tls := bench(b)
	for b.Loop() {
		c, err := Dial(b.Context(), ClientConfig{Addr: addr, Hello: hello, About: "e", TLS: tls, Expect: "n2"})
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}
