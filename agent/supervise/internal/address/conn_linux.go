package address

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a socket to rtnetlink.
type Conn struct {
	fd  int
	seq uint32
}

// Open opens a Conn in the network namespace of the calling thread.
func Open() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	patience := unix.NsecToTimeval(int64(time.Second)) // the kernel answers at once
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience), unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Conn{fd: fd}, nil
}

// Close closes the socket.
func (c *Conn) Close() { unix.Close(c.fd) }

// Link is a network interface.
type Link struct {
	Index    int
	Ethernet bool
	MAC      [6]byte
}

// Link finds an interface by its name; unix.ENODEV is the error if there is none.
func (c *Conn) Link(name string) (l Link, err error) {
	r := request{kind: unix.RTM_GETLINK, body: make([]byte, unix.SizeofIfInfomsg)}
	r.attribute(unix.IFLA_IFNAME, append([]byte(name), 0))
	found := false
	err = c.ask(&r, 0, func(m message) {
		if m.kind != unix.RTM_NEWLINK || len(m.body) < unix.SizeofIfInfomsg {
			return
		}
		found = true
		l.Ethernet = binary.NativeEndian.Uint16(m.body[2:]) == unix.ARPHRD_ETHER
		l.Index = int(int32(binary.NativeEndian.Uint32(m.body[4:])))
		for kind, value := range attributes(m.body[unix.SizeofIfInfomsg:]) {
			if kind == unix.IFLA_ADDRESS && len(value) == len(l.MAC) {
				l.MAC = [6]byte(value)
			}
		}
	})
	if err == nil && !found {
		err = unix.ENODEV
	}
	return l, err
}

// Has reports whether the machine has the address, and on which interface.
func (c *Conn) Has(ip []byte) (has bool, index int, err error) {
	r := request{kind: unix.RTM_GETADDR, body: make([]byte, unix.SizeofIfAddrmsg)}
	r.body[0] = family(ip)
	err = c.ask(&r, unix.NLM_F_DUMP, func(m message) {
		if m.kind != unix.RTM_NEWADDR || len(m.body) < unix.SizeofIfAddrmsg {
			return
		}
		var local, other []byte
		for kind, value := range attributes(m.body[unix.SizeofIfAddrmsg:]) {
			switch kind {
			case unix.IFA_LOCAL:
				local = value
			case unix.IFA_ADDRESS:
				other = value // the peer's on a point-to-point link; for IPv6 there is no other
			}
		}
		if local == nil {
			local = other
		}
		if slices.Equal(local, ip) {
			has, index = true, int(int32(binary.NativeEndian.Uint32(m.body[4:])))
		}
	})
	return has, index, err
}

// forever is a lifetime that does not end.
const forever = ^uint32(0)

// Add adds the address to an interface; unix.EEXIST is the error if it is there. One of IPv6 may be used at once: its
// uniqueness is not checked (RFC 4862, 5.4), because the election has done so, and it is deprecated (5.5.4), so that
// this machine does not choose it for connections that it makes.
func (c *Conn) Add(a Address, index int) error {
	r := addressRequest(unix.RTM_NEWADDR, a, index)
	if len(a.IP) == 16 {
		r.attribute(unix.IFA_FLAGS, binary.NativeEndian.AppendUint32(nil, unix.IFA_F_NODAD))
		life := binary.NativeEndian.AppendUint32(make([]byte, 4, 16), forever) // struct ifa_cacheinfo
		r.attribute(unix.IFA_CACHEINFO, append(life, make([]byte, 8)...))
	}
	return c.ask(&r, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nil)
}

// Delete deletes the address. That it is not there, or its interface, is no error.
func (c *Conn) Delete(a Address, index int) error {
	r := addressRequest(unix.RTM_DELADDR, a, index)
	err := c.ask(&r, 0, nil)
	if err == unix.EADDRNOTAVAIL || err == unix.ENODEV {
		return nil
	}
	return err
}

func addressRequest(kind uint16, a Address, index int) request {
	r := request{kind: kind, body: []byte{family(a.IP), byte(a.Bits), 0, unix.RT_SCOPE_UNIVERSE}}
	r.body = binary.NativeEndian.AppendUint32(r.body, uint32(index))
	r.attribute(unix.IFA_LOCAL, a.IP)
	r.attribute(unix.IFA_ADDRESS, a.IP)
	return r
}

func family(ip []byte) byte {
	if len(ip) == 4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// Way is a direction of packets.
type Way uint32

// The ways; the values are the lower halves of handles of linux/pkt_sched.h.
const (
	In  Way = 0xfff2
	Out Way = 0xfff3
)

// Of linux/pkt_sched.h and linux/pkt_cls.h.
const (
	clsact         = 0xffff0000 // a handle; its parent is clsact | 0xfff1
	directAction   = 1
	tcaBpfFD       = 6
	tcaBpfName     = 7
	tcaBpfFlags    = 8
	filterPriority = 1 // the first to see a packet
)

// Filter has a program of BPF decide about the packets of an interface in one way. It stays when this process ends.
// There is one for each address; it replaces an earlier one.
func (c *Conn) Filter(index int, way Way, a Address, program int) error {
	q := request{kind: unix.RTM_NEWQDISC, body: trafficMessage(index, clsact, clsact|0xfff1, 0)}
	q.attribute(unix.TCA_KIND, []byte("clsact\x00"))
	if err := c.ask(&q, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nil); err != nil && err != unix.EEXIST {
		return err
	}
	r := filterRequest(unix.RTM_NEWTFILTER, index, way, a.IP)
	var of request
	of.attribute(tcaBpfFD, binary.NativeEndian.AppendUint32(nil, uint32(program)))
	of.attribute(tcaBpfName, []byte("elect "+a.Text+"\x00"))
	of.attribute(tcaBpfFlags, binary.NativeEndian.AppendUint32(nil, directAction))
	r.attribute(unix.TCA_OPTIONS, of.body)
	return c.ask(&r, unix.NLM_F_CREATE, nil)
}

// Unfilter removes a filter. That there is none is no error.
func (c *Conn) Unfilter(index int, way Way, ip []byte) error {
	r := filterRequest(unix.RTM_DELTFILTER, index, way, ip)
	if err := c.ask(&r, 0, nil); !absent(err) {
		return err
	}
	return nil
}

// Filtered reports whether there is a filter.
func (c *Conn) Filtered(index int, way Way, ip []byte) (bool, error) {
	r := filterRequest(unix.RTM_GETTFILTER, index, way, ip)
	err := c.ask(&r, 0, nil)
	if absent(err) {
		return false, nil
	}
	return err == nil, err
}

// absent reports whether there is no filter of that number, no other one, or nothing that could have one.
func absent(err error) bool { return err == unix.ENOENT || err == unix.EINVAL || err == unix.ENODEV }

func filterRequest(kind uint16, index int, way Way, ip []byte) request {
	handle := uint32(2166136261) // FNV-1a of the address
	for _, b := range ip {
		handle = (handle ^ uint32(b)) * 16777619
	}
	const all = uint32(unix.ETH_P_ALL&0xff<<8 | unix.ETH_P_ALL>>8) // in network order, as little-endian machines have it
	r := request{kind: kind, body: trafficMessage(index, max(handle, 1), clsact|uint32(way), filterPriority<<16|all)}
	r.attribute(unix.TCA_KIND, []byte("bpf\x00"))
	return r
}

// trafficMessage is a struct tcmsg.
func trafficMessage(index int, handle, parent, info uint32) []byte {
	b := binary.NativeEndian.AppendUint32(make([]byte, 4, 20), uint32(index))
	for _, n := range []uint32{handle, parent, info} {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	return b
}

// request is a message to the kernel: the fixed part of its body, and attributes.
type request struct {
	kind uint16
	body []byte
}

func (r *request) attribute(kind uint16, value []byte) {
	r.body = binary.NativeEndian.AppendUint16(r.body, uint16(attributeSize+len(value)))
	r.body = binary.NativeEndian.AppendUint16(r.body, kind)
	r.body = append(r.body, value...)
	r.body = append(r.body, make([]byte, align(len(r.body))-len(r.body))...)
}

// ask sends a request and hands each message of the answer to take, which may be nil. It returns the kernel's error.
func (c *Conn) ask(r *request, flags uint16, take func(message)) error {
	c.seq++
	b := binary.NativeEndian.AppendUint32(nil, uint32(headerSize+len(r.body)))
	b = binary.NativeEndian.AppendUint16(b, r.kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	b = binary.NativeEndian.AppendUint32(b, c.seq)
	b = append(append(b, 0, 0, 0, 0), r.body...)
	if err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(c.fd, buf, 0)
		if err == unix.EINTR {
			continue
		} else if err != nil {
			return err
		}
		for m, err := range messages(buf[:n]) {
			switch {
			case err != nil:
				return err
			case m.seq != c.seq: // to an earlier request, which has failed
			case m.kind == unix.NLMSG_ERROR || m.kind == unix.NLMSG_DONE:
				if len(m.body) < 4 {
					return errMalformed
				}
				if code := int32(binary.NativeEndian.Uint32(m.body)); code != 0 {
					return unix.Errno(-code)
				}
				return nil
			case take != nil:
				take(m)
			}
		}
	}
}
