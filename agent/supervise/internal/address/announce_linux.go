package address

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Announcer tells all neighbours on a link who has an address.
type Announcer struct{ fd int }

// NewAnnouncer opens an Announcer, which needs CAP_NET_RAW, in the network namespace of the calling thread.
func NewAnnouncer() (*Announcer, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // it receives nothing
	if err != nil {
		return nil, err
	}
	return &Announcer{fd}, nil
}

// Close closes the socket.
func (a *Announcer) Close() { unix.Close(a.fd) }

// Announce sends the packets of [Announcements]. It does not wait.
func (a *Announcer) Announce(l Link, ip []byte, router bool) error {
	for _, frame := range Announcements(l.MAC, ip, router) {
		to := unix.SockaddrLinklayer{Ifindex: l.Index, Halen: 6, Addr: [8]byte(append(frame[:6:6], 0, 0))}
		if err := unix.Sendto(a.fd, frame, 0, &to); err != nil {
			return err
		}
	}
	return nil
}

// Announcements are the frames by which neighbours learn that ip is at mac now. Of IPv4 they are a request and a reply
// of ARP, because some systems heed only one (RFC 5227, 3; RFC 5944, 4.6); of IPv6 an unsolicited neighbour
// advertisement that overrides (RFC 4861, 7.2.6). router is whether this machine forwards packets of IPv6: hosts drop
// a router that says that it is none.
func Announcements(mac [6]byte, ip []byte, router bool) [][]byte {
	if len(ip) == 4 {
		return [][]byte{arp(mac, ip, 1), arp(mac, ip, 2)}
	}
	return [][]byte{advertisement(mac, ip, router)}
}

// arp says as a request (1) or a reply (2) that ip is at mac.
func arp(mac [6]byte, ip []byte, operation byte) []byte {
	all := []byte{255, 255, 255, 255, 255, 255}
	target := make([]byte, 6) // of a request it is unknown
	if operation == 2 {
		target = all
	}
	return slices.Concat(all, mac[:], []byte{0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation}, mac[:], ip, target, ip)
}

func advertisement(mac [6]byte, ip []byte, router bool) []byte {
	to := []byte{0: 0xff, 1: 2, 15: 1}
	flags := byte(0x20) // override
	if router {
		flags |= 0x80
	}
	body := slices.Concat([]byte{136, 0, 0, 0, flags, 0, 0, 0}, ip, []byte{2, 1}, mac[:])
	pseudo := slices.Concat(ip, to, []byte{0, 0, 0, byte(len(body)), 0, 0, 0, unix.IPPROTO_ICMPV6}, body)
	binary.BigEndian.PutUint16(body[2:], checksum(pseudo))
	return slices.Concat([]byte{0x33, 0x33, 0, 0, 0, 1}, mac[:], []byte{0x86, 0xdd},
		[]byte{0x60, 0, 0, 0, 0, byte(len(body)), unix.IPPROTO_ICMPV6, 255}, ip, to, body)
}

// checksum is that of RFC 1071, over an even number of bytes.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for pair := range slices.Chunk(b, 2) {
		sum += uint32(pair[0])<<8 | uint32(pair[1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
