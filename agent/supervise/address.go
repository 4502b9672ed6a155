package supervise

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/electd/elect/agent/supervise/internal/address"
	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// ErrAddress is what CheckAddresses and Start return if a family cannot hold its addresses. The error says what is
// missing.
var ErrAddress = errors.New("supervise: a virtual address cannot be held")

// Address is an address that moves with leadership, with the length of its network's prefix, on a network interface of
// this machine.
type Address struct {
	Prefix    netip.Prefix
	Interface string
}

// ParseAddress reads ADDRESS/BITS@INTERFACE, such as 192.0.2.10/24@eth0 or 2001:db8::10/64@eth0.
func ParseAddress(s string) (Address, error) {
	text, name, ok := strings.Cut(s, "@")
	prefix, err := netip.ParsePrefix(text)
	a := Address{prefix, name}
	if !ok || err != nil {
		return a, fmt.Errorf("%q is no address on an interface; want ADDRESS/BITS@INTERFACE, such as 192.0.2.10/24@eth0 or 2001:db8::10/64@eth0", s)
	}
	return a, a.check()
}

// String is what ParseAddress reads.
func (a Address) String() string { return a.Prefix.String() + "@" + a.Interface }

// check returns what is wrong with the address on any machine.
func (a Address) check() error {
	ip := a.Prefix.Addr()
	switch {
	case !a.Prefix.IsValid() || ip.Is4In6() || ip.Zone() != "":
		return fmt.Errorf("%v is no address with the length of its network's prefix; want one such as 192.0.2.10/24", a.Prefix)
	case ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%v cannot move between machines; want an address of one machine", ip)
	case ip.Is4() && a.Prefix.Bits() < 31 && (a.Prefix.Masked().Addr() == ip || !a.Prefix.Contains(ip.Next())):
		return fmt.Errorf("%v is the first or last address of its network, which no machine may have; want another, or another length than %d", ip, a.Prefix.Bits())
	case a.Interface == "" || len(a.Interface) > 15 || strings.ContainsAny(a.Interface, "/: \t\n\x00"):
		return fmt.Errorf("%q is no name of a network interface; want one such as eth0", a.Interface)
	}
	return nil
}

// CheckAddresses tries what a keeper needs to hold the addresses for a family in the containment c, which may be nil.
// It is called before a campaign. What a keeper that was killed together with its parent has left of the addresses is
// removed; an address that this machine has for any other reason is an error. All errors match ErrAddress.
func CheckAddresses(c *Containment, list ...Address) error {
	err := checkAddresses(list)
	if err == nil && c != nil && c.user {
		err = errors.New("at the level pid the keeper of this user is in a user namespace, where it has no right to the network; want CAP_SYS_ADMIN, too, or the level cgroup or sweep")
	}
	if err == nil {
		err = keeper.CheckAddresses(encoded(list))
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrAddress, err)
}

func checkAddresses(list []Address) error {
	if len(list) > keeper.MaxAddresses {
		return fmt.Errorf("%d virtual addresses; want at most %d", len(list), keeper.MaxAddresses)
	}
	seen := map[netip.Addr]bool{}
	for _, a := range list {
		if err := a.check(); err != nil {
			return err
		}
		if seen[a.Prefix.Addr()] {
			return fmt.Errorf("%v is listed twice; want it once", a.Prefix.Addr())
		}
		seen[a.Prefix.Addr()] = true
	}
	return nil
}

// encoded is for the keeper.
func encoded(list []Address) (all []string) {
	for _, a := range list {
		all = append(all, address.Address{IP: a.Prefix.Addr().AsSlice(), Bits: a.Prefix.Bits(), Interface: a.Interface, Text: a.String()}.Encode())
	}
	return all
}
