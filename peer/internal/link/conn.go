package link

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// conn is a complete connection with a node.
type conn struct {
	*stream
	link    *Link
	peer    *peer
	dialled bool // dialled by this side
	since   time.Time
	speaks  uint32 // the version of the protocol that both sides know
	next    next   // what the next version needs
	proc    *process
	level   slog.Level // of the line that reports the connection

	// Guarded by the Link's lock:
	replaced bool                 // this side has dialled another one in its place
	left     bool                 // it is not sent on any more; what arrives still counts
	over     bool                 // it is not read any more
	numbers  uint32               // the greatest of this side's Enters
	highest  uint32               // the greatest of the other side's
	entries  map[*Election]*entry // the elections on it
	mine     map[uint32]*entry    // by the numbers of this side's Enters
	theirs   map[uint32]*entry    // by the numbers of the other side's Enters

	kick chan struct{} // the writer has something to do
	stop chan struct{} // closed when nothing more is to be written
	done chan struct{} // closed when the writer has ended
	said atomic.Bool   // something was written since the last check

	mu      sync.Mutex
	busy    bool        // the writer writes; until it is done, letters are queued
	queue   []item      // only while busy
	head    int         // of the queue
	buf     []byte      // for letters that are written directly
	letter  wire.Letter // the latest of these
	writing bool        // the writer is in a write
	failed  error       // the first failure of a write
	ours    bool        // this side closes it
	flush   bool        // the queue is the last to be written
}

// item is a letter, or another frame.
type item struct {
	letter wire.Letter
	m      *member // of the letter
	frame  *wire.Frame
}

// process is what is known of a connected process.
type process struct {
	life    uint64
	starts  uint64
	dir     protocol.DirID
	program string

	// parts are the elections in which the process takes part, each with its incarnation: that of its Enter, and then
	// the greatest of its letters. A process that enters before its first boot has none yet. The Link's lock guards it.
	parts map[*Election]*atomic.Uint64
}

func newConn(l *Link, s *stream, h *wire.Hello, dialled bool) *conn {
	c := &conn{
		stream: s, link: l, dialled: dialled, since: time.Now(), proc: &process{life: h.Life, starts: h.Starts, dir: h.Dir, program: h.Program},
		entries: make(map[*Election]*entry), mine: make(map[uint32]*entry), theirs: make(map[uint32]*entry),
		speaks: min(h.Version, l.cfg.Hello.Version),
		kick:   make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	c.said.Store(true) // Hello
	return c
}

// push writes a letter to a member, with a number, if the kernel takes it at once. Otherwise it queues the letter,
// and drops the oldest if there are too many.
func (c *conn) push(m *member, number uint32, l *wire.Letter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failed != nil || c.flush:
		m.dropped.Add(1)
	case c.busy:
		if len(c.queue)-c.head >= maxQueue {
			c.dropOldest()
		}
		c.queue = append(c.queue, item{letter: *l, m: m})
		c.queue[len(c.queue)-1].letter.Number = number
	default:
		c.letter = *l
		c.letter.Number = number
		var ok bool
		if c.buf, ok = c.append(c.buf[:0], &wire.Frame{Letter: &c.letter}); !ok {
			m.dropped.Add(1)
			return
		}
		if _, err := c.Write(c.buf); err != nil {
			c.fail(err)
		} else if m.sent.Add(1); c.out.pending() {
			c.busy = true
			c.wake()
		}
		if cap(c.buf) > wire.MaxHello {
			c.buf = nil
		}
	}
}

// fail records that a write has failed. If the other side is the cause the reader notices and reports it. The lock is
// held.
func (c *conn) fail(err error) {
	if c.failed == nil {
		c.failed = err
	}
	if !endedThere(err) {
		c.ours = true
		_ = c.raw.Close()
	}
}

// append encodes a frame, or logs why it cannot.
func (c *conn) append(buf []byte, f *wire.Frame) ([]byte, bool) {
	buf, err := wire.Append(buf, c.next.stamp(c, f))
	if err != nil {
		c.link.strange.log(c.link.log, string(c.peer.id)+err.Error(), "a letter cannot be written", "to", c.peer.id, "error", err)
		return buf, false
	}
	if f.Response == nil { // a sign of life does not stand in for the next one
		c.said.Store(true)
	}
	return buf, true
}

// dropOldest drops the oldest letter. Other frames stay: they are few.
func (c *conn) dropOldest() {
	for i := c.head; i < len(c.queue); i++ {
		if c.queue[i].frame == nil {
			c.queue[i].m.dropped.Add(1)
			copy(c.queue[c.head+1:i+1], c.queue[c.head:i])
			c.queue[c.head] = item{}
			c.head++
			break
		}
	}
	if c.head >= maxQueue { // now and then, make room at the front
		n := copy(c.queue, c.queue[c.head:])
		clear(c.queue[n:])
		c.queue, c.head = c.queue[:n], 0
	}
}

// say queues another frame. It never blocks, and may be called while the Link's lock is held.
func (c *conn) say(f *wire.Frame) {
	c.mu.Lock()
	switch {
	case c.flush:
	case len(c.queue)-c.head >= maxFrames+maxQueue:
		c.fail(errFlood)
	default:
		c.queue = append(c.queue, item{frame: f})
		c.busy = true
	}
	c.mu.Unlock()
	c.wake()
}

func (c *conn) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

var errFlood = errors.New("it asks for more than it takes")

// finish writes what is queued, and the frame last if there is one, and closes this direction. The reader goes on
// until the other side has closed its own, or until a time limit.
func (c *conn) finish(last *wire.Frame, within time.Duration) {
	c.mu.Lock()
	if last != nil && !c.flush {
		c.queue = append(c.queue, item{frame: last})
		c.busy = true
	}
	c.ours, c.flush = true, true
	c.mu.Unlock()
	_ = c.raw.SetDeadline(time.Now().Add(within))
	c.wake()
}

// abort closes the connection at once.
func (c *conn) abort() {
	c.mu.Lock()
	c.ours = true
	c.mu.Unlock()
	_ = c.raw.Close()
}

// write writes what could not be written directly, as much at a time as there is.
func (c *conn) write() {
	defer close(c.done)
	var buf []byte
	var spare []item
	for {
		c.mu.Lock()
		if !c.busy {
			flush := c.flush
			c.mu.Unlock()
			if flush {
				c.closeWrite()
				return
			}
			select {
			case <-c.kick:
				continue
			case <-c.stop:
				return
			}
		}
		taken := c.queue
		batch := taken[c.head:]
		c.queue, c.head = spare[:0], 0
		c.writing = true
		if !c.flush { // a flush has a deadline of its own
			_ = c.raw.SetWriteDeadline(time.Now().Add(max(c.link.idle(), steady)))
		}
		c.mu.Unlock()

		buf = c.encode(buf[:0], batch)
		err := c.out.drain()
		if err == nil && len(buf) > 0 {
			if _, err = c.Write(buf); err == nil {
				err = c.out.drain()
			}
		}
		if cap(buf) > wire.MaxHello {
			buf = nil
		}

		c.mu.Lock()
		c.writing = false
		if c.busy = len(c.queue) > c.head; !c.busy && !c.flush {
			_ = c.raw.SetWriteDeadline(time.Time{}) // a direct write fails after the deadline
		}
		if err != nil {
			select {
			case <-c.stop: // the reader has ended it
				c.failed = cmp.Or(c.failed, err)
			default:
				c.fail(err)
			}
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
		for i := range batch {
			if m := batch[i].m; m != nil {
				m.sent.Add(1)
			}
		}
		clear(taken)
		spare = taken
	}
}

// encode encodes the queue. A letter that cannot be encoded counts as dropped.
func (c *conn) encode(buf []byte, batch []item) []byte {
	for i := range batch {
		f := batch[i].frame
		if f == nil {
			f = &wire.Frame{Letter: &batch[i].letter}
		}
		var ok bool
		if buf, ok = c.append(buf, f); !ok && batch[i].m != nil {
			batch[i].m.dropped.Add(1)
			batch[i].m = nil
		}
	}
	return buf
}

// endedByThem decides, when reading has ended with err, whether the other side caused it. The kernel reports an error
// only once, to the first call, and later calls only see an end. So it waits for a write that is under way.
func (c *conn) endedByThem(err error) (bool, error) {
	c.mu.Lock()
	writing, flush := c.writing, c.flush
	c.mu.Unlock()
	if flush {
		<-c.done // the other side may still want what is queued; it has a deadline
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

// read passes on what arrives until the connection ends, and returns the reason.
func (c *conn) read() error {
	l, p := c.link, c.peer
	c.frames.SetMax(wire.MaxFrame)
	for {
		f, err := c.frames.Next()
		if err != nil {
			return err
		}
		l.heard(p)
		switch {
		case f.Letter != nil:
			if err := c.next.check(c, f.Letter); err != nil {
				return err
			}
			l.letter(c, f.Letter)
		case f.Enter != nil:
			if err := l.entered(c, f.Enter); err != nil {
				return err
			}
		case f.Leave != nil:
			l.gone(c, f.Leave.Number)
		case f.Welcome != nil:
			l.welcomed(c, f.Welcome)
		case f.Refusal != nil && f.Refusal.Number != 0:
			l.refused(c, f.Refusal)
		case f.Response != nil: // a sign of life
		case f.Refusal != nil && f.Refusal.Code == wire.CodeDuplicate:
			// The other side keeps another connection, or another process. It waits until this side has closed.
			l.yield(c)
		case f.Refusal != nil:
			if f.Refusal.Code != wire.CodeFrame {
				l.refusedBy(p.id, f.Refusal)
			}
			return f.Refusal
		default:
			return fmt.Errorf("%s sent a frame that nodes do not send", p.id)
		}
	}
}
