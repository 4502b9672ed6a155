package cable

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// line is one forwarded connection: its two ends and what is on the way between them.
type line struct {
	cable *Cable
	ctx   context.Context // ended by reset
	stop  context.CancelFunc
	gone  chan struct{} // closed when the near end has sent its last

	mu   sync.Mutex
	ends [2]net.Conn // the near end, and the far one once it is dialled
	dead bool
}

// parcel is something on the way.
type parcel struct {
	at    time.Time // when it was sent
	luck  float64   // its part of the jitter, of 1
	bytes []byte
	end   bool // the sender closes its direction
	reset bool // or the connection broke
}

// window is how many parcels may be on the way in one direction before the sender must wait.
const window = 64

func newLine(c *Cable, near net.Conn) *line {
	l := &line{cable: c, ends: [2]net.Conn{near}, gone: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(c.ctx)
	return l
}

// run forwards until both ends have closed, or one is reset.
func (l *line) run() {
	defer l.forget()
	var way [2]chan parcel
	for d := range way {
		way[d] = make(chan parcel, window)
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { l.read(l.ends[0], way[there], l.gone) })

	far := l.dial()
	if far == nil {
		l.reset()
		return
	}
	work.Go(func() { l.read(far, way[back], nil) })
	work.Go(func() { l.write(there, way[there], far) })
	l.write(back, way[back], l.ends[0])
}

// dial makes the far end; nil if there is none. While the cable is cut it waits, and the target never sees a caller
// that gives up before the cable is healed.
func (l *line) dial() net.Conn {
	for {
		ways, changed := l.cable.state()
		if !ways[there].Cut && !ways[back].Cut {
			break
		}
		select {
		case <-changed:
		case <-l.gone:
			return nil
		case <-l.ctx.Done():
			return nil
		}
	}
	// Not with l.ctx: the target may have accepted a connection that is reset before this side knows it, and that must
	// not look like a close.
	far, err := new(net.Dialer).DialContext(l.cable.ctx, "tcp", l.cable.target)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		abort(far)
		return nil
	}
	l.ends[1] = far
	return far
}

// read reads what an end sends.
func (l *line) read(from net.Conn, way chan<- parcel, gone chan struct{}) {
	buf := make([]byte, 32<<10)
	for last := false; !last; {
		n, err := from.Read(buf)
		l.cable.carried.Add(int64(n))
		p := parcel{at: time.Now(), luck: rand.Float64(), bytes: append([]byte(nil), buf[:n]...)}
		if err != nil {
			last = true
			p.end, p.reset = true, !errors.Is(err, io.EOF)
			if gone != nil {
				close(gone)
			}
		}
		select {
		case way <- p:
		case <-l.ctx.Done():
			return
		}
	}
}

// write writes to an end what is on the way to it.
func (l *line) write(d direction, way <-chan parcel, to net.Conn) {
	for {
		select {
		case p := <-way:
			if !l.pass(d, p.at, p.luck) {
				return
			}
			if _, err := to.Write(p.bytes); err != nil {
				// The other end is gone: that must travel back too.
				if l.pass(1-d, time.Now(), rand.Float64()) {
					l.reset()
				}
				return
			}
			switch {
			case p.reset:
				l.reset()
				return
			case p.end:
				closeWrite(to)
				return
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// pass waits until what was sent at sent may arrive: its delay is over and its direction is not cut. It returns false
// if the connection is gone.
func (l *line) pass(d direction, sent time.Time, luck float64) bool {
	for {
		ways, changed := l.cable.state()
		var due <-chan time.Time
		if w := ways[d]; !w.Cut {
			delay := max(w.Delay, 0) + time.Duration(luck*float64(max(w.Jitter, 0)))
			left := time.Until(sent.Add(delay))
			if delay == 0 || left <= 0 {
				return l.ctx.Err() == nil
			}
			due = time.After(left)
		}
		select {
		case <-due:
		case <-changed:
		case <-l.ctx.Done():
			return false
		}
	}
}

// reset resets both ends at once.
func (l *line) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	l.stop()
	for _, end := range l.ends {
		if end != nil {
			abort(end)
		}
	}
}

// forget closes what is left when forwarding has ended.
func (l *line) forget() {
	l.mu.Lock()
	l.dead = true
	for _, end := range l.ends {
		if end != nil {
			_ = end.Close()
		}
	}
	l.mu.Unlock()
	l.stop()
	l.cable.mu.Lock()
	delete(l.cable.lines, l)
	l.cable.mu.Unlock()
}

// abort closes a connection with a reset.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// closeWrite signals to an end that nothing more comes.
func closeWrite(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
}
