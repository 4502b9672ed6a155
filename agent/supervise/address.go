package supervise

import (
	"errors"
	"fmt"
	"net/netip"

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
	a, err := address.Parse(s)
	return Address(a), err
}

// String is what ParseAddress reads.
func (a Address) String() string { return address.Address(a).String() }

// CheckAddresses tries what a keeper needs to hold the addresses for a family in the containment c, which may be nil.
// It is called before a campaign. What a keeper that was killed together with its parent has left of the addresses is
// removed; an address that this machine has for any other reason is an error. All errors match ErrAddress.
func CheckAddresses(c *Containment, list ...Address) error {
	err := checkAddresses(list)
	if err == nil && c != nil && c.user {
		err = errors.New("at the level pid the keeper of this user is in a user namespace, where it has no right to the network; want CAP_SYS_ADMIN, too, or the level cgroup or sweep")
	}
	if err == nil {
		err = keeper.CheckAddresses(texts(list))
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
		if err := address.Address(a).Check(); err != nil {
			return err
		}
		if seen[a.Prefix.Addr()] {
			return fmt.Errorf("%v is listed twice; want it once", a.Prefix.Addr())
		}
		seen[a.Prefix.Addr()] = true
	}
	return nil
}

func texts(list []Address) (all []string) {
	for _, a := range list {
		all = append(all, a.String())
	}
	return all
}
