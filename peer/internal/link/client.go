package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// ClientConfig is the configuration of a client.
type ClientConfig struct {
	Addr   string                                                   // host and port
	Hello  wire.Hello                                               // Caller is set by Dial
	About  string                                                   // the name of the election in question
	TLS    *certs.Identity                                          // nil: plain TCP
	Expect protocol.NodeID                                          // the node that should answer; "" is any node
	Dial   func(ctx context.Context, addr string) (net.Conn, error) // nil is TCP
}

// Client is a connection with one node, for requests. Its methods may be called
// by any number of goroutines.
type Client struct {
	s     *stream
	about string
	done  chan struct{} // closed when the reader has ended

	mu    sync.Mutex
	last  uint64
	calls map[uint64]*asked
	err   error // why the reader has ended

	writing sync.Mutex // held only for the write itself, which has a deadline
}

// asked is a request and its answers.
type asked struct {
	answers chan *wire.Response
	over    chan struct{} // closed when no answers are read any more
}

// CallError is an error in a node's answer.
type CallError struct {
	Code string
	Says string
}

// Error implements error.
func (e *CallError) Error() string { return e.Says }

// Dial connects with a node. An error that is a *wire.Refusal is either the node's or this side's. ctx bounds the
// dialling only.
func Dial(ctx context.Context, cfg ClientConfig) (*Client, error) {
	cfg.Hello = visitor(cfg.Hello, wire.ClientOf)
	cfg.Hello.ID = ""
	s, err := enter(ctx, cfg.Dial, cfg.Addr, &cfg.Hello, cfg.TLS, cfg.Expect, 0)
	if err != nil {
		return nil, err
	}
	s.frames.SetMax(wire.MaxFrame)
	c := &Client{s: s, about: cfg.About, done: make(chan struct{}), calls: make(map[uint64]*asked)}
	go c.read()
	return c, nil
}

// visitor is the Hello of a caller that is not a host.
func visitor(h wire.Hello, caller wire.Caller) wire.Hello {
	h.Caller, h.Dir, h.Starts = caller, protocol.DirID{}, 0
	return h
}

// enter dials and does the handshake up to the Welcome, for callers that are not nodes.
func enter(ctx context.Context, dial func(context.Context, string) (net.Conn, error), addr string,
	hello *wire.Hello, identity *certs.Identity, expect protocol.NodeID, idle time.Duration,
) (*stream, error) {
	if dial == nil {
		dial = dialTCP
	}
	if hello.Version == 0 {
		hello.Version, hello.Oldest = wire.Version, wire.Oldest
	}
	name := string(expect)
	if name == "" {
		name = "the node"
	}
	fail := func(err error) error {
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return fmt.Errorf("%s at %s: %w", name, addr, err)
	}
	raw, err := dial(ctx, addr)
	if err != nil {
		return nil, fail(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	if idle <= 0 {
		idle = defaultIdle
	}
	tune(raw, idle)
	s, err := call(raw, identity, expect)
	if err == nil {
		var mine bool
		if _, mine, err = greet(s, hello, expect); mine {
			if r, ok := errors.AsType[*wire.Refusal](err); ok {
				s.refuse(r)
			}
		}
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, fail(err)
	}
	_ = raw.SetDeadline(time.Time{})
	return s, nil
}

// Call sends a request and passes the body of each answer to each, which may be nil, in order. It returns when the
// last answer has come, each returns an error, the connection ends, or ctx does. An error from the node is a
// *CallError, or a *wire.Refusal if the node takes no part in the election.
func (c *Client) Call(ctx context.Context, verb string, token uint64, body any, each func(json.RawMessage) error) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	mine := &asked{answers: make(chan *wire.Response, 16), over: make(chan struct{})}
	c.mu.Lock()
	c.last++
	number := c.last
	c.calls[number] = mine
	c.mu.Unlock()
	over := false
	defer func() {
		close(mine.over)
		c.mu.Lock()
		delete(c.calls, number)
		c.mu.Unlock()
		if !over {
			_ = c.put(&wire.Request{Call: number, Verb: verbCancel})
		}
	}()
	if err := c.put(&wire.Request{Call: number, Verb: verb, Token: token, Body: data, Election: c.about}); err != nil {
		return err
	}
	take := func(r *wire.Response) (bool, error) {
		switch {
		case r.Code == string(wire.CodeElection):
			return true, &wire.Refusal{Code: wire.CodeElection, Says: r.Error, Final: true}
		case r.Code != "" || r.Error != "":
			return true, &CallError{Code: r.Code, Says: r.Error}
		case each != nil && len(r.Body) > 0:
			if err := each(r.Body); err != nil {
				return true, err
			}
		}
		return !r.More, nil
	}
	for {
		select {
		case r := <-mine.answers:
			if end, err := take(r); end {
				over = !r.More
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			for { // answers that came before the end count
				select {
				case r := <-mine.answers:
					if end, err := take(r); end {
						return err
					}
				default:
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.err
				}
			}
		}
	}
}

func (c *Client) put(q *wire.Request) error {
	buf, err := wire.Append(nil, &wire.Frame{Request: q})
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.s.raw.SetWriteDeadline(time.Now().Add(replyTime))
	_, err = c.s.Write(buf)
	return err
}

// read distributes answers until the connection ends.
func (c *Client) read() {
	defer close(c.done)
	for {
		f, err := c.s.frames.Next()
		if err == nil && f.Refusal != nil {
			err = f.Refusal
		}
		if err != nil {
			c.mu.Lock()
			c.err = fmt.Errorf("the connection ended: %w", err)
			c.mu.Unlock()
			return
		}
		if f.Response == nil {
			continue
		}
		c.mu.Lock()
		to := c.calls[f.Response.Call]
		c.mu.Unlock()
		if to == nil {
			continue // cancelled
		}
		select {
		case to.answers <- f.Response:
		case <-to.over:
		}
	}
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and waits for what runs.
func (c *Client) Close() error {
	err := c.s.raw.Close()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
