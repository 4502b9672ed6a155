package supervise_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestGuardWays tries to get a byte out after the deadline, by each way in the table of docs/containment.md that this
// kernel has.
func TestGuardWays(t *testing.T) {
	const covered = true
	toUDP4 := func(t testing.TB) *ear { return packets(t, "udp4", "127.0.0.1:0") }
	toUDP6 := func(t testing.TB) *ear { return packets(t, "udp6", "[::1]:0") }
	toTCP4 := func(t testing.TB) *ear { return stream(t, "127.0.0.1:0", false) }
	toIP4 := func(t testing.TB) *ear { return socket(t, unix.AF_INET, unix.SOCK_RAW, protocol, nil) }
	toIP6 := func(t testing.TB) *ear { return socket(t, unix.AF_INET6, unix.SOCK_RAW, protocol, nil) }
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
		{"UDP over IPv6", "udp", toUDP6, covered},
		{"UDP over IPv4, not connected", "sendto", toUDP4, covered},
		{"UDP over IPv6, not connected", "sendto", toUDP6, covered},
		{"UDP in another network namespace", "udp elsewhere", func(t testing.TB) *ear { return elsewhere(t, toUDP4) }, covered},
		{"UDP-Lite", "udplite", func(t testing.TB) *ear {
			return socket(t, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}, covered},
		{"TCP over IPv4", "tcp", toTCP4, covered},
		{"TCP over IPv6", "tcp", func(t testing.TB) *ear { return stream(t, "[::1]:0", false) }, covered},
		{"MPTCP over IPv4", "mptcp", func(t testing.TB) *ear { return stream(t, "127.0.0.1:0", true) }, covered},
		{"MPTCP over IPv6", "mptcp", func(t testing.TB) *ear { return stream(t, "[::1]:0", true) }, covered},
		{"raw IPv4", "raw4", toIP4, covered},
		{"raw IPv4 with its own header", "raw4 header", toIP4, covered},
		{"raw IPv6", "raw6", toIP6, covered},
		{"raw IPv6 with its own header", "raw6 header", toIP6, covered},
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
			answer := k.pastDeadline(g, e)
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
			k.reaches(e, "again")                                  // else nothing is shown
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
			answer := startTalker(t, g, row.way, e.addr).pastDeadline(g, e)
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
			if open := k.line(); open != "open" {
				t.Fatal(open)
			}
			if k.pastDeadline(g, e); e.hears(t, "after", 300*time.Millisecond) {
				t.Error("it has arrived after the deadline")
			}
		})
	}
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
			k.reaches(connection(c), "before")
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
	if answer := k.pastDeadline(g, e); answer != "sent" {
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
