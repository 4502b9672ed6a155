package fencehttp

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/electd/elect/fence"
)

// lastWords is how long a request that was cut may still write, such as that it was.
const lastWords = time.Second

// writer is what an admitted request answers with, and knows when it has ended.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	pass    *fence.Pass
	cancel  context.CancelCauseFunc
	detach  func() bool // from the server's context
	log     *slog.Logger

	mu       sync.Mutex
	isCut    bool
	returned bool
	conn     *hijacked // nil: not hijacked
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.control.Flush() }

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error { return w.control.Flush() }

// SetReadDeadline is for http.ResponseController. It does not undo a cut.
func (w *writer) SetReadDeadline(t time.Time) error { return w.deadline(w.control.SetReadDeadline, t) }

// SetWriteDeadline is for http.ResponseController. It does not undo a cut.
func (w *writer) SetWriteDeadline(t time.Time) error {
	return w.deadline(w.control.SetWriteDeadline, t)
}

func (w *writer) deadline(set func(time.Time) error, t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut {
		return context.Cause(w.pass.Context())
	}
	return set(t)
}

// Hijack implements http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut {
		return nil, nil, context.Cause(w.pass.Context())
	}
	conn, buffered, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.detach()
	w.conn = &hijacked{Conn: conn, w: w}
	return w.conn, buffered, nil
}

// cut makes an end of what the client may still hold up.
func (w *writer) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	if w.conn != nil {
		_ = w.conn.Conn.Close()
		return
	}
	if w.returned {
		return // the connection is the server's again
	}
	now := time.Now()
	_ = w.control.SetReadDeadline(now) // of a writer without deadlines the handler must heed its context
	_ = w.control.SetWriteDeadline(now.Add(lastWords))
}

// handlerReturned ends the pass unless a hijacked connection goes on.
func (w *writer) handlerReturned(uncut func() bool) error {
	w.mu.Lock()
	w.returned = true
	over := w.conn == nil || w.conn.closed
	w.mu.Unlock()
	if !over {
		return nil
	}
	uncut()
	return w.end()
}

func (w *writer) end() error {
	err := w.pass.End()
	w.detach()
	w.cancel(context.Canceled)
	if err != nil {
		w.log.Warn("the mark may have been lost during a request", "token", w.pass.Token(), "error", err)
	}
	return err
}

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
		_ = c.w.end() // logged; there is nobody left to tell
	}
	return err
}

// CloseWrite closes the sending half, where the connection can.
func (c *hijacked) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
