// Package address has what a virtual address needs of Linux's network: requests of rtnetlink and the decoder of their
// answers, and the packets that tell neighbours who has an address.
//
// A Conn belongs to one goroutine. It speaks of the network namespace in which it was opened. Every request is
// answered by the kernel before its method returns, or fails with the kernel's error, a unix.Errno. Nothing here
// decides when an address is held; the keeper does. It imports little, as the keeper: not net/netip, which is
// initialized late.
package address

import (
	"errors"
	"strings"
)

// Address is an address, with the length of its network's prefix, on a network interface.
type Address struct {
	IP        []byte // 4 or 16
	Bits      int
	Interface string
	Text      string // for people
}

// String is Text.
func (a Address) String() string { return a.Text }

// Encode is what Decode reads.
func (a Address) Encode() string {
	return string(append([]byte{byte(len(a.IP)), byte(a.Bits)}, a.IP...)) + a.Interface + "\x00" + a.Text
}

var errAddress = errors.New("the encoding of an address is malformed")

// Decode reads what Encode wrote.
func Decode(s string) (a Address, err error) {
	if len(s) < 2 || s[0] != 4 && s[0] != 16 || len(s) < 2+int(s[0]) || int(s[1]) > 8*int(s[0]) {
		return a, errAddress
	}
	a.IP, a.Bits = []byte(s[2:2+s[0]]), int(s[1])
	ok := false
	if a.Interface, a.Text, ok = strings.Cut(s[2+s[0]:], "\x00"); !ok {
		return a, errAddress
	}
	return a, nil
}
