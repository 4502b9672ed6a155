package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// TestStreams: a node takes streams on its port, and knows whose they are.
func TestStreams(t *testing.T) {
	t.Parallel()
	c := newCluster(t, names("n", 1), nil, false)
	dir := certified(t, c, "w1")
	c.startAll()
	n := c.node("n1")
	info := n.Streams()
	if info.ID != "n1" || info.Addr != n.cfg.Voters[0].Addr || info.Asks {
		t.Fatalf("the node is %+v to others; want n1 at %s", info, n.cfg.Voters[0].Addr)
	}
	taken := make(chan driver.Stream)
	stop, err := n.TakeStreams("echo", func(s driver.Stream) {
		taken <- s
		_, _ = io.Copy(s, s)
		_ = s.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.TakeStreams("echo", nil); err == nil || !strings.Contains(err.Error(), "want one taker") {
		t.Errorf("a second taker: %v", err)
	}
	client := func(id string) *Client {
		cfg := c.config("n1")
		cfg.Certs, cfg.Client = dir, id
		client, err := newClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // more than any frame of peers
	exchange := func(nc net.Conn, err error) driver.Stream {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		s := within(t, taken, "the stream")
		go func() { _, _ = nc.Write(large) }()
		got := make([]byte, len(large))
		if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, large) {
			t.Errorf("what was sent has not come back: %v", err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		return s
	}
	member, asks := client("w1"), client("x")
	if member.Streams().Asks || !asks.Streams().Asks {
		t.Error("w1 has a certificate and x has none; want that only x asks")
	}
	if s := exchange(member.OpenStream(t.Context(), "echo", "w1", "n1", "127.0.0.1:1")); s.ID != "w1" || s.Any || s.ReadOnly {
		t.Errorf("the stream of w1 is %+v", s)
	}
	if s := exchange(c.as(t, dir, "the-observe").OpenStream(t.Context(), "echo", "x", "n1", info.Addr)); s.ID != "" || s.Any || !s.ReadOnly {
		t.Errorf("the stream of an operator that only observes is %+v", s)
	}
	// A keeper has nothing but the key, and no addresses.
	if s := exchange(OpenStream(t.Context(), member.Streams().Key, "echo", "w1", "n1", info.Addr)); s.ID != "w1" {
		t.Errorf("the stream of w1's keeper is %+v", s)
	}
	last, err := member.OpenStream(t.Context(), "echo", "w1", "n1", info.Addr)
	if err != nil {
		t.Fatal(err)
	}
	<-taken
	// Streams are no clients, of which 64 may ask at a time.
	for i := range 70 {
		nc, err := member.OpenStream(t.Context(), "echo", "w1", "n1", info.Addr)
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		<-taken
		t.Cleanup(func() { _ = nc.Close() })
	}
	if _, err := member.OpenStream(t.Context(), "other", "w1", "n1", info.Addr); err == nil || !strings.Contains(err.Error(), "has no other in it at present") {
		t.Errorf("a stream that nobody takes: %v", err)
	}
	if _, err := member.OpenStream(t.Context(), "echo", "w1", "n2", info.Addr); err == nil {
		t.Error("n1 answers where n2 was expected, and that is no error")
	}
	if _, err := n.OpenStream(t.Context(), "echo", "w1", "n1", info.Addr); err == nil {
		t.Error("n1 opens a stream as w1")
	}
	stop()
	if _, err := last.Read(make([]byte, 1)); err == nil {
		t.Error("a stream goes on after stop")
	}
	if _, err := member.OpenStream(t.Context(), "echo", "w1", "n1", info.Addr); err == nil {
		t.Error("a stream is taken after stop")
	}
	if _, err := OpenStream(t.Context(), []byte(`{"certs":"`+filepath.Join(dir, "none")+`"}`), "echo", "w1", "n1", info.Addr); err == nil {
		t.Error("a keeper without a certificate opens a stream")
	}
}

// TestStreamsOfOlder: a node of a version that knows no streams refuses one, and the error says what would be right.
func TestStreamsOfOlder(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() { // what such a node says to a client
		nc, err := l.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer nc.Close()
		r := wire.NewReader(nc, wire.MaxFrame)
		_, err = r.Next()
		var b []byte
		for _, f := range []*wire.Frame{{Hello: &wire.Hello{
			Version: wire.Version, Oldest: wire.Oldest, Caller: wire.Node, Cluster: DefaultCluster, ID: "n1", Dir: protocol.DirID{1}, Starts: 1, Life: 1,
		}}, {Welcome: &wire.Welcome{}}} {
			b, _ = wire.Append(b, f)
		}
		_, werr := nc.Write(b)
		f, rerr := r.Next()
		if err = errors.Join(err, werr, rerr); err == nil && f.Request == nil {
			err = errors.New("it did not ask")
		}
		if err == nil {
			b, _ = wire.Append(nil, &wire.Frame{Response: &wire.Response{Call: f.Request.Call, Code: codeVerb, Error: `this node knows no "stream"`}})
			_, err = nc.Write(b)
		}
		ended <- err
	}()
	client, err := newClient(setup{Config: Config{Insecure: true}, Name: "e", Voters: []Peer{{ID: "n1", Addr: l.Addr().String()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.OpenStream(t.Context(), "group", "w1", "n1", "")
	if err == nil || !strings.Contains(err.Error(), "carries no group between peers; want this version or a later one at all") {
		t.Error(err)
	}
	if _, ok := errors.AsType[*link.CallError](err); !ok {
		t.Errorf("%v is no answer of the node", err)
	}
	if err := <-ended; err != nil {
		t.Error(fmt.Errorf("the older node: %w", err))
	}
}
