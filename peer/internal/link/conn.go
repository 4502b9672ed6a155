package link

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/peer/internal/wire"
)

// conn is a complete connection with a node.
type conn struct {
	*stream
	link    *Link
	peer    *peer
	dialled bool // by this side
	life    uint64
	since   time.Time
	// incarnation is what Hello said, then the greatest that a letter carried: a
	// process that connects before its first boot has none yet. The connections
	// of one process share it.
	incarnation *atomic.Uint64

	kick chan struct{} // there is something to write, or to look at
	stop chan struct{} // closed when nothing is to be written any more
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	queue   []item
	head    int   // of the queue
	writing bool  // a write is in progress
	failed  error // the first failure of a write
	ours    bool  // this side closes it
	flush   bool  // what is queued is the last
}

// item is a letter, or another frame.
type item struct {
	letter wire.Letter
	frame  *wire.Frame
}

func newConn(l *Link, s *stream, h *wire.Hello, dialled bool) *conn {
	c := &conn{
		stream: s, link: l, dialled: dialled, life: h.Life, since: time.Now(), incarnation: new(atomic.Uint64),
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	c.incarnation.Store(h.Incarnation)
	return c
}

// push queues a letter, at the cost of the oldest if there are too many.
func (c *conn) push(l *wire.Letter) {
	c.mu.Lock()
	if len(c.queue)-c.head >= maxQueue {
		c.dropOldest()
	}
	c.queue = append(c.queue, item{letter: *l})
	c.mu.Unlock()
	c.wake()
}

// dropOldest drops the oldest letter; other frames stay, they are few.
func (c *conn) dropOldest() {
	for i := c.head; i < len(c.queue); i++ {
		if c.queue[i].frame == nil {
			copy(c.queue[c.head+1:i+1], c.queue[c.head:i])
			c.queue[c.head] = item{}
			c.head++
			c.peer.dropped.Add(1)
			break
		}
	}
	if c.head >= maxQueue { // make room at the front, once in a while
		n := copy(c.queue, c.queue[c.head:])
		clear(c.queue[n:])
		c.queue, c.head = c.queue[:n], 0
	}
}

// say queues another frame.
func (c *conn) say(f *wire.Frame) {
	c.mu.Lock()
	c.queue = append(c.queue, item{frame: f})
	c.mu.Unlock()
	c.wake()
}

func (c *conn) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// finish writes what is queued, the frame last if there is one, and closes this
// direction. The reader goes on until the other side has closed its own, or for
// a while.
func (c *conn) finish(last *wire.Frame, within time.Duration) {
	c.mu.Lock()
	if last != nil && !c.flush {
		c.queue = append(c.queue, item{frame: last})
	}
	c.ours, c.flush = true, true
	c.mu.Unlock()
	_ = c.raw.SetDeadline(time.Now().Add(within))
	c.wake()
}

// abort closes it now.
func (c *conn) abort() {
	c.mu.Lock()
	c.ours = true
	c.mu.Unlock()
	_ = c.raw.Close()
}

// write writes what is queued, as much at once as there is.
func (c *conn) write() {
	defer close(c.done)
	pause := c.link.cfg.Idle / 3
	silence := time.NewTimer(pause)
	defer silence.Stop()
	said := false                                                    // something, since the timer was set
	sign := []item{{frame: &wire.Frame{Response: &wire.Response{}}}} // of life
	var buf []byte
	var spare []item
	for {
		c.mu.Lock()
		taken := c.queue
		batch := taken[c.head:]
		c.queue, c.head = spare[:0], 0
		c.writing = len(batch) > 0
		flush, within := c.flush, max(c.link.cfg.Idle, steady)
		c.mu.Unlock()

		if len(batch) == 0 {
			spare = taken
			if flush {
				c.closeWrite()
				return
			}
			select {
			case <-c.kick:
				continue
			case <-c.stop:
				return
			case <-silence.C:
				silence.Reset(pause)
				if said {
					said = false
					continue
				}
				batch, taken = sign, nil
				c.mu.Lock()
				c.writing = true
				c.mu.Unlock()
			}
		}
		buf = c.encode(buf[:0], batch)
		if !flush {
			_ = c.raw.SetWriteDeadline(time.Now().Add(within))
		}
		_, err := c.Write(buf)
		c.mu.Lock()
		c.writing = false
		if err != nil && c.failed == nil {
			c.failed = err
		}
		c.mu.Unlock()
		if err != nil {
			select {
			case <-c.stop: // the reader has ended it
			default:
				if !endedThere(err) {
					c.abort()
				}
				// Otherwise the reader finds out, and says so.
			}
			return
		}
		said = true
		if taken != nil {
			clear(taken)
			spare = taken
		}
		if cap(buf) > wire.MaxHello {
			buf = nil
		}
	}
}

func (c *conn) encode(buf []byte, batch []item) []byte {
	var letters uint64
	for i := range batch {
		f := batch[i].frame
		if f == nil {
			f = &wire.Frame{Letter: &batch[i].letter}
		}
		var err error
		if buf, err = wire.Append(buf, f); err != nil {
			c.peer.dropped.Add(1)
			c.link.strange.log(c.link.log, string(c.peer.id)+err.Error(), "a letter cannot be written", "to", c.peer.id, "error", err)
		} else if batch[i].frame == nil {
			letters++
		}
	}
	c.peer.sent.Add(letters)
	return buf
}

// endedByThem decides, when reading has ended with err, whether that was the
// doing of the other side. An error of the kernel is told only once, to whoever
// asks first, and whoever asks next hears of an end: so a write that is under way
// is waited for.
func (c *conn) endedByThem(err error) (bool, error) {
	c.mu.Lock()
	writing, flush := c.writing, c.flush
	c.mu.Unlock()
	if flush {
		<-c.done // what is queued may still be wanted there; it has a deadline
	}
	close(c.stop)
	if writing && !flush {
		_ = c.raw.SetWriteDeadline(time.Unix(1, 0))
		<-c.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ours:
		if c.failed != nil {
			err = c.failed
		}
		return false, err
	case c.failed != nil && !endedThere(c.failed) && !errors.Is(c.failed, os.ErrDeadlineExceeded):
		return false, c.failed
	}
	return endedThere(err), err
}

func raise(v *atomic.Uint64, n uint64) {
	for old := v.Load(); n > old; old = v.Load() {
		if v.CompareAndSwap(old, n) {
			return
		}
	}
}

// read hands over what arrives until the connection ends, and says why it did.
func (c *conn) read() error {
	l, p := c.link, c.peer
	c.frames.SetMax(wire.MaxFrame)
	for {
		f, err := c.frames.Next()
		if err != nil {
			return err
		}
		p.heard()
		switch {
		case f.Letter != nil:
			p.received.Add(1)
			raise(c.incarnation, f.Letter.Message.Incarnation)
			l.cfg.Receive(p.id, f.Letter)
		case f.Welcome != nil:
			l.cfg.Welcomed(p.id, f.Welcome)
		case f.Response != nil: // a sign of life
		case f.Refusal != nil && f.Refusal.Code == wire.CodeDuplicate:
			// The other side keeps another connection, or somebody else. It
			// waits until this side has closed.
			l.yield(c)
		case f.Refusal != nil:
			return f.Refusal
		default:
			return fmt.Errorf("%s sent a frame that nodes do not send", p.id)
		}
	}
}
