// Package cable is a TCP connection that can be cut: a proxy on loopback that forwards to one address, and stops,
// delays or resets the traffic on request. Demonstrations, benchmarks and tests put it between two peers.
//
// A cut is like a network that drops all packets: connections stay open and nothing arrives, neither bytes nor the
// end of a connection. What was on the way arrives after [Cable.Heal], as TCP would have sent it again. A proxy
// cannot show the kernel's part: the sender's kernel learns that its bytes have arrived, so its own timeouts never
// expire.
//
// All methods may be called by any number of goroutines. Without a connection,
// and while nothing is forwarded, a Cable uses no processor time.
package cable

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Cable forwards from its own address to another one. Make it with [New], or
// with [Loose].
type Cable struct {
	listener net.Listener // nil: it is loose
	target   string
	ctx      context.Context // ended by Close
	stop     context.CancelFunc
	work     sync.WaitGroup
	carried  atomic.Int64

	mu      sync.Mutex
	ways    [2]Way        // by direction
	changed chan struct{} // closed, and replaced, at each change of the fields above
	lines   map[*line]struct{}
	closed  bool
}

// Way is the treatment of one direction of a cable. The zero Way is perfect.
type Way struct {
	Cut   bool          // nothing arrives until it is healed
	Delay time.Duration // how long each byte is held back; less than 0 is 0

	// Jitter bounds a random additional delay. A connection stays in order, so earlier bytes may delay later ones; bytes
	// of different connections can overtake each other.
	Jitter time.Duration
}

// direction is one way of a connection.
type direction int

const (
	there direction = iota // to the target
	back                   // from it
)

// New listens on a free port of 127.0.0.1 and forwards to target, a host and a port, which it dials for each
// connection. Close ends it.
func New(target string) (*Cable, error) {
	c, err := Loose(target)
	if err != nil {
		return nil, err
	}
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("cable: %w", err)
	}
	c.work.Go(c.accept)
	return c, nil
}

// Loose is New without an address: its connections come from [Cable.Carry].
func Loose(target string) (*Cable, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("cable: target %q: %w; want HOST:PORT", target, err)
	}
	c := &Cable{target: target, changed: make(chan struct{}), lines: make(map[*line]struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Addr is the address to dial instead of the target's; "" for a loose cable.
func (c *Cable) Addr() string {
	if c.listener == nil {
		return ""
	}
	return c.listener.Addr().String()
}

// Carry forwards a connection that the caller has accepted, like one to Addr, and owns it from then on. It does not
// wait. After Close it resets the connection.
func (c *Cable) Carry(near net.Conn) {
	l := newLine(c, near)
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.lines[l] = struct{}{}
		c.work.Go(l.run) // while the lock is held, so that Close waits for it
	}
	c.mu.Unlock()
	if closed {
		l.reset()
	}
}

// Set replaces the treatment of the direction to the target and of the one back, at once. While either is cut new
// connections hang.
func (c *Cable) Set(there, back Way) { c.change(func() { c.ways = [2]Way{there, back} }) }

// Cut stops both directions. New connections hang until [Cable.Heal].
func (c *Cable) Cut() { c.cut(true, true) }

// Heal lets both directions continue. Delays stay as they are.
func (c *Cable) Heal() { c.cut(false, false) }

func (c *Cable) cut(to, from bool) {
	c.change(func() { c.ways[there].Cut, c.ways[back].Cut = to, from })
}

// Delay holds back each byte for d, each way, from now on; 0 is no delay.
func (c *Cable) Delay(d time.Duration) {
	c.change(func() { c.ways[there].Delay, c.ways[back].Delay = d, d })
}

func (c *Cable) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Carried is how many bytes both sides have sent over it since it was made. What TCP adds to them is not counted.
func (c *Cable) Carried() int64 { return c.carried.Load() }

// Reset ends all connections, even cut ones, with a reset on both sides. What was on the way is lost. New connections
// are forwarded as before.
func (c *Cable) Reset() {
	for _, l := range c.all() {
		l.reset()
	}
}

// Close stops listening, resets all connections and waits until they have ended.
func (c *Cable) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	var err error
	if c.listener != nil {
		err = c.listener.Close()
	}
	for _, l := range c.all() {
		l.reset()
	}
	c.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // closed before
	}
	return err
}

func (c *Cable) all() []*line {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*line
	for l := range c.lines {
		all = append(all, l)
	}
	return all
}

// state returns the present treatment, and a channel that is closed when it changes.
func (c *Cable) state() (ways [2]Way, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ways, c.changed
}

// accept takes new connections until the listener is closed.
func (c *Cable) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			if c.ctx.Err() != nil {
				return
			}
			// Most likely there are no descriptors left: some will become free.
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-c.ctx.Done():
				return
			}
		}
		c.Carry(conn)
	}
}
