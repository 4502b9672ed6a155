// Package link connects members with the coordinator of a group: a [Conn] is one end of a connection, over the network
// or within a process.
//
// What is sent on a connection arrives in order or not at all, except that polls and answers overtake the rest. Sending
// never waits: a connection whose other end does not take what is sent is closed, and its owner begins anew on another
// one. The functions and methods may be called by any number of goroutines.
package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/group/internal/wire"
)

const (
	// maxQueued bounds what waits to be written on one connection, in bytes.
	maxQueued = 96 << 20
	// maxUrgent bounds how many polls and answers do.
	maxUrgent = 4096
	// maxEntries is how many entries one message has; each may have metadata.
	maxEntries = 1024
	// kept is how large the memory for writing may be that a connection keeps.
	kept = 64 << 10
)

// ErrSlow is why a connection is closed whose other end does not take what is sent.
var ErrSlow = errors.New("the other end does not read what it is sent")

// ErrSilent is why a connection is closed whose other end says nothing. See [Conn.Expect].
var ErrSilent = errors.New("the other end says nothing")

// ErrClosed is why a connection is closed that was closed at this end.
var ErrClosed = errors.New("the connection was closed")

// Conn is one end of a connection.
type Conn struct {
	nc    net.Conn      // nil within a process
	other *Conn         // nil over the network
	stall time.Duration // a write may take that long
	idle  time.Duration // and the next packet; 0 is for ever

	wake chan struct{} // has room for one
	done chan struct{}

	mu     sync.Mutex
	urgent []wire.Packet
	rest   []wire.Packet
	size   int  // of rest
	last   bool // what is queued is the last
	closed bool
	err    error
}

// New returns the end of a network connection. stall is how long a write may take. The caller runs [Conn.Run].
func New(nc net.Conn, stall time.Duration) *Conn {
	c := newConn()
	c.nc, c.stall = nc, stall
	return c
}

// Expect ends the connection when no packet has arrived for a time: a cut without a word is not seen otherwise. It is
// called before [Conn.Run], and has no effect within a process.
func (c *Conn) Expect(idle time.Duration) { c.idle = idle }

// Pair returns both ends of a connection within a process.
func Pair() (a, b *Conn) {
	a, b = newConn(), newConn()
	a.other, b.other = b, a
	return a, b
}

func newConn() *Conn { return &Conn{wake: make(chan struct{}, 1), done: make(chan struct{})} }

// Addr is where the other end is, for people.
func (c *Conn) Addr() string {
	if c.nc == nil {
		return "this process"
	}
	return c.nc.RemoteAddr().String()
}

// Send queues a packet, which must not be changed afterwards.
func (c *Conn) Send(p wire.Packet) {
	c.mu.Lock()
	if c.closed || c.last {
		c.mu.Unlock()
		return
	}
	if p.Urgent() {
		c.urgent = append(c.urgent, p)
	} else {
		c.rest = append(c.rest, p)
		c.size += p.Size()
	}
	slow := c.size > maxQueued || len(c.urgent) > maxUrgent
	c.mu.Unlock()
	if slow {
		c.Close(ErrSlow)
		return
	}
	c.ring()
}

// Queued is about how many bytes wait to be written, beside renewals.
func (c *Conn) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

func (c *Conn) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Finish ends the connection when what was sent before has left, or cannot.
func (c *Conn) Finish() {
	c.mu.Lock()
	c.last = true
	c.mu.Unlock()
	c.ring()
}

// finished reports whether all has left of a connection that is to end then.
func (c *Conn) finished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last && len(c.urgent) == 0 && len(c.rest) == 0
}

// Close ends the connection, for a reason that stays at this end. What was sent may not have left.
func (c *Conn) Close(why error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed, c.err = true, why
	c.urgent, c.rest = nil, nil
	close(c.done)
	c.mu.Unlock()
	if c.nc != nil {
		_ = c.nc.Close()
	} else {
		c.other.Close(io.EOF)
	}
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the connection has ended.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Run reads packets with r, which is nil within a process, and passes each to take, one at a time, and writes what is
// sent. take may wait; then the other end waits, too. Run returns when the connection has ended.
func (c *Conn) Run(r *wire.Reader, take func(wire.Packet)) error {
	var work sync.WaitGroup
	if c.nc != nil {
		work.Go(func() { c.Close(c.write()) })
		c.Close(c.read(r, take))
	} else {
		c.pump(take)
	}
	work.Wait()
	return c.Err()
}

func (c *Conn) read(r *wire.Reader, take func(wire.Packet)) error {
	for {
		if c.idle > 0 {
			if err := c.nc.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
				return err
			}
		}
		p, err := r.Next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w within %v", ErrSilent, c.idle)
		}
		if err != nil {
			return err
		}
		take(p)
	}
}

// take returns all that is to be sent, renewals first.
func (c *Conn) take(buf []wire.Packet) []wire.Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf = append(append(buf, c.urgent...), c.rest...)
	clear(c.urgent)
	clear(c.rest)
	c.urgent, c.rest, c.size = c.urgent[:0], c.rest[:0], 0
	if cap(c.rest) > 1024 {
		c.rest = nil
	}
	return buf
}

// pump passes what the other end of a connection within a process sends to take.
func (c *Conn) pump(take func(wire.Packet)) {
	var all []wire.Packet
	for {
		select {
		case <-c.done:
			return
		case <-c.other.wake:
		}
		all = c.other.take(all[:0])
		for i := range all {
			if c.ended() {
				return
			}
			take(all[i])
		}
		clear(all)
		if c.other.finished() {
			c.Close(io.EOF)
		}
	}
}

func (c *Conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// write writes what is sent until the connection ends.
func (c *Conn) write() error {
	w := &writer{c: c}
	for {
		select {
		case <-c.done:
			return nil
		case <-c.wake:
		}
		if err := w.all(); err != nil {
			return err
		}
		if c.finished() {
			return ErrClosed
		}
	}
}

// writer collects small frames into one write.
type writer struct {
	c     *Conn
	out   []byte // frames to be written
	whole []byte
	frame []byte
}

// next returns the next packet: a renewal, if there is one. urgent is that none but renewals are wanted.
func (c *Conn) next(urgent bool) (p wire.Packet, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.urgent) > 0:
		p = c.urgent[0]
		c.urgent[0] = wire.Packet{}
		if c.urgent = c.urgent[1:]; len(c.urgent) == 0 {
			c.urgent = nil
		}
		return p, true
	case len(c.rest) > 0 && !urgent:
		p = c.rest[0]
		c.rest[0] = wire.Packet{}
		if c.rest = c.rest[1:]; len(c.rest) == 0 {
			c.rest = nil
		}
		return p, true
	}
	return p, false
}

func (w *writer) all() error {
	for {
		p, ok := w.c.next(false)
		if !ok {
			return w.flush()
		}
		if err := w.packet(p); err != nil {
			return err
		}
		w.c.mu.Lock()
		if !p.Urgent() {
			w.c.size -= p.Size()
		}
		w.c.mu.Unlock()
	}
}

func (w *writer) packet(p wire.Packet) error {
	parts := []wire.Packet{p}
	if p.Message != nil {
		if all := wire.Split(p.Message); len(all) > 1 {
			parts = parts[:0]
			for _, m := range all {
				parts = append(parts, wire.Packet{Message: m})
			}
		}
	}
	if s := p.Side; s != nil && len(s.Entries) > maxEntries {
		parts = parts[:0]
		for entries := range slices.Chunk(s.Entries, maxEntries) {
			part := *s
			part.Entries = entries
			parts = append(parts, wire.Packet{Side: &part})
		}
	}
	for i := range parts {
		w.whole = wire.Append(w.whole[:0], &parts[i])
		if err := w.frames(w.whole); err != nil {
			return err
		}
		if cap(w.whole) > kept {
			w.whole = nil
		}
	}
	return nil
}

func (w *writer) frames(whole []byte) (err error) {
	w.frame, err = wire.Frames(w.frame, whole, w.put, func() error {
		for {
			p, ok := w.c.next(true)
			if !ok {
				return w.flush()
			}
			var f []byte // not w.frame, which is in use
			if _, err := wire.Frames(f, wire.Append(nil, &p), w.put, nil); err != nil {
				return err
			}
		}
	})
	if cap(w.frame) > kept {
		w.frame = nil
	}
	return err
}

func (w *writer) put(frame []byte) error {
	w.out = append(w.out, frame...)
	if len(w.out) >= kept {
		return w.flush()
	}
	return nil
}

func (w *writer) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	if err := w.c.nc.SetWriteDeadline(time.Now().Add(w.c.stall)); err != nil {
		return err
	}
	_, err := w.c.nc.Write(w.out)
	w.out = w.out[:0]
	if cap(w.out) > 8*kept {
		w.out = nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w within %v", ErrSlow, w.c.stall)
	}
	return err
}
