//go:build linux

package register

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/test/chaos/lives"
)

// Patience is how long a client waits for an answer.
const Patience = 5 * time.Second

// ErrNotCalled is the error of an operation that was not begun, because there is no server. It is
// not recorded.
var ErrNotCalled = errors.New("register: there is no connection")

// Answer is what the server said.
type Answer struct {
	Stale   bool           // it was refused
	Highest int64          // token that was shown with a write
	Seen    string         // of a read or a peek: the value, empty before the first
	Last    fence.Sequence // of a stream: the last that was accepted
}

// Client asks the register of one run, and records its calls and the answers.
type Client struct {
	name   string
	socket string
	clock  lives.Clock
	log    *os.File
	n      int64
	torn   error    // the log may end with half a line: nothing more is asked
	conn   net.Conn // nil before the first operation, and after an error
	in     *bufio.Reader
}

// Open makes a client of the run in dir. The name is that of its log, and must be
// new: [Name] makes one.
func Open(dir, name string) (*Client, error) {
	logs := filepath.Join(dir, ops)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(logs, name+".ndjson"), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &Client{name: name, socket: filepath.Join(dir, Socket), clock: lives.NewClock(), log: log}, nil
}

// Name is a unique name for a client of a run: from a base name, this process, and the time.
func Name(what string) string { return fmt.Sprintf("%s-%d-%d", what, os.Getpid(), lives.Now()) }

// Close closes connection and log.
func (c *Client) Close() error {
	c.hangUp()
	return c.log.Close()
}

// Write writes a value that was never written before, with the token of a leader.
//
// Of all operations: the end of ctx, and [Patience], end the wait. After an error other than
// ErrNotCalled the operation may have been carried out, or will be.
func (c *Client) Write(ctx context.Context, token fence.Token, value string) (Answer, error) {
	return c.do(ctx, line{Op: Write, Token: int64(token), Value: value})
}

// WriteKey is Write to the register of a key of a group.
func (c *Client) WriteKey(ctx context.Context, key int64, token fence.Token, value string) (Answer, error) {
	return c.do(ctx, line{Op: Write, Key: key, Token: int64(token), Value: value})
}

// Read reads the fenced register.
func (c *Client) Read(ctx context.Context) (Answer, error) { return c.do(ctx, line{Op: Read}) }

// Peek reads the twin without a fence.
func (c *Client) Peek(ctx context.Context) (Answer, error) { return c.do(ctx, line{Op: Peek}) }

// Stream sends the next sequence of a leader.
func (c *Client) Stream(ctx context.Context, s fence.Sequence) (Answer, error) {
	return c.do(ctx, line{Op: Stream, Token: int64(s.Token), Position: s.Position})
}

// do does one operation: it is recorded, sent, answered, recorded.
func (c *Client) do(ctx context.Context, l line) (Answer, error) {
	l.Client, l.N = c.name, c.n+1
	err := cmp.Or(c.torn, context.Cause(ctx), l.check())
	if err == nil {
		err = c.connect()
	}
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrNotCalled, err)
	}
	c.n++
	called := l
	called.Call = c.clock.Now()
	if err := c.note(called); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrNotCalled, err)
	}
	a, err := c.ask(ctx, l)
	returned := line{Client: c.name, N: c.n, Return: c.clock.Now(), Result: a.Result, Highest: a.Highest, Seen: a.Seen, Last: a.Last}
	if err != nil {
		c.hangUp()
		returned.Result, returned.Why = Failed, err.Error()
	}
	if err := errors.Join(err, c.note(returned)); err != nil {
		return Answer{}, fmt.Errorf("register: %s %d: %w", l.Op, l.N, err)
	}
	return Answer{Stale: a.Result == Stale, Highest: a.Highest, Seen: a.Seen, Last: a.Last}, nil
}

// note writes a line to the log, by one call.
func (c *Client) note(l line) error {
	_, err := c.log.Write(l.bytes())
	c.torn = err
	return err
}

func (c *Client) connect() error {
	if c.conn != nil {
		return nil
	}
	return reach(c.socket, func(address string) error {
		conn, err := net.DialTimeout("unix", address, Patience)
		if err != nil {
			return err
		}
		c.conn, c.in = conn, bufio.NewReaderSize(conn, lineSize)
		return nil
	})
}

func (c *Client) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn, c.in = nil, nil
	}
}

func (c *Client) ask(ctx context.Context, l line) (a line, err error) {
	conn := c.conn
	_ = conn.SetDeadline(time.Now().Add(Patience))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := c.conn.Write(l.bytes()); err != nil {
		return a, err
	}
	text, err := c.in.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	if a, err = parse(text); err != nil {
		return a, err
	}
	switch {
	case a.Result == Failed:
		return a, errors.New(a.Why)
	case a.N != l.N:
		return a, fmt.Errorf("an answer to request %d", a.N)
	}
	return a, nil
}
