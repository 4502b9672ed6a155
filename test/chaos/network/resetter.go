//go:build linux

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// resetter resets TCP connections between the nodes on a bridge as an attacker on the way does: it
// tells each end, in the other's name, that there is no such connection. An end accepts that only
// with the exact number that it expects next (RFC 5961). So the resetter first sends a segment that
// can belong to no connection; the answer has that number.
//
// It stands at the bridge and needs neither end's help, so it does not matter
// whether packets get through between them.
type resetter struct {
	raw int // what is sent
	tap int // what comes in at the ports of the bridge
}

func openResetter() (*resetter, error) {
	s := &resetter{raw: -1, tap: -1}
	var err error
	if s.raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return nil, fmt.Errorf("a raw socket: %w", err)
	}
	// All protocols, for a bridge takes those of single ones away before.
	all := int(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)))
	if s.tap, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all); err != nil {
		return nil, errors.Join(fmt.Errorf("a packet socket: %w", err), s.close())
	}
	return s, nil
}

func (s *resetter) close() error {
	var errs []error
	for _, fd := range []int{s.raw, s.tap} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

const (
	strikeTime  = 5 * time.Second      // for all connections of a pair
	strikePause = 3 * time.Millisecond // between two checks of what is left
)

// resetAll resets ends until left, which is called now and then, returns none. It must be called in
// the bridge's namespace.
func resetAll(left func() ([]end, error)) (err error) {
	s, err := openResetter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for late := time.Now().Add(strikeTime); ; {
		ends, err := left()
		if err != nil || len(ends) == 0 {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("%d ends of connections were not reset within %v, first %v with %v", len(ends), strikeTime, ends[0].local, ends[0].remote)
		}
		for n, e := range ends {
			// All numbers but those of a small window are strange to a connection; the next attempt
			// uses another one.
			strange := uint32(time.Now().UnixNano()) + uint32(n)<<20
			if err := s.send(e, strange, flagAck); err != nil {
				return err
			}
		}
		if err := s.answer(ends); err != nil {
			return err
		}
	}
}

// answer resets, for a short time, each of the ends that answers.
func (s *resetter) answer(ends []end) error {
	buf := make([]byte, 1<<16)
	for pause := time.Now().Add(strikePause); time.Now().Before(pause); {
		n, from, err := unix.Recvfrom(s.tap, buf, unix.MSG_TRUNC)
		switch {
		case err == unix.EAGAIN:
			if err := await(s.tap, 1); err != nil && err != errNothing {
				return fmt.Errorf("the packet socket: %w", err)
			}
			continue
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("the packet socket: %w", err)
		}
		if l, ok := from.(*unix.SockaddrLinklayer); !ok || l.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		said, ok := parseSegment(buf[:min(n, len(buf))])
		if !ok {
			continue
		}
		for _, e := range ends {
			if e.local == said.from && e.remote == said.to {
				if err := s.send(e, said.expects, flagReset); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Flags of TCP.
const (
	flagReset = 0x04
	flagAck   = 0x10
)

// segment has the relevant fields of a sent segment.
type segment struct {
	from, to netip.AddrPort
	expects  uint32 // the number of the next byte that its sender expects
}

// parseSegment reads a packet of IPv4 with a segment that acknowledges something.
func parseSegment(b []byte) (segment, bool) {
	if len(b) < 20 || b[0]>>4 != 4 || b[9] != unix.IPPROTO_TCP {
		return segment{}, false
	}
	tcp := b[min(len(b), int(b[0]&15)*4):]
	if len(tcp) < 20 || tcp[13]&flagAck == 0 || tcp[13]&flagReset != 0 {
		return segment{}, false
	}
	return segment{
		from:    netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:])), binary.BigEndian.Uint16(tcp)),
		to:      netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:])), binary.BigEndian.Uint16(tcp[2:])),
		expects: binary.BigEndian.Uint32(tcp[8:]),
	}, true
}

// send sends a segment without content to an end, as if it came from the other
// one.
func (s *resetter) send(to end, number uint32, flags byte) error {
	err := unix.Sendto(s.raw, forge(to, number, flags), 0, &unix.SockaddrInet4{Addr: to.local.Addr().As4()})
	if err != nil {
		return fmt.Errorf("a forged segment to %v: %w", to.local, err)
	}
	return nil
}

func forge(to end, number uint32, flags byte) []byte {
	b := make([]byte, 20, 40) // the kernel fills in length, id and checksum
	b[0], b[8], b[9] = 4<<4|5, 64, unix.IPPROTO_TCP
	copy(b[12:], to.remote.Addr().AsSlice())
	copy(b[16:], to.local.Addr().AsSlice())
	b = binary.BigEndian.AppendUint16(b, to.remote.Port())
	b = binary.BigEndian.AppendUint16(b, to.local.Port())
	b = binary.BigEndian.AppendUint32(b, number)
	b = append(b, 0, 0, 0, 0, 5<<4, flags, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint16(b[36:], checksum(b[12:20], []byte{0, unix.IPPROTO_TCP, 0, 20}, b[20:]))
	return b
}

// checksum is the internet's, RFC 1071. Each part has an even length.
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, b := range parts {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
