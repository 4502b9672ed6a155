package zookeeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/store/internal/queue"
)

// line is a client of ZooKeeper, which has one session at a time.
//
// The client knows no contexts, so a request that is given up goes on in its goroutine until the connection ends. It
// does not tell what it was granted, and waits long for a server that hangs: the connections that it dials here do
// both.
type line struct {
	conn   *zk.Conn
	events <-chan zk.Event // closed when the client has ended
	single bool            // the client does not open a second session in place of one that has expired
	ttl    time.Duration   // that is asked for
	ready  chan struct{}   // closed when there was a session
	failed chan struct{}   // closed when no server could be connected to, the first time

	user, password string
	login          chan struct{} // has room for one: a login that is under way
	known          atomic.Bool   // the user has logged in

	requests sync.WaitGroup // that may not have returned

	mu      sync.Mutex
	session uint64
	granted time.Duration
	over    bool  // it dials no more
	trouble error // of the last connection
	link    *link // the present or last connection
	watched map[string]*watched
}

// silence is how long a server may leave requests unanswered before another one is tried.
const silence = time.Second

// dial makes a line, which connects in the background until it is closed.
func (a *connection) dial(ttl time.Duration, single bool) (*line, error) {
	l := &line{
		single: single, ttl: ttl, ready: make(chan struct{}), failed: make(chan struct{}), user: a.user, password: a.password,
		login: make(chan struct{}, 1), watched: map[string]*watched{},
	}
	names := &hosts{all: a.servers, failed: l.failed}
	dialer := func(_, address string, timeout time.Duration) (net.Conn, error) {
		return l.dial(a, names, address, timeout)
	}
	var err error
	l.conn, l.events, err = zk.Connect(a.servers, ttl, zk.WithDialer(dialer), zk.WithHostProvider(names), zk.WithLogger(silent{}),
		zk.WithLogInfo(false), zk.WithMaxConnBufferSize(128<<10), zk.WithMaxBufferSize(16<<20))
	return l, err
}

// silent is the client's logger.
type silent struct{}

func (silent) Printf(string, ...any) {}

// dial makes one connection.
func (l *line) dial(a *connection, names *hosts, address string, timeout time.Duration) (net.Conn, error) {
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	if over {
		return nil, net.ErrClosed
	}
	d := &net.Dialer{Timeout: timeout}
	var c net.Conn
	var err error
	if a.tls == nil {
		c, err = d.Dial("tcp", address)
	} else {
		cfg := a.tls.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName = names.name(address)
		}
		c, err = tls.DialWithDialer(d, "tcp", address, cfg)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.trouble = explained(err)
		return nil, err
	}
	if l.over {
		c.Close()
		return nil, net.ErrClosed
	}
	l.trouble = nil
	l.link = &link{Conn: c, line: l, by: time.Now().Add(max(l.ttl/3, silence))}
	return l.link, nil
}

// answered notes the answer to a connect request.
func (l *line) answered(session uint64, granted time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case session == 0: // it has expired
		l.over = l.over || l.single
	case l.session == 0:
		l.session, l.granted = session, granted
		close(l.ready)
	default:
		l.session = session
	}
}

// unanswered notes why a connection has ended before that.
func (l *line) unanswered(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = explained(err)
}

// explained says what a server may mean that has ended a connection without a word.
func explained(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the server has ended the connection (%w): it does not serve, has too many connections (maxClientCnxns), or TLS is on at one side only (tls=on)", err)
	}
	return err
}

// opened waits until there was a session, and the user has logged in. After that the client logs in by itself.
func (l *line) opened(ctx context.Context) error {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return l.unopened()
	}
	if l.user == "" || l.known.Load() {
		return nil
	}
	select {
	case l.login <- struct{}{}:
		defer func() { <-l.login }()
	case <-ctx.Done():
		return l.unopened()
	}
	if l.known.Load() {
		return nil
	}
	_, err := ask(ctx, l, func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, c.AddAuth("digest", []byte(l.user+":"+l.password))
	})
	l.known.Store(err == nil)
	return err
}

// tried waits until there was a session, or no server could be connected to.
func (l *line) tried(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-l.failed:
	case <-ctx.Done():
	}
	select {
	case <-l.ready:
		return nil
	default:
		return l.unopened()
	}
}

// unopened says why there is no session.
func (l *line) unopened() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble != nil {
		return l.trouble
	}
	return errors.New("no server has opened a session yet")
}

// granting is the session, and how long the server lets it live without a sign of life.
func (l *line) granting() (session uint64, granted time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.granted
}

// connected reports whether a request could be sent now, or will never be.
func (l *line) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over || l.conn.State() == zk.StateHasSession
}

// close ends the session, and returns when the client has ended. If no server hears of it, the session expires.
func (l *line) close() error {
	l.conn.Close() // it takes three seconds at most
	l.mu.Lock()
	l.over = true
	if l.link != nil {
		l.link.Close()
	}
	l.mu.Unlock()
	for range l.events {
	}
	l.requests.Wait()
	return nil
}

// call makes a request when there was a session. It returns when ctx ends, and then its outcome is not known.
func call[T any](ctx context.Context, l *line, do func(*zk.Conn) (T, error)) (result T, err error) {
	if err := l.opened(ctx); err != nil {
		return result, fmt.Errorf("%w: %w", queue.ErrNotSent, err)
	}
	return ask(ctx, l, do)
}

// ask makes a request.
func ask[T any](ctx context.Context, l *line, do func(*zk.Conn) (T, error)) (result T, err error) {
	l.mu.Lock()
	k := l.link
	begun := l.begin()
	l.mu.Unlock()
	if !begun {
		return result, queue.ErrGone
	}
	k.asked()
	type answer struct {
		result T
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		defer l.requests.Done()
		result, err := do(l.conn)
		answers <- answer{result, err}
	}()
	select {
	case a := <-answers:
		return a.result, l.plain(a.err)
	case <-ctx.Done():
		k.givenUp()
		return result, context.Cause(ctx)
	}
}

// begin counts a request, unless the line is over. The lock is held.
func (l *line) begin() bool {
	if !l.over {
		l.requests.Add(1)
	}
	return !l.over
}

// plain translates the error of a request.
func (l *line) plain(err error) error {
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over, errors.Is(err, zk.ErrSessionExpired) && l.single:
		return queue.ErrGone
	case isOne(err, zk.ErrNoServer, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrBadArguments, zk.ErrAuthFailed):
		if l.trouble != nil && errors.Is(err, zk.ErrNoServer) {
			err = l.trouble
		}
		return fmt.Errorf("%w: %w", queue.ErrNotSent, err)
	}
	return err
}

// link is one connection to a server.
type link struct {
	net.Conn
	line    *line
	head    []byte                    // of the answer to the connect request; it is of the client's reading goroutine
	by      time.Time                 // by when that answer has to be here
	waiting atomic.Pointer[time.Time] // since when a request waits and nothing comes; nil: none does
}

// answerHead is how much of that answer tells the timeout and the session: after the length and the version.
const answerHead = 20

// Read implements net.Conn.
func (k *link) Read(p []byte) (int, error) {
	n, err := k.Conn.Read(p)
	if n > 0 {
		k.waiting.Store(nil)
	}
	if more := min(n, answerHead-len(k.head)); more > 0 {
		if k.head = append(k.head, p[:more]...); len(k.head) == answerHead {
			granted := time.Duration(binary.BigEndian.Uint32(k.head[8:])) * time.Millisecond
			k.line.answered(binary.BigEndian.Uint64(k.head[12:]), granted)
		}
	}
	if err != nil && len(k.head) < answerHead {
		k.line.unanswered(err)
	}
	return n, err
}

// SetReadDeadline implements net.Conn. The client would wait for the first answer for much longer than a session lives.
func (k *link) SetReadDeadline(t time.Time) error {
	if len(k.head) < answerHead && (t.IsZero() || t.After(k.by)) {
		t = k.by
	}
	return k.Conn.SetReadDeadline(t)
}

func (k *link) asked() {
	if k != nil {
		now := time.Now()
		k.waiting.CompareAndSwap(nil, &now)
	}
}

// givenUp ends a connection on which nothing comes: the client goes on with another server, in the same session.
func (k *link) givenUp() {
	if k == nil {
		return
	}
	if since := k.waiting.Load(); since != nil && time.Since(*since) >= silence {
		k.Conn.Close()
	}
}
