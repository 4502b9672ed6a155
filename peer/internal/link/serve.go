package link

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// verbCancel cancels the request with the same call number. The Link answers it by ending the request's context.
const verbCancel = "cancel"

// Codes of responses that the Link itself gives.
const (
	codeBusy  = "busy"
	codeFrame = "frame"
)

// guestCalls are the requests of one client that are in progress.
type guestCalls struct {
	l    *Link
	s    *stream
	from Caller
	ctx  context.Context
	work sync.WaitGroup

	mu    sync.Mutex
	calls map[uint64]context.CancelFunc

	writing sync.Mutex // held only for the write itself, which has a deadline
	streams bool       // guarded by writing: the connection is a stream, and no frames are written
}

// receiveClient answers a client until it closes. It returns a refusal for it.
func (l *Link) receiveClient(s *stream, h *wire.Hello) *wire.Refusal {
	l.mu.Lock()
	many := l.clients >= maxClients
	if !many {
		l.clients++
	}
	l.mu.Unlock()
	if many {
		return &wire.Refusal{Code: wire.CodeBusy, Says: fmt.Sprintf("%d clients are connected already; want at most %d, observers, operators and members of groups that are no peers together", maxClients, maxClients)}
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.clients--
	}()
	if !l.greetGuest(s, h) {
		return nil
	}
	from := Caller{Addr: s.addr(), Program: h.Program}
	if from.Role, from.Name = certs.RoleOf(s.id); from.Role == "" {
		from.ID = protocol.NodeID(s.id)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	c := &guestCalls{l: l, s: s, from: from, ctx: ctx, calls: make(map[uint64]context.CancelFunc)}
	l.mu.Lock()
	l.callers[c] = struct{}{}
	l.mu.Unlock()
	c.read()
	l.mu.Lock()
	delete(l.callers, c)
	l.mu.Unlock()
	cancel()
	_ = s.raw.Close()
	c.work.Wait()
	return nil
}

// read reads requests until the connection ends.
func (c *guestCalls) read() {
	for {
		f, err := c.s.frames.Next()
		if err != nil || f.Request == nil {
			return
		}
		q := f.Request
		if q.Verb == verbCancel {
			c.mu.Lock()
			if cancel := c.calls[q.Call]; cancel != nil {
				cancel()
			}
			c.mu.Unlock()
			continue
		}
		if q.Verb == verbStream {
			c.stream(q)
			return
		}
		c.mu.Lock()
		taken, many := c.calls[q.Call] != nil, len(c.calls) >= maxCalls
		var ctx context.Context
		if !taken && !many {
			ctx, c.calls[q.Call] = context.WithCancel(c.ctx)
		}
		c.mu.Unlock()
		switch {
		case taken:
			return // its answers could not be told apart
		case many:
			_ = c.reply(&wire.Response{Call: q.Call, Code: codeBusy, Error: fmt.Sprintf("%d requests are in progress on this connection", maxCalls)})
		default:
			c.work.Go(func() { c.serve(ctx, q) })
		}
	}
}

// serve starts the answer to one request.
func (c *guestCalls) serve(ctx context.Context, q *wire.Request) {
	var mu sync.Mutex
	answered := false
	defer func() {
		c.mu.Lock()
		c.calls[q.Call]()
		delete(c.calls, q.Call)
		c.mu.Unlock()
	}()
	e := c.l.election(q.Election)
	if e == nil || e.cfg.Serve == nil {
		if e != nil {
			e.busy.Done()
		}
		r := c.l.noElection(q.Election)
		_ = c.reply(&wire.Response{Call: q.Call, Code: string(r.Code), Error: r.Says})
		return
	}
	defer e.busy.Done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(e.ctx, stop)()
	e.cfg.Serve(ctx, c.from, q, func(r *wire.Response) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		answer := *r
		answer.Call = q.Call
		mu.Lock()
		answered = answered || !r.More
		mu.Unlock()
		return c.reply(&answer)
	})
	mu.Lock()
	silent := !answered
	mu.Unlock()
	if silent && ctx.Err() == nil {
		_ = c.reply(&wire.Response{Call: q.Call, Code: codeFrame, Error: fmt.Sprintf("%q was not answered", q.Verb)})
	}
}

// end tells the client why it is no longer answered, and closes.
func (c *guestCalls) end(r *wire.Refusal) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.streams {
		_ = c.s.raw.Close()
		return
	}
	c.s.refuse(r)
}

// reply writes one response.
func (c *guestCalls) reply(r *wire.Response) error {
	buf, err := wire.Append(nil, &wire.Frame{Response: r})
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.s.raw.SetWriteDeadline(time.Now().Add(replyTime))
	if _, err := c.s.Write(buf); err != nil {
		_ = c.s.raw.Close() // the reader ends, and with it everything else
		return err
	}
	return nil
}
