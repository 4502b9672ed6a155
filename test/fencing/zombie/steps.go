//go:build linux

package zombie

import (
	"context"
	"net"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Steps counts what a leader does at its resource, and freezes its process in front of
// one of them. Its methods are safe for concurrent use.
type Steps struct {
	mu    sync.Mutex // held while the process stands still: disarm runs before that, or after
	left  int64      // steps until the process is frozen; negative: never
	count int64
}

// arm makes the process freeze before step at, from 0 and from now on; never if at is
// negative.
func (s *Steps) arm(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count, s.left = 0, at
}

// disarm makes the process freeze no more, and returns how many steps there were.
func (s *Steps) disarm() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = -1
	return s.count
}

// Step is one step. The whole process may be stopped in it, as by SIGSTOP, until
// another lets it go on.
func (s *Steps) Step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if s.left < 0 {
		return
	}
	s.left--
	if s.left < 0 {
		Freeze()
	}
}

// Freeze stops this process, until another one resumes it. The signal goes to the calling thread, which therefore does
// nothing more before it takes effect.
func Freeze() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		panic(err)
	}
}

// Dial connects as net.Dialer does. Data written to the connection is a step before it is sent, and
// data read is one after it has come.
func (s *Steps) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.Step()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &steppedConn{Conn: conn, steps: s}, nil
}

type steppedConn struct {
	net.Conn
	steps *Steps
}

func (c *steppedConn) Write(b []byte) (int, error) {
	c.steps.Step()
	return c.Conn.Write(b)
}

func (c *steppedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.steps.Step()
	return n, err
}
