package keeper

// Destination is where packets may go after the deadline: an address of 4 or 16 bytes, and a port, or 0 for any. It is
// not a netip.AddrPort: package netip is initialized late.
type Destination struct {
	Addr []byte
	Port uint16
}

// Limit is a limit of a cgroup: Value is written to the file Name.max.
type Limit struct{ Name, Value string }
