//go:build linux && cgo

package leases_test

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"

	"github.com/electd/elect/internal/cable"
)

// lossyCable is a cable to a server of ZooKeeper that asks with each write of its clients whether the answer is to be
// lost. If so, it resets the connection when the answer comes: the server has carried the request out by then.
func lossyCable(t testing.TB, addr string, lose func() bool) (c *cable.Cable, at string) {
	t.Helper()
	c, err := cable.Loose(addr)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.Carry(&lossyConn{Conn: conn, lose: lose})
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		_ = c.Close()
	})
	return c, l.Addr().String()
}

// lossyConn is the client's end of a connection. A request is its length, xid, code and content, and its answer begins
// with the length and the xid. The first of each is that of the session.
type lossyConn struct {
	net.Conn
	lose             func() bool
	asked, answered  []byte // of frames that are not complete
	greets, greeting bool   // the first frame has passed
	doomed           atomic.Int32
}

// changes are the codes of requests that change something: create, delete, setData, multi and closeSession.
var changes = map[int32]bool{1: true, 2: true, 5: true, 14: true, -11: true}

// Read notes the requests.
func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.asked = append(c.asked, p[:n]...)
	for frame := next(&c.asked); frame != nil; frame = next(&c.asked) {
		switch {
		case !c.greets:
			c.greets = true
		case len(frame) >= 12 && changes[word(frame, 8)] && c.lose():
			c.doomed.Store(word(frame, 4))
		}
	}
	return n, err
}

// Write passes answers on, up to the one that is to be lost.
func (c *lossyConn) Write(p []byte) (int, error) {
	c.answered = append(c.answered, p...)
	for frame := next(&c.answered); frame != nil; frame = next(&c.answered) {
		xid := c.doomed.Load()
		if c.greeting && xid != 0 && len(frame) >= 8 && word(frame, 4) == xid {
			_ = c.Conn.Close()
			return 0, net.ErrClosed
		}
		c.greeting = true
		if _, err := c.Conn.Write(frame); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func word(frame []byte, at int) int32 { return int32(binary.BigEndian.Uint32(frame[at:])) }

// next takes the first frame off a stream, with its length; nil: it is not complete.
func next(stream *[]byte) []byte {
	if len(*stream) < 4 {
		return nil
	}
	size := 4 + int(binary.BigEndian.Uint32(*stream))
	if len(*stream) < size {
		return nil
	}
	frame := (*stream)[:size]
	*stream = (*stream)[size:]
	return frame
}
