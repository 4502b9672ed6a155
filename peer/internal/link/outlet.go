package link

import (
	"net"
	"sync"
	"syscall"
)

// outlet is a connection beneath TLS. Once it is loose, a write does not wait: what the kernel does not take at once
// is kept until drain. So the sender of a letter can write it without waking another goroutine.
type outlet struct {
	net.Conn
	socket syscall.RawConn // nil: everything is kept until drain
	heard  bool            // something was read; owned by the reader

	mu       sync.Mutex
	loose    bool
	backlog  []byte
	draining bool // a drain is under way, and later writes must be kept
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
	n, err := o.readSome(p)
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
		return o.Conn.Write(p) // in a handshake, with one writer only
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

// pending reports whether something is kept for drain.
func (o *outlet) pending() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.backlog) > 0
}

// drain writes what is kept, however long that takes. One goroutine at a time may call it.
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
			return err // draining stays set: nothing may follow half a record
		}
	}
}
