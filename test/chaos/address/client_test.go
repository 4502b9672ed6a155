//go:build linux

package address

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
)

// The virtual addresses.
const (
	ipv4 = "10.77.0.100"
	ipv6 = "fd77::100"
)

// frame is a packet that a machine has sent from a virtual address, as the client has received it.
type frame struct {
	at   clock.Boot
	kind byte // '4' or '6': an echo reply; 'a': ARP; 'n': another one of IPv6
	node int
}

// replies reports whether the frame answers a request of that family.
func (f frame) replies(family byte) bool { return f.kind == family }

// of reports whether the frame is about the address of that family.
func (f frame) of(family byte) bool {
	return f.kind == family || family == '4' && f.kind == 'a' || family == '6' && f.kind == 'n'
}

// ask is the part of this program that is the client: it runs at the bridge, sends an echo request to each address
// every millisecond, and prints a line for each frame that comes from one of them.
func ask() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "the client:", err)
			os.Exit(70)
		}
	}
	const all = unix.ETH_P_ALL&0xff<<8 | unix.ETH_P_ALL>>8
	wire, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	fail(err)
	fail(unix.SetsockoptInt(wire, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20))
	v4, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	fail(err)
	v6, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	fail(err)
	to4, to6 := netip.MustParseAddr(ipv4), netip.MustParseAddr(ipv6)
	go func() {
		echo4 := []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0} // the kernel computes the checksum of ICMPv6 only
		echo6 := []byte{128, 0, 0, 0, 0, 0, 0, 0}
		for next := clock.Now(); ; next = next.Add(time.Millisecond) {
			_ = unix.Sendto(v4, echo4, unix.MSG_DONTWAIT, &unix.SockaddrInet4{Addr: to4.As4()})
			_ = unix.Sendto(v6, echo6, unix.MSG_DONTWAIT, &unix.SockaddrInet6{Addr: to6.As16()})
			time.Sleep(next.Sub(clock.Now()))
		}
	}()
	out := bufio.NewWriter(os.Stdout)
	buf := make([]byte, 2048)
	for {
		n, from, err := unix.Recvfrom(wire, buf, 0)
		if err == unix.EINTR || err == unix.ENETDOWN {
			continue
		}
		fail(err)
		now := clock.Now()
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if kind := about(buf[:n], to4, to6); kind != 0 {
			fmt.Fprintf(out, "%d %c %s\n", int64(now), kind, hex.EncodeToString(buf[6:12]))
			fail(out.Flush())
		}
	}
}

// about is the kind of a frame from one of the addresses; 0 if it is from another one.
func about(b []byte, to4, to6 netip.Addr) byte {
	if len(b) < 42 {
		return 0
	}
	switch binary.BigEndian.Uint16(b[12:]) {
	case unix.ETH_P_IP:
		if slices.Equal(b[26:30], to4.AsSlice()) && b[34] == 0 {
			return '4'
		}
	case unix.ETH_P_ARP:
		if slices.Equal(b[28:32], to4.AsSlice()) {
			return 'a'
		}
	case unix.ETH_P_IPV6:
		if len(b) > 54 && slices.Equal(b[22:38], to6.AsSlice()) {
			if b[54] == 129 {
				return '6'
			}
			return 'n'
		}
	}
	return 0
}

// diary is what the client has seen so far.
type diary struct {
	macs map[string]int // of the machines; not changed any more

	mu  sync.Mutex
	all []frame
	bad []string
}

// read reads the client's lines.
func (d *diary) read(lines *bufio.Scanner) {
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		at, err := int64(0), error(nil)
		if len(f) == 3 {
			at, err = strconv.ParseInt(f[0], 10, 64)
		}
		node, known := -1, false
		if len(f) == 3 {
			node, known = d.macs[f[2]]
		}
		d.mu.Lock()
		if !known || err != nil {
			d.bad = append(d.bad, lines.Text())
		} else {
			d.all = append(d.all, frame{clock.Boot(at), f[1][0], node})
		}
		d.mu.Unlock()
	}
}

// since are the frames from an instant on.
func (d *diary) since(at clock.Boot) []frame {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, _ := slices.BinarySearchFunc(d.all, at, func(f frame, at clock.Boot) int { return int(f.at - at) })
	return slices.Clone(d.all[i:])
}

// answers is the machine that has answered all requests of the last span; -1 if there is none, or several.
func (d *diary) answers(span time.Duration) int {
	node, seen := -1, map[byte]bool{}
	for _, f := range d.since(clock.Now().Add(-span)) {
		if node >= 0 && f.node != node {
			return -1
		}
		node = f.node
		seen[f.kind] = true
	}
	if !seen['4'] || !seen['6'] {
		return -1
	}
	return node
}

// gap is the longest time without an answer of that family among the frames.
func gap(frames []frame, family byte) (longest time.Duration) {
	last := clock.Boot(0)
	for _, f := range frames {
		if !f.replies(family) {
			continue
		}
		if last != 0 {
			longest = max(longest, f.at.Sub(last))
		}
		last = f.at
	}
	return longest
}

// overlap is for how long two machines have both sent from the address of that family. One that has sent, and sends
// again after another one, must have been without the address in between.
func (s *rig) overlap(frames []frame, family byte) (longest time.Duration) {
	var last, since [machines]clock.Boot // the last frame of a machine, and the first one since it was another's turn
	owner := -1
	for _, f := range frames {
		if !f.of(family) {
			continue
		}
		if f.node != owner {
			if owner >= 0 && last[f.node] != 0 && !s.without(f.node, family, last[f.node], f.at) {
				longest = max(longest, f.at.Sub(since[owner]))
			}
			owner = f.node
			since[owner] = f.at
		}
		last[f.node] = f.at
	}
	return longest
}
