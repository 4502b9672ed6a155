package supervise_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

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
	cmd := exec.Command(executable(t), way, addr)
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

// reaches fails the test if the text does not arrive.
func (k *talker) reaches(e *ear, text string) {
	k.t.Helper()
	if answer := k.send(text); answer != "sent" || !e.hears(k.t, text, patience) {
		k.t.Fatalf("%q: %q, or it did not arrive", text, answer)
	}
}

// pastDeadline sends before the deadline, and returns what came of "after", which it sends after it.
func (k *talker) pastDeadline(g *supervise.Guarded, e *ear) (answer string) {
	k.t.Helper()
	k.reaches(e, "before")
	g.Until(clock.Now())
	return k.send("after")
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
	"inherited": func(string) (func([]byte) error, error) { return descriptor(3, nil) },
	"received":  func(string) (func([]byte) error, error) { return descriptor(receiveFile(3)) }, // over the socket that is inherited
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
		return descriptor(connected(addr, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE))
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
	"sctp": func(string) (func([]byte) error, error) {
		return descriptor(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP))
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

func descriptor(fd int, err error) (func([]byte) error, error) {
	return func(b []byte) error { _, err := unix.Write(fd, b); return err }, err
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
		how := uintptr(getevents)
		if flags != 0 {
			how |= wakeup
		}
		if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, how, 0, 0); errno != 0 {
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
