// Package address has what a virtual address needs of Linux's network: requests of rtnetlink and the decoder of their
// answers, and the packets that tell neighbours who has an address.
//
// A Conn belongs to one goroutine. It speaks of the network namespace in which it was opened. Every request is
// answered by the kernel before its method returns, or fails with the kernel's error, a unix.Errno. Nothing here
// decides when an address is held; the keeper does.
package address

import (
	"fmt"
	"net/netip"
	"strings"
)

// Address is an address, with the length of its network's prefix, on a network interface.
type Address struct {
	Prefix    netip.Prefix
	Interface string
}

// Parse reads ADDRESS/BITS@INTERFACE.
func Parse(s string) (Address, error) {
	text, name, ok := strings.Cut(s, "@")
	prefix, err := netip.ParsePrefix(text)
	a := Address{prefix, name}
	if !ok || err != nil {
		return a, fmt.Errorf("%q is no address on an interface; want ADDRESS/BITS@INTERFACE, such as 192.0.2.10/24@eth0 or 2001:db8::10/64@eth0", s)
	}
	return a, a.Check()
}

// Check returns what is wrong with the address on any machine.
func (a Address) Check() error {
	ip := a.Prefix.Addr()
	switch {
	case !a.Prefix.IsValid() || ip.Is4In6() || ip.Zone() != "":
		return fmt.Errorf("%v is no address with the length of its network's prefix; want one such as 192.0.2.10/24", a.Prefix)
	case ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%v cannot move between machines; want an address of one machine", ip)
	case ip.Is4() && a.Prefix.Bits() < 31 && (a.Prefix.Masked().Addr() == ip || broadcast(a.Prefix) == ip):
		return fmt.Errorf("%v is the first or last address of its network, which no machine may have; want another, or another length than %d", ip, a.Prefix.Bits())
	case a.Interface == "" || len(a.Interface) > 15 || strings.ContainsAny(a.Interface, "/: \t\n\x00"):
		return fmt.Errorf("%q is no name of a network interface; want one such as eth0", a.Interface)
	}
	return nil
}

// String is what Parse reads.
func (a Address) String() string { return a.Prefix.String() + "@" + a.Interface }

func broadcast(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}
