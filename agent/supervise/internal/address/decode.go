package address

import (
	"encoding/binary"
	"errors"
	"iter"
)

// message is one of netlink.
type message struct {
	kind uint16
	seq  uint32
	body []byte
}

const (
	headerSize    = 16 // struct nlmsghdr
	attributeSize = 4  // struct nlattr
)

var errMalformed = errors.New("the kernel's answer is malformed")

// messages splits what was read from a socket. After an error there are no more.
func messages(b []byte) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for len(b) > 0 {
			if len(b) < headerSize {
				yield(message{}, errMalformed)
				return
			}
			size := int(binary.NativeEndian.Uint32(b))
			if size < headerSize || size > len(b) {
				yield(message{}, errMalformed)
				return
			}
			m := message{binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint32(b[8:]), b[headerSize:size]}
			if !yield(m, nil) {
				return
			}
			b = b[min(align(size), len(b)):]
		}
	}
}

// attributes are those of a message, after its fixed part. A malformed one ends them.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= attributeSize {
			size := int(binary.NativeEndian.Uint16(b))
			if size < attributeSize || size > len(b) {
				return
			}
			const flags = 0xc000 // nested, and in network order
			if !yield(binary.NativeEndian.Uint16(b[2:])&^flags, b[attributeSize:size]) {
				return
			}
			b = b[min(align(size), len(b)):]
		}
	}
}

func align(n int) int { return (n + 3) &^ 3 }
