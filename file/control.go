//go:build linux || darwin || freebsd

package file

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

const (
	controlName    = "control"
	controlNewName = "control.new"

	maxControl     = 4 << 10         // bytes of a request or an answer
	controlTimeout = 2 * time.Second // for a whole conversation, at the leader
	callTimeout    = 5 * time.Second // likewise, at the caller
	maxCallers     = 16              // conversations at a time
)

// controlRequest and controlAnswer are one line of JSON each. The caller sends first, and once. Token 0 means any
// leader.
type controlRequest struct {
	Verb  string      `json:"verb"` // resign
	Token fence.Token `json:"token"`
}

type controlAnswer struct {
	OK    bool        `json:"ok"`
	Error string      `json:"error,omitempty"`
	Token fence.Token `json:"token"` // of the process that answers
}

const (
	verbResign      = "resign"
	errorSuperseded = "superseded"
)

// control is the leader's side of the socket.
type control struct {
	listener *net.UnixListener
	token    fence.Token
	resign   func()
	shared   bool // with a group: the mode of the socket decides which users may call

	callers sync.WaitGroup
	slots   chan struct{}

	mu     sync.Mutex
	closed bool
	conns  map[*net.UnixConn]struct{}
}

// listen replaces the socket of an earlier leader with a new one. Only the holder of the lock calls it.
func (p *place) listen(token fence.Token, resign func()) (*control, error) {
	if err := unix.Unlinkat(p.dirfd(), controlNewName, 0); err != nil && err != unix.ENOENT {
		return nil, explain("unlink", p.path+"/"+controlNewName, err)
	}
	// Linux gives the file the mode of the socket. Until shareSocket sets the access, no other user may call.
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
	}}
	listener, err := private.Listen(context.Background(), "unix", socketPath(p.dir, p.path, controlNewName))
	if err != nil {
		return nil, explain("bind", p.path+"/"+controlName, err)
	}
	l := listener.(*net.UnixListener)
	// A socket that is left behind is harmless. One that is unlinked by its path might be that of the next leader.
	l.SetUnlinkOnClose(false)
	if err = p.shareSocket(controlNewName); err == nil {
		err = unix.Renameat(p.dirfd(), controlNewName, p.dirfd(), controlName)
	}
	if err != nil {
		_ = l.Close()
		return nil, explain("bind", p.path+"/"+controlName, err)
	}
	c := &control{
		listener: l, token: token, resign: resign, shared: p.access.mode != 0o600,
		slots: make(chan struct{}, maxCallers), conns: map[*net.UnixConn]struct{}{},
	}
	c.callers.Go(c.serve)
	return c, nil
}

func (c *control) serve() {
	for {
		conn, err := c.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptors left: the caller is served when there are some
			time.Sleep(Poll)
			continue
		}
		select {
		case c.slots <- struct{}{}:
			c.callers.Go(func() {
				defer func() { <-c.slots }()
				c.talk(conn)
			})
		default:
			_ = conn.Close()
		}
	}
}

// talk answers one caller.
func (c *control) talk(conn *net.UnixConn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(controlTimeout))
	if !c.enter(conn) {
		return
	}
	defer c.leave(conn)

	answer := controlAnswer{Token: c.token}
	var request controlRequest
	err := allowed(conn, c.shared)
	if err == nil {
		err = readLine(conn, &request)
	}
	switch {
	case err != nil:
		answer.Error = err.Error()
	case request.Verb != verbResign:
		answer.Error = fmt.Sprintf("unknown verb %q; want %s", request.Verb, verbResign)
	case request.Token != 0 && request.Token != c.token:
		answer.Error = errorSuperseded
	default:
		c.resign()
		answer.OK = true
	}
	if b, err := json.Marshal(answer); err == nil {
		_, _ = conn.Write(append(b, '\n'))
	}
}

func (c *control) enter(conn *net.UnixConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.conns[conn] = struct{}{}
	}
	return !c.closed
}

func (c *control) leave(conn *net.UnixConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// close ends the service. A caller whose request was read still gets its answer.
func (c *control) close() {
	_ = c.listener.Close()
	c.mu.Lock()
	c.closed = true
	for conn := range c.conns {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
	c.mu.Unlock()
	c.callers.Wait()
}

func readLine(r io.Reader, into any) error {
	line, err := bufio.NewReaderSize(r, maxControl).ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return fmt.Errorf("more than %d bytes; want one short line of JSON", maxControl)
	}
	if err != nil {
		return fmt.Errorf("no line of JSON: %w", err)
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("not the expected JSON: %w", err)
	}
	return nil
}

// Resign implements driver.Resigner, over the leader's control socket. It needs
// the permission to write it: that of the leader's user, of root, or of the
// group of the directory where that may write it.
func (e *Elector) Resign(ctx context.Context, token fence.Token) error {
	ctx, cancel := e.join(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path := e.path + "/" + controlName
	dir, err := openToRead(e.path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s does not exist", driver.ErrNoLeader, e.path)
	}
	if err != nil {
		return explainPlace(err)
	}
	defer dir.Close()

	conn, err := dial(ctx, dir)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return e.unanswered(fmt.Errorf("does not answer: %w", explain("connect", path, err)))
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callTimeout))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	b, err := json.Marshal(controlRequest{Verb: verbResign, Token: token})
	if err != nil {
		return err
	}
	var answer controlAnswer
	if _, err = conn.Write(append(b, '\n')); err == nil {
		err = readLine(conn, &answer)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		// The request waits in the socket of a leader that is stopped.
		return e.unanswered(fmt.Errorf("does not answer within %v; it may still resign when it wakes: %w", callTimeout, driver.ErrUnknownOutcome))
	case err != nil:
		return e.unanswered(fmt.Errorf("does not answer: %s: %w", path, err))
	case answer.OK:
		return nil
	case answer.Error == errorSuperseded:
		return fmt.Errorf("%w: token %v leads, not %v", driver.ErrSuperseded, answer.Token, token)
	}
	return fmt.Errorf("%s: the leader refused: %.200s", path, answer.Error)
}

// unanswered returns the error of a call that the leader did not answer. If there is a leader it contains err;
// otherwise it follows from the absence of one.
func (e *Elector) unanswered(err error) error {
	r := newReader(e.path, e.cfg.Logger)
	defer r.close()
	leader, _, readErr := r.leader()
	switch {
	case readErr != nil:
		return readErr
	case leader == nil:
		return fmt.Errorf("%w: %s", driver.ErrNoLeader, e.path)
	}
	return fmt.Errorf("%s leads with token %v and %w", leader.ID, leader.Token, err)
}
