package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/electd/elect/peer/internal/wire"
)

// verbStream makes the connection of a client, on which nothing else is under way, a stream of a protocol that is not
// known here. No frame follows the answer.
const verbStream = "stream"

const (
	// maxStreams is how many streams are open at a time.
	maxStreams = 8192
	// streamIdle is when the kernel gives a stream up on which nothing comes through. Its protocol has shorter times.
	streamIdle = 15 * time.Second
)

// streamRequest is the body of a request for a stream.
type streamRequest struct {
	Protocol string `json:"protocol"`
}

// stream passes the connection on, until that returns. The election's end closes it.
func (c *guestCalls) stream(q *wire.Request) {
	refuse := func(code, says string) { _ = c.reply(&wire.Response{Call: q.Call, Code: code, Error: says}) }
	c.mu.Lock()
	busy := len(c.calls) > 0
	c.mu.Unlock()
	if busy {
		refuse(codeFrame, "requests are in progress on the connection; want one of its own for a stream")
		return
	}
	var body streamRequest
	if err := json.Unmarshal(q.Body, &body); err != nil {
		refuse(codeFrame, "the body of stream does not parse; want a JSON object")
		return
	}
	e := c.l.election(q.Election)
	if e == nil {
		r := c.l.noElection(q.Election)
		refuse(string(r.Code), r.Says)
		return
	}
	defer e.busy.Done()
	var take func(net.Conn)
	says := &CallError{Code: codeFrame, Says: "this node takes no streams"}
	if e.cfg.Stream != nil {
		take, says = e.cfg.Stream(c.from, body.Protocol)
	}
	if says != nil {
		refuse(says.Code, says.Says)
		return
	}
	l := c.l
	l.mu.Lock()
	full := l.streams >= maxStreams
	if !full { // it counts neither as a client nor as one that may be a stranger
		l.streams, l.clients, l.accepted = l.streams+1, l.clients-1, l.accepted-1
	}
	l.mu.Unlock()
	if full {
		refuse(codeBusy, fmt.Sprintf("%d streams are open already", maxStreams))
		return
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams, l.clients, l.accepted = l.streams-1, l.clients+1, l.accepted+1
	}()
	defer context.AfterFunc(e.ctx, func() { _ = c.s.raw.Close() })()
	tune(c.s.raw, streamIdle)
	c.writing.Lock()
	c.streams = true
	err := c.s.put(&wire.Frame{Response: &wire.Response{Call: q.Call}})
	if err == nil {
		err = c.s.raw.SetDeadline(time.Time{})
	}
	c.writing.Unlock()
	if err == nil {
		take(c.s.Conn)
	}
}

// OpenStream opens a stream with a node, which the answer of the node begins. Errors are as those of [Dial] and
// [Client.Call]. ctx bounds the call only.
func OpenStream(ctx context.Context, cfg ClientConfig, protocol string) (nc net.Conn, err error) {
	cfg.Hello = visitor(cfg.Hello, wire.ClientOf)
	cfg.Hello.ID = ""
	body, err := json.Marshal(streamRequest{protocol})
	if err != nil {
		return nil, err
	}
	s, err := enter(ctx, cfg.Dial, cfg.Addr, &cfg.Hello, cfg.TLS, cfg.Expect, 0)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.raw.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			nc = nil
			_ = s.raw.Close()
		}
	}()
	if err := s.put(&wire.Frame{Request: &wire.Request{Call: 1, Verb: verbStream, Body: body, Election: cfg.About}}); err != nil {
		return nil, err
	}
	s.frames.SetMax(wire.MaxFrame)
	f, err := s.frames.Next()
	switch r := f.Response; {
	case err != nil:
		return nil, err
	case f.Refusal != nil:
		return nil, f.Refusal
	case r == nil:
		return nil, errors.New("it did not answer the request for a stream")
	case r.Code == string(wire.CodeElection):
		return nil, &wire.Refusal{Code: wire.CodeElection, Says: r.Error, Final: true}
	case r.Code != "" || r.Error != "":
		return nil, &CallError{Code: r.Code, Says: r.Error}
	}
	tune(s.raw, streamIdle)
	return s.Conn, nil
}
