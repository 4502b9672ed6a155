package fencehttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/fence"
)

// lastWords is how long a cut request may still write an answer.
const lastWords = time.Second

// writer is the http.ResponseWriter of an admitted request. It keeps the handler behind from setting the header
// [ResultHeader], and knows when an admitted request has ended.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	http1   bool
	begun   bool // the header was written
	own     bool // the answer is the guard's

	// The other fields are zero for a request that needs no token.
	pass   *fence.Pass
	cancel context.CancelCauseFunc
	detach func() bool   // from the server's context
	linger time.Duration // after the upstream was lost
	log    *slog.Logger

	mu       sync.Mutex
	isCut    bool
	returned bool
	lost     bool      // the upstream may still be working, and its end will not be seen
	conn     *hijacked // nil: not hijacked
	coming   bool      // the request's body is being forwarded
	last     time.Time // when the last part of it was forwarded
	left     time.Time // when the client was gone
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		w.disown()
	} else {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements io.ReaderFrom, so that the server may send a file directly.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, r)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.begin()
	return w.control.Flush()
}

// begin runs before the header is written.
func (w *writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	w.disown()
	if w.http1 && w.pass != nil && w.pass.Context().Err() != nil {
		// The connection's reading side cannot serve another request: the server takes the deadline of a cut for the end of
		// the client.
		w.Header().Set("Connection", "close")
	}
}

// disown removes the guard's header from an answer that is not the guard's.
func (w *writer) disown() {
	if w.own {
		return
	}
	for name := range w.Header() {
		if bare, _ := strings.CutPrefix(name, http.TrailerPrefix); len(bare) == len(ResultHeader) && strings.EqualFold(bare, ResultHeader) {
			delete(w.Header(), name)
		}
	}
}

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
	if w.pass == nil {
		return w.control.Hijack()
	}
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

// cut ends what the client may still delay.
func (w *writer) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	if w.conn != nil {
		_ = w.conn.Conn.Close()
		return
	}
	if w.returned {
		return // the server has the connection again
	}
	now := time.Now()
	_ = w.control.SetReadDeadline(now) // if the writer has no deadlines the handler must watch its context
	_ = w.control.SetWriteDeadline(now.Add(lastWords))
}

// finish runs before the server ends the answer.
func (w *writer) finish() {
	w.begin()  // an empty answer
	w.disown() // in trailers
}

// setLost sets whether the upstream may still be working when the handler has returned.
func (w *writer) setLost(lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = lost
}

// handlerReturned ends the pass unless a hijacked connection goes on.
func (w *writer) handlerReturned(uncut func() bool) error {
	w.mu.Lock()
	w.returned = true
	conn := w.conn
	over := conn == nil || conn.closed
	w.mu.Unlock()
	if conn == nil {
		w.finish()
	}
	if !over {
		return nil
	}
	uncut()
	return w.over()
}

// piece records that a part of a request's body was forwarded, or of what a client sends on a connection that has
// switched protocols, and whether more may come.
func (w *writer) piece(more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.coming = time.Now(), more
}

// gone records that the client is gone.
func (w *writer) gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = time.Now()
}

func (w *writer) isComing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.coming
}

// over ends the pass: at once if the upstream has answered; if it was lost, when [Config.Lost] has passed.
func (w *writer) over() error {
	w.mu.Lock()
	lost := w.lost
	w.mu.Unlock()
	ctx := w.pass.Context()
	cut, left := ctx.Err() != nil, w.linger
	if cut {
		left = w.owed()
	}
	if !lost || left <= 0 {
		return w.end()
	}
	w.detach()
	end := sync.OnceFunc(func() { _ = w.end() }) // logged; no caller is left to get it
	timer := time.AfterFunc(left, end)
	if !cut {
		context.AfterFunc(ctx, func() {
			if left := w.owed(); left > 0 {
				timer.Reset(left)
				return
			}
			timer.Stop()
			end()
		})
	}
	return nil
}

// owed is how long a request still counts as in flight after its context has ended. If a greater token has ended it,
// the parts that were forwarded before that token came have had their time ([fence.GuardConfig.Drain]), and later
// ones have not. If its client was gone it has had [Config.Linger], which may be less than the time of a request.
func (w *writer) owed() time.Duration {
	w.mu.Lock()
	since, left := w.last, w.left
	w.mu.Unlock()
	if !errors.Is(context.Cause(w.pass.Context()), fence.ErrStale) {
		if left.IsZero() { // the handler has ended it
			return 0
		}
		if left.After(since) {
			since = left
		}
	} else if !since.After(w.pass.Told()) {
		return 0
	}
	return w.linger - time.Since(since)
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
