package sdnotify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
)

// Supported reports whether this system has such sockets.
const Supported = true

// Send sends a message to the socket of a manager, now or not at all: to a manager that does not read, nothing goes.
func Send(socket, message string) error {
	if socket == "" || socket[0] != '/' && socket[0] != '@' {
		return fmt.Errorf("%s is %q; want an absolute path, or @NAME", EnvSocket, socket)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, []byte(message), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: socket}); err != nil {
		return fmt.Errorf("%s %s: %w", EnvSocket, socket, err)
	}
	return nil
}

// Socket receives the messages of a service.
type Socket struct {
	conn *net.UnixConn
	buf  [maxDatagram + 1]byte
	last time.Time // when the last message was read
}

// Listen makes a socket with a name in the kernel, not in a directory, so that a service that has changed its user or
// its root reaches it. Whom Next hears does not depend on who knows the name.
func Listen() (*Socket, error) {
	credentials := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); failed != nil {
			return failed
		}
		return os.NewSyscallError("setsockopt", err)
	}}
	conn, err := credentials.ListenPacket(context.Background(), "unixgram", "@elect/notify/"+rand.Text())
	if err != nil {
		return nil, err
	}
	return &Socket{conn: conn.(*net.UnixConn)}, nil
}

// Name is the value of NOTIFY_SOCKET for the service.
func (s *Socket) Name() string { return s.conn.LocalAddr().String() }

// Close closes the socket. Next then returns [net.ErrClosed].
func (s *Socket) Close() error { return s.conn.Close() }

// pace is the shortest time between two messages: a service that floods the socket waits, and not this process.
const pace = time.Millisecond

// ErrStranger is the error of Next for a message of a process that may not speak.
var ErrStranger = errors.New("a message from another user's process was dropped")

// Next returns the next message, or [os.ErrDeadlineExceeded] if there is none by then; zero is no limit. It hears
// processes of this user and of root, who could kill the service anyway, and those that descend from this process. After
// [ErrStranger], and after errors of [Parse], the caller goes on.
//
// There is room for credentials alone. So the kernel closes descriptors that come with a message, and that is what
// the sender of BARRIER=1 waits for.
func (s *Socket) Next(by time.Time) (Message, error) {
	if wait := time.Until(s.last.Add(pace)); wait > 0 {
		time.Sleep(wait)
	}
	if err := s.conn.SetReadDeadline(by); err != nil {
		return Message{}, err
	}
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, m, _, _, err := s.conn.ReadMsgUnix(s.buf[:], oob)
	if err != nil {
		return Message{}, err
	}
	s.last = time.Now()
	if strings.TrimSpace(string(s.buf[:n])) == "BARRIER=1" {
		return Message{}, nil // its sender may have ended meanwhile
	}
	if !mayspeak(oob[:m]) {
		return Message{}, ErrStranger
	}
	return Parse(s.buf[:n])
}

// mayspeak reports whether the sender with these credentials is heard.
func mayspeak(oob []byte) bool {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(all) == 0 {
		return false
	}
	from, err := unix.ParseUnixCredentials(&all[0])
	return err == nil && (from.Uid == 0 || int(from.Uid) == os.Geteuid() || descends(int(from.Pid)))
}

// descends reports whether a process descends from this one. The supervisors between are subreapers, so that orphans
// do, too.
func descends(pid int) bool {
	for range 1 << 10 {
		if pid == os.Getpid() {
			return true
		}
		s, ok := proc.Read(pid)
		if !ok || s.Parent == 0 {
			return false
		}
		pid = s.Parent
	}
	return false
}
