//go:build linux

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// netlink is a socket to a part of the kernel, in the namespace in which it was
// opened. Its methods may be called by any number of goroutines.
type netlink struct {
	mu  sync.Mutex
	fd  int
	seq uint32
}

// maxRequest bounds what is sent at once, in bytes.
const maxRequest = 8 << 20

func openNetlink(protocol int) (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("a netlink socket: %w", err)
	}
	l := &netlink{fd: fd}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, errors.Join(fmt.Errorf("a netlink socket: %w", err), l.close())
	}
	// Without the right to it the usual sizes must do.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, maxRequest)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, maxRequest)
	return l, nil
}

func (l *netlink) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return unix.Close(l.fd)
}

// packet is what is sent: one message or more.
type packet struct {
	bytes []byte
	seq   uint32
	last  int // where the last message begins
}

// message appends a message of that type and those flags, whose body is what fill
// appends.
func (p *packet) message(kind uint16, flags uint16, fill func()) {
	p.seq++
	p.last = len(p.bytes)
	p.bytes = append(p.bytes, make([]byte, unix.SizeofNlMsghdr)...)
	fill()
	head := p.bytes[p.last:]
	binary.NativeEndian.PutUint32(head, uint32(len(head)))
	binary.NativeEndian.PutUint16(head[4:], kind)
	binary.NativeEndian.PutUint16(head[6:], flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(head[8:], p.seq)
	p.align()
}

// acknowledge has the last message answered, if all before it went well too, and
// returns its number.
func (p *packet) acknowledge() uint32 {
	flags := p.bytes[p.last+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|unix.NLM_F_ACK)
	return p.seq
}

func (p *packet) align() {
	for len(p.bytes)%unix.NLMSG_ALIGNTO != 0 {
		p.bytes = append(p.bytes, 0)
	}
}

// attribute appends one whose value is what fill appends.
func (p *packet) attribute(kind uint16, fill func()) {
	start := len(p.bytes)
	p.bytes = append(p.bytes, 0, 0, 0, 0)
	fill()
	binary.NativeEndian.PutUint16(p.bytes[start:], uint16(len(p.bytes)-start))
	binary.NativeEndian.PutUint16(p.bytes[start+2:], kind)
	p.align()
}

func (p *packet) nest(kind uint16, fill func()) { p.attribute(kind|unix.NLA_F_NESTED, fill) }

func (p *packet) data(kind uint16, value ...byte) {
	p.attribute(kind, func() { p.bytes = append(p.bytes, value...) })
}

func (p *packet) text(kind uint16, value string) { p.data(kind, append([]byte(value), 0)...) }

func (p *packet) number(kind uint16, value uint32) {
	p.data(kind, binary.BigEndian.AppendUint32(nil, value)...)
}

// send sends what build appends, and hands each answer to take: the type of the
// message, its sequence number and its body. It ends when take returns true, or
// with the first error that the kernel answers with.
func (l *netlink) send(build func(*packet), take func(kind uint16, seq uint32, body []byte) (done bool)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &packet{seq: l.seq}
	build(p)
	first := l.seq + 1
	l.seq = p.seq
	if err := unix.Sendto(l.fd, p.bytes, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("asking the kernel: %w", err)
	}
	buf := make([]byte, 1<<16)
	for {
		n, err := receive(l.fd, buf)
		if err != nil {
			return fmt.Errorf("the kernel's answer: %w", err)
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(rest))
			kind, seq := binary.NativeEndian.Uint16(rest[4:]), binary.NativeEndian.Uint32(rest[8:])
			if size < unix.SizeofNlMsghdr || size > len(rest) {
				return fmt.Errorf("the kernel's answer: a message of %d bytes in %d", size, len(rest))
			}
			body := rest[unix.SizeofNlMsghdr:size]
			rest = rest[min(len(rest), (size+3)&^3):]
			if seq-first >= 1<<31 {
				continue // to an earlier request, which has failed
			}
			if kind == unix.NLMSG_ERROR && len(body) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(body)); code != 0 {
					return unix.Errno(-code)
				}
			}
			if take(kind, seq, body) {
				return nil
			}
		}
	}
}

// receive waits for the kernel's answer, which comes at once or never.
func receive(fd int, buf []byte) (int, error) {
	if err := await(fd, answerTime); err != nil {
		return 0, err
	}
	n, _, err := unix.Recvfrom(fd, buf, 0)
	return n, err
}

// answerTime is how long the kernel may take to answer, in milliseconds.
const answerTime = 5000

// await waits until a socket can be read, for at most so many milliseconds.
func await(fd, limit int) error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, limit)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return errNothing
		default:
			return nil
		}
	}
}

var errNothing = errors.New("nothing came")
