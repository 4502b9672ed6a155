//go:build linux

package network

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// end is one end of a TCP connection, as the kernel knows it.
type end struct {
	local, remote netip.AddrPort
	state         uint8
	inode         uint32 // of the socket; 0 if no process has it, or not yet
	cookie        uint64 // which socket it is, for ever
}

// The states of <net/tcp_states.h> that a reset ends.
const (
	established = 1
	finWait1    = 4
	finWait2    = 5
	closeWait   = 8
	lastAck     = 9
	closing     = 11
)

const connected = 1<<established | 1<<finWait1 | 1<<finWait2 | 1<<closeWait | 1<<lastAck | 1<<closing

// diagnosis asks the kernel about the TCP connections of the namespace in which it was opened.
type diagnosis struct{ link *netlink }

func openDiagnosis() (*diagnosis, error) {
	l, err := openNetlink(unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	return &diagnosis{l}, nil
}

func (d *diagnosis) close() error {
	if d == nil {
		return nil
	}
	return d.link.close()
}

// all are those in one of the connected states.
func (d *diagnosis) all() ([]end, error) {
	var all []end
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} { // the latter may have connections of the former
		err := d.link.send(func(p *packet) {
			p.message(unix.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, func() { inquiry(p, family, connected, end{}) })
		}, func(kind uint16, _ uint32, body []byte) bool {
			if e, ok := parseEnd(body); ok && kind == unix.SOCK_DIAG_BY_FAMILY {
				all = append(all, e)
			}
			return kind == unix.NLMSG_DONE
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// at returns the end with these addresses, of IPv4. Without one the error is unix.ENOENT.
func (d *diagnosis) at(local, remote netip.AddrPort) (found end, err error) {
	err = d.link.send(func(p *packet) {
		p.message(unix.SOCK_DIAG_BY_FAMILY, 0, func() {
			inquiry(p, unix.AF_INET, ^uint32(0), end{local: local, remote: remote})
		})
	}, func(kind uint16, _ uint32, body []byte) bool {
		e, ok := parseEnd(body)
		found = e
		return ok && kind == unix.SOCK_DIAG_BY_FAMILY
	})
	return found, err
}

// inquiry appends a struct inet_diag_req_v2.
func inquiry(p *packet, family byte, states uint32, e end) {
	p.bytes = append(p.bytes, family, unix.IPPROTO_TCP, 0, 0)
	p.bytes = binary.NativeEndian.AppendUint32(p.bytes, states)
	p.bytes = binary.BigEndian.AppendUint16(p.bytes, e.local.Port())
	p.bytes = binary.BigEndian.AppendUint16(p.bytes, e.remote.Port())
	for _, a := range []netip.Addr{e.local.Addr(), e.remote.Addr()} {
		var place [16]byte
		copy(place[:], a.AsSlice())
		p.bytes = append(p.bytes, place[:]...)
	}
	p.bytes = append(p.bytes, 0, 0, 0, 0)                           // any interface
	p.bytes = binary.NativeEndian.AppendUint64(p.bytes, ^uint64(0)) // any cookie
}

// parseEnd reads a struct inet_diag_msg.
func parseEnd(b []byte) (end, bool) {
	if len(b) < 72 {
		return end{}, false
	}
	family := b[0]
	addr := func(b []byte) netip.Addr {
		if family == unix.AF_INET {
			return netip.AddrFrom4([4]byte(b))
		}
		return netip.AddrFrom16([16]byte(b)).Unmap()
	}
	return end{
		state:  b[1],
		local:  netip.AddrPortFrom(addr(b[8:24]), binary.BigEndian.Uint16(b[4:])),
		remote: netip.AddrPortFrom(addr(b[24:40]), binary.BigEndian.Uint16(b[6:])),
		cookie: binary.NativeEndian.Uint64(b[44:]),
		inode:  binary.NativeEndian.Uint32(b[68:]),
	}, true
}
