package fencehttp

import (
	"errors"
	"io"
	"net"
)

// hijacked is a connection whose pass lasts until the handler has closed it.
type hijacked struct {
	net.Conn
	w      *writer
	closed bool // guarded by w.mu
}

// Close implements net.Conn.
func (c *hijacked) Close() error {
	err := c.Conn.Close()
	c.w.mu.Lock()
	first := !c.closed
	c.closed = true
	over := first && c.w.returned
	c.w.mu.Unlock()
	if over {
		_ = c.w.over() // logged; no caller is left to get it
	}
	return err
}

// CloseWrite closes the sending half, if the connection can.
func (c *hijacked) CloseWrite() error { return closeWrite(c.Conn) }

// upgraded is a proxy's connection to an upstream that has switched protocols. No answer marks its end: the
// upstream's close does.
type upgraded struct {
	io.ReadWriteCloser
	w *writer
}

// Read implements io.Reader.
func (u *upgraded) Read(b []byte) (int, error) {
	n, err := u.ReadWriteCloser.Read(b)
	if err == io.EOF {
		u.w.setLost(false)
	}
	return n, err
}

// Write implements io.Writer.
func (u *upgraded) Write(b []byte) (int, error) {
	u.w.piece(true)
	return u.ReadWriteCloser.Write(b)
}

// CloseWrite closes the sending half, if the connection can.
func (u *upgraded) CloseWrite() error { return closeWrite(u.ReadWriteCloser) }

func closeWrite(c any) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
