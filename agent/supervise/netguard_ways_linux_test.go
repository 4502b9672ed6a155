package supervise_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// forever is a deadline that no test reaches.
const forever = clock.Boot(math.MaxInt64)

// newGuarded returns a cgroup with a closed network guard. Where there can be none the test is skipped.
func newGuarded(t testing.TB, outer *supervise.Guarded, allow ...netip.AddrPort) *supervise.Guarded {
	t.Helper()
	c, _ := contain(t)
	if err := c.GuardNetwork(allow...); errors.Is(err, supervise.ErrContain) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	g, err := supervise.NewGuarded(c, outer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Remove)
	return g
}

// talker is a process that sends what it is told.
type talker struct {
	t     testing.TB
	cmd   *exec.Cmd // nil if it is a command of a keeper
	in    io.Writer
	lines *bufio.Scanner
}

// newTalker starts one in g.
func newTalker(t testing.TB, g *supervise.Guarded, way, addr string, files ...*os.File) *talker {
	t.Helper()
	out, lines := listen(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, way, addr)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = partEnv("talk"), out, os.Stderr, files
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	g.Enter(cmd.SysProcAttr)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &talker{t, cmd, in, lines}
}

// startTalker starts one in g. Its way is open when it returns.
func startTalker(t testing.TB, g *supervise.Guarded, way, addr string, files ...*os.File) *talker {
	t.Helper()
	k := newTalker(t, g, way, addr, files...)
	if answer := k.line(); strings.HasPrefix(answer, "skip") {
		t.Skip(answer)
	} else if answer != "open" {
		t.Fatalf("the talker: %q", answer)
	}
	return k
}

func (k *talker) line() string {
	k.t.Helper()
	if !k.lines.Scan() {
		k.t.Fatalf("the talker says nothing: %v", k.lines.Err())
	}
	return k.lines.Text()
}

// send has it send the text, and returns what came of it: "sent", or an error.
func (k *talker) send(text string) string {
	k.t.Helper()
	if _, err := fmt.Fprintln(k.in, text); err != nil {
		k.t.Fatal(err)
	}
	return k.line()
}

// ways open a way out. What they return sends.
var ways = map[string]func(addr string) (send func([]byte) error, err error){
	"udp":  func(addr string) (func([]byte) error, error) { return dialed("udp", addr) },
	"tcp":  func(addr string) (func([]byte) error, error) { return dialed("tcp", addr) },
	"unix": func(addr string) (func([]byte) error, error) { return dialed("unixgram", addr) },
	"mptcp": func(addr string) (func([]byte) error, error) {
		var d net.Dialer
		d.SetMultipathTCP(true)
		c, err := d.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		if is, err := c.(*net.TCPConn).MultipathTCP(); err != nil || !is {
			return nil, unix.EPROTONOSUPPORT
		}
		return writing(c, nil)
	},
	"accepted": func(addr string) (func([]byte) error, error) {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		fmt.Println(l.Addr())
		return writing(l.Accept())
	},
	"closing": func(addr string) (func([]byte) error, error) {
		c, err := net.Dial("tcp", addr)
		return func(b []byte) error { _, err := c.Write(b); return errors.Join(err, c.Close()) }, err
	},
	"sendto": func(addr string) (func([]byte) error, error) {
		to, err := net.ResolveUDPAddr("udp", addr)
		if err != nil {
			return nil, err
		}
		c, err := net.ListenUDP("udp", nil)
		return func(b []byte) error { _, err := c.WriteTo(b, to); return err }, err
	},
	"inherited": func(string) (func([]byte) error, error) {
		return func(b []byte) error { _, err := unix.Write(3, b); return err }, nil
	},
	"received": func(addr string) (func([]byte) error, error) { // a descriptor, over the unix socket that is inherited
		fd, err := receiveFile(3)
		return func(b []byte) error { _, err := unix.Write(fd, b); return err }, err
	},
	"handed": func(addr string) (func([]byte) error, error) { // to somebody outside, who sends
		fd, err := socketTo(addr, unix.SOCK_DGRAM)
		if err != nil {
			return nil, err
		}
		if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
			return nil, err
		}
		return func([]byte) error { return nil }, nil
	},
	"raw4":        func(string) (func([]byte) error, error) { return raw(unix.AF_INET, false) },
	"raw4 header": func(string) (func([]byte) error, error) { return raw(unix.AF_INET, true) },
	"raw6":        func(string) (func([]byte) error, error) { return raw(unix.AF_INET6, false) },
	"raw6 header": func(string) (func([]byte) error, error) { return raw(unix.AF_INET6, true) },
	"udplite": func(addr string) (func([]byte) error, error) {
		fd, err := connected(addr, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE)
		return func(b []byte) error { _, err := unix.Write(fd, b); return err }, err
	},
	"packet": func(string) (func([]byte) error, error) {
		lo, err := net.InterfaceByName("lo")
		if err != nil {
			return nil, err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		to := &unix.SockaddrLinklayer{Protocol: ether, Ifindex: lo.Index, Halen: 6}
		return func(b []byte) error { return unix.Sendto(fd, b, 0, to) }, err
	},
	"netlink": func(string) (func([]byte) error, error) { // the kernel's answer is what got there
		return func([]byte) error { _, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC); return err }, nil
	},
	"sendfile": func(addr string) (func([]byte) error, error) {
		out, err := socketTo(addr, unix.SOCK_STREAM)
		return func(b []byte) error {
			fd, err := unix.MemfdCreate("text", 0)
			if err != nil {
				return err
			}
			if _, err := unix.Write(fd, b); err != nil {
				return err
			}
			_, err = unix.Sendfile(out, fd, new(int64), len(b))
			return err
		}, err
	},
	"splice": func(addr string) (func([]byte) error, error) {
		out, err := socketTo(addr, unix.SOCK_STREAM)
		return func(b []byte) error {
			var p [2]int
			if err := unix.Pipe(p[:]); err != nil {
				return err
			}
			if _, err := unix.Write(p[1], b); err != nil {
				return err
			}
			_, err := unix.Splice(p[0], nil, out, nil, len(b), 0)
			return err
		}, err
	},
	"zerocopy": func(addr string) (func([]byte) error, error) {
		fd, err := socketTo(addr, unix.SOCK_STREAM)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1)
		}
		return func(b []byte) error { return unix.Sendmsg(fd, b, nil, nil, unix.MSG_ZEROCOPY) }, err
	},
	"io_uring": func(addr string) (func([]byte) error, error) { return uring(addr, 0) },
	"io_uring, the kernel's thread": func(addr string) (func([]byte) error, error) {
		return uring(addr, 1<<1) // IORING_SETUP_SQPOLL
	},
	"tun": tun,
	"xdp": xdp,
	"udp elsewhere": func(addr string) (func([]byte) error, error) {
		if err := enterSpace(); err != nil {
			return nil, err
		}
		return dialed("udp", addr)
	},
	"leaving":   func(addr string) (func([]byte) error, error) { return escaping(addr, leaveCgroup) },
	"detaching": func(addr string) (func([]byte) error, error) { return escaping(addr, supervise.Detach) },
	"sctp": func(addr string) (func([]byte) error, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
		return func(b []byte) error { _, err := unix.Write(fd, b); return err }, err
	},
}

// escaping sends over UDP. When it is refused, it escapes from its cgroup, and sends by a socket that it opens then.
func escaping(addr string, escape func(cgroup string) error) (func([]byte) error, error) {
	send, err := dialed("udp", addr)
	return func(b []byte) error {
		if err := send(b); !errors.Is(err, unix.EPERM) {
			return err
		}
		_, own, err := supervise.OwnCgroup()
		if err != nil {
			return err
		}
		if err := escape(own); err != nil {
			return fmt.Errorf("it cannot escape: %w", err)
		}
		if send, err = dialed("udp", addr); err != nil {
			return err
		}
		return send(b)
	}, err
}

// leaveCgroup moves this process to the cgroup above.
func leaveCgroup(cgroup string) error {
	return os.WriteFile(filepath.Dir(cgroup)+"/cgroup.procs", []byte("0"), 0)
}

func dialed(network, addr string) (func([]byte) error, error) {
	return writing(net.Dial(network, addr))
}

func writing(c net.Conn, err error) (func([]byte) error, error) {
	return func(b []byte) error { _, err := c.Write(b); return err }, err
}

// socketTo connects a socket that Go's poller does not know.
func socketTo(addr string, kind int) (fd int, err error) { return connected(addr, kind, 0) }

func connected(addr string, kind, protocol int) (fd int, err error) {
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return -1, err
	}
	if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, protocol); err != nil {
		return -1, err
	}
	return fd, unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte(a.IP.To4()), Port: a.Port})
}

func receiveFile(from int) (int, error) {
	room := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), room, 0)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(room[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("%d messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}

// protocol of the raw packets, and ether of the frames: those for experiments.
const (
	protocol = 253
	ether    = 0xb588 // 0x88b5, in the order of the network
)

func raw(family int, header bool) (func([]byte) error, error) {
	proto := protocol
	if header {
		proto = unix.IPPROTO_RAW
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto)
	return func(b []byte) error {
		to := unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		if family == unix.AF_INET6 {
			to = &unix.SockaddrInet6{Addr: [16]byte{15: 1}}
		}
		switch { // the kernel fills in the rest
		case header && family == unix.AF_INET6:
			head := [40]byte{0: 0x60, 5: byte(len(b)), 6: protocol, 7: 64, 23: 1, 39: 1} // from ::1 to ::1
			b = append(head[:], b...)
		case header:
			b = append([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1}, b...)
		}
		return unix.Sendto(fd, b, 0, to)
	}, err
}

// uring sends over UDP through a ring of two entries.
func uring(addr string, flags uint32) (func([]byte) error, error) {
	fd, err := socketTo(addr, unix.SOCK_DGRAM)
	if err != nil {
		return nil, err
	}
	// struct io_uring_params: sq_entries, cq_entries, flags, cpu, idle, features, wq_fd, 3 reserved; then the offsets:
	// sq head, tail, mask, entries, flags, dropped, array, …; cq head, tail, mask, entries, overflow, cqes
	var p [30]uint32
	p[2], p[4] = flags, 1000
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 2, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, errno
	}
	area := func(at int64, size int) ([]byte, error) {
		return unix.Mmap(int(ring), at, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	sq, err := area(0, 4096)
	if err != nil {
		return nil, err
	}
	cq, err := area(0x8000000, 4096)
	if err != nil {
		return nil, err
	}
	entries, err := area(0x10000000, 4096)
	if err != nil {
		return nil, err
	}
	word := func(area []byte, at uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&area[at])) }
	return func(b []byte) error {
		tail := word(sq, p[11]).Load()
		slot := tail & word(sq, p[12]).Load()
		e := entries[64*slot : 64*slot+64]
		clear(e)
		e[0] = 26 // IORING_OP_SEND
		binary.NativeEndian.PutUint32(e[4:], uint32(fd))
		binary.NativeEndian.PutUint64(e[16:], uint64(uintptr(unsafe.Pointer(&b[0]))))
		binary.NativeEndian.PutUint32(e[24:], uint32(len(b)))
		word(sq, p[16]+4*slot).Store(slot)
		word(sq, p[11]).Store(tail + 1)
		const getevents, wakeup = 1, 2
		submit, how := uintptr(1), uintptr(getevents)
		if flags != 0 {
			submit, how = 1, getevents|wakeup
		}
		if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, submit, 1, how, 0, 0); errno != 0 {
			return errno
		}
		runtime.KeepAlive(b)
		head := word(cq, p[20])
		at := head.Load() & word(cq, p[22]).Load()
		result := int32(word(cq, p[25]+16*at+8).Load())
		head.Add(1)
		if result < 0 {
			return syscall.Errno(-result)
		}
		return nil
	}, nil
}

// talk sends each line that it reads, and says what came of it. Arguments: the way, the address.
func talk(args []string) {
	send, err := ways[args[0]](args[1])
	if err != nil {
		fmt.Printf("skip: %s: %v\n", args[0], err)
		return
	}
	fmt.Println("open")
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		if err := send(s.Bytes()); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("sent")
	}
}

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

// TestGuardWays tries to get a byte out after the deadline, by each way in the table of docs/containment.md that this
// kernel has.
func TestGuardWays(t *testing.T) {
	const (
		udp4, udp6, tcp4 = "127.0.0.1:0", "[::1]:0", "127.0.0.1:0"
		covered          = true
	)
	toUDP4 := func(t testing.TB) *ear { return packets(t, "udp4", udp4) }
	toTCP4 := func(t testing.TB) *ear { return stream(t, tcp4, false) }
	frames := func(t testing.TB) *ear {
		lo, err := net.InterfaceByName("lo")
		if err != nil {
			t.Skip(err)
		}
		return socket(t, unix.AF_PACKET, unix.SOCK_DGRAM, ether, &unix.SockaddrLinklayer{Protocol: ether, Ifindex: lo.Index})
	}
	for _, row := range []struct {
		name, way string
		ear       func(t testing.TB) *ear
		covered   bool
	}{
		{"UDP over IPv4", "udp", toUDP4, covered},
		{"UDP over IPv6", "udp", func(t testing.TB) *ear { return packets(t, "udp6", udp6) }, covered},
		{"UDP over IPv4, not connected", "sendto", toUDP4, covered},
		{"UDP over IPv6, not connected", "sendto", func(t testing.TB) *ear { return packets(t, "udp6", udp6) }, covered},
		{"UDP in another network namespace", "udp elsewhere", func(t testing.TB) *ear { return elsewhere(t, toUDP4) }, covered},
		{"UDP-Lite", "udplite", func(t testing.TB) *ear {
			return socket(t, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}, covered},
		{"TCP over IPv4", "tcp", toTCP4, covered},
		{"TCP over IPv6", "tcp", func(t testing.TB) *ear { return stream(t, "[::1]:0", false) }, covered},
		{"MPTCP over IPv4", "mptcp", func(t testing.TB) *ear { return stream(t, tcp4, true) }, covered},
		{"MPTCP over IPv6", "mptcp", func(t testing.TB) *ear { return stream(t, "[::1]:0", true) }, covered},
		{"raw IPv4", "raw4", func(t testing.TB) *ear { return socket(t, unix.AF_INET, unix.SOCK_RAW, protocol, nil) }, covered},
		{"raw IPv4 with its own header", "raw4 header", func(t testing.TB) *ear { return socket(t, unix.AF_INET, unix.SOCK_RAW, protocol, nil) }, covered},
		{"raw IPv6", "raw6", func(t testing.TB) *ear { return socket(t, unix.AF_INET6, unix.SOCK_RAW, protocol, nil) }, covered},
		{"raw IPv6 with its own header", "raw6 header", func(t testing.TB) *ear { return socket(t, unix.AF_INET6, unix.SOCK_RAW, protocol, nil) }, covered},
		{"sendfile", "sendfile", toTCP4, covered},
		{"splice", "splice", toTCP4, covered},
		{"MSG_ZEROCOPY", "zerocopy", toTCP4, covered},
		{"io_uring", "io_uring", toUDP4, covered},
		{"io_uring, a thread of the kernel sends", "io_uring, the kernel's thread", toUDP4, covered},
		{"SCTP", "sctp", toTCP4, covered},
		{"a socket opened outside, inherited", "inherited", toUDP4, !covered},
		{"a socket opened outside, received over a unix socket", "received", toUDP4, !covered},
		{"a socket opened after the process has left the cgroup", "leaving", toUDP4, !covered},
		{"the process detaches the program", "detaching", toUDP4, !covered},
		{"packet socket", "packet", frames, !covered},
		{"AF_XDP", "xdp", func(t testing.TB) *ear { return elsewhere(t, frames) }, !covered},
		{"tun device", "tun", func(t testing.TB) *ear {
			return elsewhere(t, func(t testing.TB) *ear { return packets(t, "udp4", "0.0.0.0:0") })
		}, !covered},
		{"unix socket", "unix", func(t testing.TB) *ear {
			return packets(t, "unixgram", filepath.Join(t.TempDir(), "s"))
		}, !covered},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuarded(t, nil)
			g.Until(forever)
			e := row.ear(t)
			var files []*os.File
			if e.space != nil {
				files = append(files, e.space)
			}
			switch row.way {
			case "inherited":
				files = append(files, dialFile(t, e.addr))
			case "received":
				mine, theirs := socketPair(t)
				if err := unix.Sendmsg(int(mine.Fd()), []byte{0}, unix.UnixRights(int(dialFile(t, e.addr).Fd())), nil, 0); err != nil {
					t.Fatal(err)
				}
				files = append(files, theirs)
			}
			k := startTalker(t, g, row.way, e.addr, files...)
			if answer := k.send("before"); answer != "sent" || !e.hears(t, "before", patience) {
				t.Fatalf("before the deadline: %q, or it did not arrive", answer)
			}
			g.Until(clock.Now())
			answer := k.send("after")
			t.Logf("after the deadline: %s", answer)
			if !row.covered {
				if answer != "sent" || !e.hears(t, "after", patience) {
					t.Errorf("it is stopped (%q): want the table to say so", answer)
				}
				return
			}
			refused := strings.HasSuffix(answer, unix.EPERM.Error())
			if !refused && e.hears(t, "after", 300*time.Millisecond) { // time for a stream to try again
				t.Fatal("it has arrived after the deadline")
			}
			g.Until(forever)
			if last := k.send("again"); last != "sent" || !e.hears(t, "again", patience) {
				t.Errorf("with a new deadline: %q, or it did not arrive, so that nothing is shown", last)
			}
			if refused && bytes.Contains(e.all, []byte("after")) { // datagrams stay in order
				t.Error("it was refused, and has arrived")
			}
		})
	}
}

// TestGuardAllow: after the deadline packets pass to what is allowed, by any process of the family and way, and to
// nothing that differs in the address or the port.
func TestGuardAllow(t *testing.T) {
	udp := func(t testing.TB, addr string) *ear { return packets(t, "udp", addr) }
	tcp := func(t testing.TB, addr string) *ear { return stream(t, addr, false) }
	for _, row := range []struct {
		name, way, host string
		ear             func(t testing.TB, addr string) *ear
		allow           func(to netip.AddrPort) []netip.AddrPort
		passes          bool
	}{
		{"UDP over IPv4, the port", "udp", "127.0.0.1:0", udp, func(to netip.AddrPort) []netip.AddrPort { return []netip.AddrPort{to} }, true},
		{"UDP over IPv4, another port", "udp", "127.0.0.1:0", udp, besides, false},
		{"UDP over IPv4, any port", "udp", "127.200.0.201:0", udp, anyPort, true},
		{"UDP over IPv6, the port", "udp", "[::1]:0", udp, func(to netip.AddrPort) []netip.AddrPort { return append(besides(to), to) }, true},
		{"UDP over IPv6, another port", "udp", "[::1]:0", udp, besides, false},
		{"TCP over IPv4, the port", "tcp", "127.0.0.1:0", tcp, func(to netip.AddrPort) []netip.AddrPort { return append(besides(to), to) }, true},
		{"TCP over IPv4, another port", "tcp", "127.0.0.1:0", tcp, besides, false},
		{"TCP over IPv6, any port", "tcp", "[::1]:0", tcp, anyPort, true},
		{"TCP over IPv6, another port", "tcp", "[::1]:0", tcp, besides, false},
		{"UDP over IPv6, the last of 64", "udp", "[::1]:0", udp, func(to netip.AddrPort) []netip.AddrPort { return append(many(to, 63), to) }, true},
		{"UDP over IPv6, 64 others", "udp", "[::1]:0", udp, func(to netip.AddrPort) []netip.AddrPort { return many(to, 64) }, false},
		{"raw IPv4, any port", "raw4", "127.0.0.1:0", rawEar, anyPort, true},
		{"raw IPv4, no port", "raw4", "127.0.0.1:0", rawEar, besides, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := row.ear(t, row.host)
			to := netip.MustParseAddrPort(e.addr)
			g := newGuarded(t, nil, row.allow(to)...)
			g.Until(forever)
			k := startTalker(t, g, row.way, e.addr)
			if answer := k.send("before"); answer != "sent" || !e.hears(t, "before", patience) {
				t.Fatalf("before the deadline: %q, or it did not arrive", answer)
			}
			g.Until(clock.Now())
			answer := k.send("after")
			switch {
			case row.passes && (answer != "sent" || !e.hears(t, "after", patience)):
				t.Errorf("after the deadline: %q, or it did not arrive; want it to pass", answer)
			case !row.passes && !strings.HasSuffix(answer, unix.EPERM.Error()) && e.hears(t, "after", 300*time.Millisecond):
				t.Error("it has arrived after the deadline")
			}
		})
	}
	c, _ := contain(t)
	for _, wrong := range []netip.AddrPort{{}, netip.MustParseAddrPort("[fe80::1%lo]:1"), netip.MustParseAddrPort("[::ffff:127.0.0.1]:1")} {
		if err := c.GuardNetwork(wrong); err == nil || !strings.Contains(err.Error(), "want an IPv4 or IPv6 address") {
			t.Errorf("%v is allowed: %v", wrong, err)
		}
	}
	err := c.GuardNetwork(many(netip.MustParseAddrPort("[::1]:1"), 65)...)
	if want := "supervise: the network guard cannot allow 65 addresses; want at most 64"; err == nil || err.Error() != want || c.Network() {
		t.Errorf("65 are allowed: %v; want %q", err, want)
	}
}

func anyPort(to netip.AddrPort) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(to.Addr(), 0)}
}

// besides are addresses and ports that differ from to in one bit, or in the kind of address.
func besides(to netip.AddrPort) (list []netip.AddrPort) {
	for at := range len(to.Addr().AsSlice()) {
		b := to.Addr().AsSlice()
		b[at] ^= 0x80 >> (at % 8)
		addr, _ := netip.AddrFromSlice(b)
		if !addr.Is4In6() {
			list = append(list, netip.AddrPortFrom(addr, 0), netip.AddrPortFrom(addr, to.Port()))
		}
	}
	for _, port := range []uint16{to.Port() ^ 1, to.Port() ^ 0x100, to.Port()>>8 | to.Port()<<8 ^ 1} {
		list = append(list, netip.AddrPortFrom(to.Addr(), max(port, 1)))
	}
	return list
}

// many are n addresses with its port that differ from to.
func many(to netip.AddrPort, n int) (list []netip.AddrPort) {
	for k := range n {
		b := to.Addr().AsSlice()
		b[0] ^= byte(k + 1)
		addr, _ := netip.AddrFromSlice(b)
		list = append(list, netip.AddrPortFrom(addr, to.Port()))
	}
	return list
}

func rawEar(t testing.TB, addr string) *ear {
	e := socket(t, unix.AF_INET, unix.SOCK_RAW, protocol, nil)
	e.addr = "127.0.0.1:1"
	return e
}

// dialFile is a UDP socket of this process.
func dialFile(t testing.TB, addr string) *os.File {
	t.Helper()
	fd, err := socketTo(addr, unix.SOCK_DGRAM)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	t.Cleanup(func() { file.Close() })
	return file
}

func socketPair(t testing.TB) (a, b *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b = os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// TestGuardHanded: a socket of the family is stopped in the hands of others, too.
func TestGuardHanded(t *testing.T) {
	g := newGuarded(t, nil)
	g.Until(forever)
	e := packets(t, "udp4", "127.0.0.1:0")
	mine, theirs := socketPair(t)
	startTalker(t, g, "handed", e.addr, theirs)
	fd, err := receiveFile(int(mine.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("before")); err != nil || !e.hears(t, "before", patience) {
		t.Fatalf("before the deadline: %v", err)
	}
	g.Until(clock.Now())
	if _, err := unix.Write(fd, []byte("after")); err != unix.EPERM {
		t.Errorf("after the deadline: %v; want %v", err, unix.EPERM)
	}
}

// TestGuardNetlink: what speaks to the kernel alone is not covered.
func TestGuardNetlink(t *testing.T) {
	if answer := startTalker(t, newGuarded(t, nil), "netlink", "").send("x"); answer != "sent" {
		t.Errorf("netlink: %q; want the table to say that it is stopped", answer)
	}
}

// TestGuardAccepted: connections that the family has accepted are its own.
func TestGuardAccepted(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(addr, func(t *testing.T) {
			if l, err := net.Listen("tcp", addr); err != nil {
				t.Skip(err)
			} else {
				l.Close()
			}
			g := newGuarded(t, nil)
			g.Until(forever)
			k := newTalker(t, g, "accepted", addr)
			c, err := net.Dial("tcp", k.line())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			e := connection(c)
			if open, answer := k.line(), k.send("before"); open != "open" || answer != "sent" || !e.hears(t, "before", patience) {
				t.Fatalf("before the deadline: %q", answer)
			}
			g.Until(clock.Now())
			if k.send("after"); e.hears(t, "after", 300*time.Millisecond) {
				t.Error("it has arrived after the deadline")
			}
		})
	}
}

// connection hears what arrives at one of this process.
func connection(c net.Conn) *ear {
	return &ear{read: func(b []byte, until time.Time) (int, error) { _ = c.SetReadDeadline(until); return c.Read(b) }}
}

// TestGuardWithoutSocket: when the family has closed a connection, and its socket is gone, the kernel acknowledges and
// resets what its peer sends, also after the deadline.
func TestGuardWithoutSocket(t *testing.T) {
	// The row of a connection in /proc/net/tcp, by its two ports: its state, and whether a socket is left for it.
	row := func(local, remote net.Addr) (state string, socket bool) {
		text, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 5 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", local.(*net.TCPAddr).Port)) &&
				strings.HasSuffix(f[2], fmt.Sprintf(":%04X", remote.(*net.TCPAddr).Port)) {
				return f[3], !strings.HasPrefix(f[5], "03:") // its timer is that of a TIME-WAIT
			}
		}
		return "", false
	}
	for _, answer := range []string{"acknowledgement", "reset"} {
		t.Run(answer, func(t *testing.T) {
			g := newGuarded(t, nil)
			g.Until(forever)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			k := startTalker(t, g, "closing", l.Addr().String())
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if answer := k.send("before"); answer != "sent" || !connection(c).hears(t, "before", patience) {
				t.Fatalf("before the deadline: %q", answer)
			}
			eventually(t, "the family's socket is gone, and its connection is not", func() bool {
				state, socket := row(c.RemoteAddr(), c.LocalAddr())
				return state == "05" && !socket // FIN-WAIT-2
			})
			g.Until(clock.Now())
			if answer == "reset" {
				_, _ = c.Write([]byte("x"))
			} else {
				_ = c.(*net.TCPConn).CloseWrite()
			}
			eventually(t, "the server's end is over", func() bool { // else it would send again, for minutes
				state, _ := row(c.LocalAddr(), c.RemoteAddr())
				return state == ""
			})
		})
	}
}

// TestGuardOfTheDead: what a killed process has left in its socket stays there, although its cgroup is removed.
func TestGuardOfTheDead(t *testing.T) {
	g := newGuarded(t, nil)
	g.Until(forever)
	e := stream(t, "127.0.0.1:0", false)
	k := startTalker(t, g, "tcp", e.addr)
	if k.send("before"); !e.hears(t, "before", patience) {
		t.Fatal("before the deadline nothing arrived")
	}
	g.Until(clock.Now())
	if answer := k.send("after"); answer != "sent" {
		t.Fatalf("%q: want a socket that keeps it", answer)
	}
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
	g.Remove() // as if both supervisors had died: nobody resets the connection
	if e.hears(t, "after", time.Second) {
		t.Error("the dead have spoken")
	}
}

// TestGuardNested: the strictest of nested guards counts, and others beside it do not.
func TestGuardNested(t *testing.T) {
	outer, beside := newGuarded(t, nil), newGuarded(t, nil)
	inner := newGuarded(t, outer)
	e := packets(t, "udp4", "127.0.0.1:0")
	k := startTalker(t, inner, "udp", e.addr)
	beside.Until(0)
	for _, c := range []struct {
		outer, inner clock.Boot
		want         string
	}{
		{forever, forever, "sent"},
		{0, forever, "not permitted"},
		{forever, 0, "not permitted"},
		{0, 0, "not permitted"},
		{clock.Now().Add(time.Hour), forever, "sent"},
		{forever, clock.Now(), "not permitted"},
		{clock.Now(), forever, "not permitted"},
	} {
		outer.Until(c.outer)
		inner.Until(c.inner)
		if answer := k.send("x"); !strings.HasSuffix(answer, c.want) {
			t.Errorf("outer %d, inner %d: %q; want %q", c.outer, c.inner, answer, c.want)
		}
	}
}
