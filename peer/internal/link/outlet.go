package link

import (
	"net"
	"sync"
	"syscall"
)

// outlet is a connection beneath TLS. Once it is loose, writing to it does not
// wait: what the kernel does not take at once is kept until drain. So a letter
// can be written by whoever sends it, without waking a goroutine that would
// write it.
type outlet struct {
	net.Conn
	socket syscall.RawConn // nil: everything waits for drain
	heard  bool            // something came in; the reader's

	mu       sync.Mutex
	loose    bool
	backlog  []byte
	draining bool // a drain is under way, and what is written must queue behind it
}

func newOutlet(c net.Conn) *outlet {
	o := &outlet{Conn: c}
	if s, ok := c.(syscall.Conn); ok {
		o.socket, _ = s.SyscallConn()
	}
	return o
}

// loosen begins to keep what cannot be written at once.
func (o *outlet) loosen() {
	o.mu.Lock()
	o.loose = true
	o.mu.Unlock()
}

// Read implements io.Reader.
func (o *outlet) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	if n > 0 {
		o.heard = true
	}
	return n, err
}

// Write implements io.Writer.
func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.loose {
		return o.Conn.Write(p) // in a handshake, where nobody else writes
	}
	n := 0
	if !o.draining && len(o.backlog) == 0 && o.socket != nil {
		var err error
		if n, err = writeSome(o.socket, p); err != nil {
			return n, err
		}
	}
	o.backlog = append(o.backlog, p[n:]...)
	return len(p), nil
}

// pending reports whether something waits for drain.
func (o *outlet) pending() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.backlog) > 0
}

// drain writes what waits, however long that takes. One goroutine at a time may
// call it.
func (o *outlet) drain() error {
	for {
		o.mu.Lock()
		waiting := o.backlog
		o.backlog, o.draining = nil, len(waiting) > 0
		o.mu.Unlock()
		if len(waiting) == 0 {
			return nil
		}
		if _, err := o.Conn.Write(waiting); err != nil {
			return err // and draining stays: nothing may follow half a record
		}
	}
}
