package supervise_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ear hears what arrives.
type ear struct {
	addr  string
	space *os.File // the network namespace that it is in, if not that of the test
	read  func(b []byte, until time.Time) (int, error)
	all   []byte // what has arrived
}

// hears reports whether the text arrives, within d.
func (e *ear) hears(t testing.TB, text string, d time.Duration) bool {
	t.Helper()
	buf, before := make([]byte, 4096), len(e.all)
	for end := time.Now().Add(d); ; {
		n, err := e.read(buf, end)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil {
			t.Fatalf("the receiver: %v", err)
		}
		if e.all = append(e.all, buf[:n]...); bytes.Contains(e.all[before:], []byte(text)) {
			return true
		}
	}
}

func packets(t testing.TB, network, addr string) *ear {
	t.Helper()
	c, err := net.ListenPacket(network, addr)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { c.Close() })
	return &ear{addr: c.LocalAddr().String(), read: func(b []byte, until time.Time) (int, error) {
		_ = c.SetReadDeadline(until)
		n, _, err := c.ReadFrom(b)
		return n, err
	}}
}

// stream reads the first connection.
func stream(t testing.TB, addr string, multipath bool) *ear {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(multipath)
	l, err := config.Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { l.Close() })
	var c net.Conn
	return &ear{addr: l.Addr().String(), read: func(b []byte, until time.Time) (n int, err error) {
		if c == nil {
			if c, err = l.Accept(); err != nil {
				return 0, err
			}
			t.Cleanup(func() { c.Close() })
		}
		_ = c.SetReadDeadline(until)
		return c.Read(b)
	}}
}

// socket hears through one that Go has no package for.
func socket(t testing.TB, family, kind, proto int, bind unix.Sockaddr) *ear {
	t.Helper()
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		t.Skip(err)
	}
	file := os.NewFile(uintptr(fd), "ear")
	t.Cleanup(func() { file.Close() })
	if bind != nil {
		if err := unix.Bind(fd, bind); err != nil {
			t.Fatal(err)
		}
	}
	e := &ear{read: func(b []byte, until time.Time) (int, error) {
		_ = file.SetReadDeadline(until)
		return file.Read(b)
	}}
	if at, err := unix.Getsockname(fd); err == nil {
		if at, ok := at.(*unix.SockaddrInet4); ok {
			e.addr = netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
		}
	}
	return e
}

func rawEar(t testing.TB, addr string) *ear {
	e := socket(t, unix.AF_INET, unix.SOCK_RAW, protocol, nil)
	e.addr = "127.0.0.1:1"
	return e
}

// connection hears what arrives at one of this process.
func connection(c net.Conn) *ear {
	return &ear{read: func(b []byte, until time.Time) (int, error) { _ = c.SetReadDeadline(until); return c.Read(b) }}
}
