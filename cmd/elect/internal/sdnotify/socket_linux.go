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

// Supported reports whether a Socket and Send work on this system.
const Supported = true

// Send sends a message to the socket of a manager, now or not at all. It fails if the manager does not read.
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

// Listen makes a socket with an abstract name, not a path, so that a service that has changed its user or its root can
// reach it. Any process may know the name: Next checks who has sent a message.
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

// pace is the shortest time between two messages. A service that floods the socket then waits, and takes no processor
// time of this process.
const pace = time.Millisecond

// errStranger is the error of Next for a message of a process that is not heard.
var errStranger = errors.New("a message from another user's process was dropped")

// Next returns the next message, or [os.ErrDeadlineExceeded] if none comes until by; zero is no limit. It hears
// processes of this user and of root, who could kill the service anyway, and those that descend from this process. An
// error for a message of another process, or of [Parse], does not end the socket: call Next again.
//
// The buffer has room for credentials alone. So the kernel closes descriptors that come with a message, and that is
// what the sender of BARRIER=1 waits for.
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
		return Message{}, errStranger
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

// descends reports whether a process descends from this one. Orphans do, too, because the supervisors between are
// subreapers.
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
