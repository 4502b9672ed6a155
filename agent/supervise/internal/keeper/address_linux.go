package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/address"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/mutation"
)

// addresses are the virtual addresses of a family, while its keeper holds them.
//
// Beside the address there are two filters at its interface, one a way. They pass the packets of the address while the
// gate is open, and drop them else: those that have it as their source on the way out, ARP included, and as their
// destination on the way in. The gate is the keeper's own: it closes at the end of the lease, and when the keeper dies.
// So an address that nobody could remove does not answer.
//
// The filters outlive the keeper, and mark the address as one of a keeper. A socket with a name, which only one process
// of a network namespace can have, shows that the keeper lives.
type addresses struct {
	list   []held
	conn   *address.Conn
	told   *address.Announcer
	gate   *netGuard
	number int   // of announcements
	at     int64 // of the next one, on the shared clock
}

// held is one of them.
type held struct {
	address.Address
	link  address.Link
	claim int // the socket; -1 if another process has it
	added bool
}

// rest returns how long after an announcement the next one follows; 0 is never. Receivers may lose one, and switches
// may be slow to learn of a link.
func rest(number int) time.Duration {
	after := [...]time.Duration{20 * time.Millisecond, 80 * time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}
	if number < len(after) {
		return after[number]
	}
	return 0
}

// appear adds the addresses of the specification, all or none, and announces them. They are heard until the end of the
// lease.
func (k *keeper) appear() (err error) {
	if len(k.spec.Addresses) == 0 || k.deadline != 0 && int64(clock.Now()) >= k.deadline {
		return nil // launch finds it too late
	}
	if k.addresses, err = newAddresses(k.spec.Addresses); err != nil {
		return err
	}
	if err := k.addresses.arm(); err != nil {
		k.addresses.close()
		k.addresses = nil
		return err
	}
	k.addresses.until(k.leaseEnd())
	for tries := range claimTries {
		if err = k.addresses.claim(); err != errClaimed || tries == claimTries-1 {
			break
		}
		time.Sleep(claimPause) // a candidate of this machine that looks for what was left
	}
	if err == nil {
		err = k.addresses.add()
	}
	if err != nil {
		k.withdraw()
		return err
	}
	k.addresses.announce(int64(clock.Now()))
	return nil
}

const (
	claimTries = 20
	claimPause = 10 * time.Millisecond
)

// withdraw removes the addresses. Whatever fails, they do not answer any more.
func (k *keeper) withdraw() {
	if k.addresses == nil || mutation.Is(mutation.AddressKept) {
		return
	}
	a := k.addresses
	a.gate.until(0)
	err := a.remove()
	a.gate = nil // it ends with this process: to empty or close its array takes the kernel tens of ms
	a.close()
	k.addresses = nil
	if err != nil {
		k.note("an address that does not answer any more could not be removed: " + err.Error())
	}
}

// newAddresses finds the interfaces.
func newAddresses(list []string) (_ *addresses, err error) {
	a := &addresses{}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.conn, err = address.Open(); err != nil {
		return nil, fmt.Errorf("netlink cannot be used: %w", err)
	}
	for _, text := range list {
		h := held{claim: -1}
		if h.Address, err = address.Decode(text); err != nil {
			return nil, err
		}
		if h.link, err = a.conn.Link(h.Interface); err == unix.ENODEV {
			return nil, fmt.Errorf("%v: there is no network interface %s; want one of %s", h.Address, h.Interface, interfaces())
		} else if err != nil {
			return nil, fmt.Errorf("%v: %w", h.Address, err)
		}
		if !h.link.Ethernet {
			return nil, fmt.Errorf("%v: %s is no Ethernet interface; want one, such as eth0", h.Address, h.Interface)
		}
		if off := setting(h.Interface, "disable_ipv6"); len(h.IP) == 16 && off != "0" {
			return nil, fmt.Errorf("%v: IPv6 is disabled on %s; want net.ipv6.conf.%s.disable_ipv6=0", h.Address, h.Interface, h.Interface)
		}
		a.list = append(a.list, h)
	}
	return a, nil
}

// arm gets what add needs, with a gate that is closed.
func (a *addresses) arm() (err error) {
	if a.told, err = address.NewAnnouncer(); err != nil {
		return fmt.Errorf("an address cannot be announced: %w; want CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF", err)
	}
	if a.gate, err = newGate(wayOfLink, addressDeadlineProgram); err != nil {
		return fmt.Errorf("an address cannot be bound to a lease: %w; want CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW, a seccomp profile that allows bpf, and Linux 5.8", err)
	}
	return nil
}

// interfaces lists the names of the network interfaces.
func interfaces() string {
	links, _ := os.ReadFile("/proc/net/dev")
	var names []string
	for line := range strings.Lines(string(links)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return strings.Join(names, ", ")
}

// setting reads a setting of IPv6 of an interface; "" if there is none.
func setting(link, name string) string {
	text, _ := os.ReadFile("/proc/sys/net/ipv6/conf/" + link + "/" + name)
	return strings.TrimSpace(string(text))
}

var errClaimed = errors.New("another process of this machine has a virtual address that this one needs; want each address in one election only")

// claim takes the names of all addresses. errClaimed is the error if another process has one.
func (a *addresses) claim() error {
	for i := range a.list {
		h := &a.list[i]
		if h.claim >= 0 {
			continue
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@elect/address/%d/%x", h.link.Index, h.IP)}); err != nil {
			unix.Close(fd)
			if err == unix.EADDRINUSE {
				err = errClaimed
			}
			return err
		}
		h.claim = fd
	}
	return nil
}

// add adds the filters, and then the addresses.
func (a *addresses) add() error {
	for i := range a.list {
		h := &a.list[i]
		if has, _, err := a.conn.Has(h.IP); err != nil {
			return fmt.Errorf("%v: %w", h.Address, err)
		} else if has {
			return errForeign(h.Address)
		}
		if err := a.filter(h); err != nil {
			return err
		}
		if err := a.conn.Add(h.Address, h.link.Index); err == unix.EEXIST {
			h.added = false // it was added since
			return errors.Join(errForeign(h.Address), a.unfilter(h))
		} else if err != nil {
			return fmt.Errorf("%v cannot be added: %w", h.Address, err)
		}
	}
	return nil
}

func errForeign(h address.Address) error {
	return fmt.Errorf("%v: this machine has that address, and not from elect; want it removed (ip address del), or another one", h)
}

// filter puts the filters at the interface.
func (a *addresses) filter(h *held) error {
	h.added = true
	for _, way := range []address.Way{address.In, address.Out} {
		program, err := wayOfLink.load("elect_address", addressProgram(a.gate.gate, h.IP, way))
		if err == nil {
			err = a.conn.Filter(h.link.Index, way, h.Address, program)
			unix.Close(program)
		}
		if err != nil {
			return fmt.Errorf("%v: the packets of %s cannot be filtered: %w; want CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW, and a kernel with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF", h.Address, h.Interface, err)
		}
	}
	return nil
}

func (a *addresses) unfilter(h *held) error {
	return errors.Join(a.conn.Unfilter(h.link.Index, address.In, h.IP), a.conn.Unfilter(h.link.Index, address.Out, h.IP))
}

// remove removes what add has added. The filters come last: without the address they do nothing.
func (a *addresses) remove() (err error) {
	for i := range a.list {
		h := &a.list[i]
		if !h.added {
			continue
		}
		failed := a.conn.Delete(h.Address, h.link.Index)
		if failed == nil {
			failed = a.unfilter(h)
		}
		if h.added = failed != nil; h.added {
			err = errors.Join(err, fmt.Errorf("%v: %w", h.Address, failed))
		}
	}
	return err
}

// until sets the end of the lease; 0 is never.
func (a *addresses) until(end int64) {
	if a == nil {
		return
	}
	if end == 0 {
		end = math.MaxInt64
	}
	a.gate.until(end)
}

// announce tells the neighbours, if it is time to.
func (a *addresses) announce(now int64) {
	if a == nil || now < a.at || a.at == 0 && a.number > 0 {
		return
	}
	for i := range a.list {
		h := &a.list[i]
		// A full queue loses one of several; an interface that is down has no neighbours.
		_ = a.told.Announce(h.link, h.IP, len(h.IP) == 16 && setting(h.Interface, "forwarding") == "1")
	}
	a.at = 0
	if pause := rest(a.number); pause != 0 {
		a.at = now + int64(pause)
	}
	a.number++
}

// next is when to announce again; 0 is never.
func (a *addresses) next() int64 {
	if a == nil {
		return 0
	}
	return a.at
}

func (a *addresses) close() {
	if a.conn != nil {
		a.conn.Close()
	}
	if a.told != nil {
		a.told.Close()
	}
	if a.gate != nil {
		a.gate.close()
	}
	for _, h := range a.list {
		if h.claim >= 0 {
			unix.Close(h.claim)
		}
	}
}

// CheckAddresses returns why this process could not hold the addresses. What a keeper that was killed together with its
// parent has left of them is removed. One that a process of this machine holds is left alone: it may be that of another
// candidate.
func CheckAddresses(list []string) error {
	a, err := newAddresses(list)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.arm(); err != nil {
		return err
	}
	if err := a.claim(); err == errClaimed {
		return nil // the leader has been through all this
	} else if err != nil {
		return err
	}
	if err := a.left(); err != nil {
		return err
	}
	for i := range a.list {
		err = errors.Join(err, a.filter(&a.list[i])) // to try it, without the address
	}
	return errors.Join(err, a.remove())
}

// DropAddresses removes the addresses of a keeper that is dead, unless another process has them since.
func DropAddresses(list []string) error {
	a, err := newAddresses(list)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.claim(); err == errClaimed {
		return nil
	} else if err != nil {
		return err
	}
	return a.left()
}

// left removes the addresses that have filters, and the filters.
func (a *addresses) left() error {
	for i := range a.list {
		h := &a.list[i]
		out, err := a.conn.Filtered(h.link.Index, address.Out, h.IP)
		if err != nil {
			return fmt.Errorf("%v: %w", h.Address, err)
		}
		h.added = out
		if has, at, err := a.conn.Has(h.IP); err == nil && has && (!out || at != h.link.Index) {
			return errForeign(h.Address)
		}
	}
	return a.remove()
}

// addressDeadlineProgram lets packets go on until the deadline.
func addressDeadlineProgram(deadlines int) []uint64 {
	return assemble([]instruction{
		{op: callHelper, imm: bpfKtimeGetBootNanos},
		{op: load64k, dst: 1, src: bpfPseudoMapValue, imm: int32(deadlines)},
		{op: load64, dst: 1, src: 1},
		{op: belowX, dst: 0, src: 1, to: "pass"},
		{op: setK, dst: 0, imm: linkDrop},
		{op: opExit},
		{op: setK, dst: 0, imm: linkNext, label: "pass"},
		{op: opExit},
	})
}

// The verdicts on packets of a link: linux/pkt_cls.h.
const (
	linkNext = -1 // TC_ACT_UNSPEC: the next filter decides
	linkDrop = 2  // TC_ACT_SHOT
)

// addressProgram sends the packets of the address through the gate: those to it on the way in, those from it on the way
// out. Other packets go on.
func addressProgram(gate int, ip []byte, way address.Way) []uint64 {
	const stack, protocol, ethernet = -16, 16, 14 // protocol is in __sk_buff
	ipv4, arp, ipv6 := network(0x0800), network(0x0806), network(0x86dd)
	source, destination := int32(ethernet+12), int32(ethernet+16)
	kind := ipv4
	if len(ip) == 16 {
		source, destination, kind = ethernet+8, ethernet+24, ipv6
	}
	at := source
	if way == address.In {
		at = destination
	}
	code := []instruction{
		{op: setX, dst: 6, src: 1},
		{op: load32, dst: 2, src: 6, off: protocol},
		{op: setK, dst: 7, imm: at},
		{op: equalK, dst: 2, imm: kind, to: "load"},
	}
	if len(ip) == 4 && way == address.Out {
		code = append(code, instruction{op: setK, dst: 7, imm: ethernet + 14}, instruction{op: equalK, dst: 2, imm: arp, to: "load"})
	}
	code = append(code,
		instruction{op: goTo, to: "pass"},
		instruction{op: setX, dst: 1, src: 6, label: "load"},
		instruction{op: setX, dst: 2, src: 7},
		instruction{op: setX, dst: 3, src: 10},
		instruction{op: addK, dst: 3, imm: stack},
		instruction{op: setK, dst: 4, imm: int32(len(ip))},
		instruction{op: callHelper, imm: bpfLoadBytes},
		instruction{op: otherK, dst: 0, imm: 0, to: "pass"}, // too short
	)
	for i := 0; i < len(ip); i += 4 {
		code = append(code, instruction{op: load32, dst: 1, src: 10, off: int16(stack + i)},
			instruction{op: other32K, dst: 1, imm: int32(binary.LittleEndian.Uint32(ip[i:])), to: "pass"})
	}
	return assemble(append(code,
		instruction{op: setX, dst: 1, src: 6},
		instruction{op: load64k, dst: 2, src: bpfPseudoMapFD, imm: int32(gate)},
		instruction{op: setK, dst: 3, imm: 0},
		instruction{op: callHelper, imm: bpfTailCall},
		instruction{op: setK, dst: 0, imm: linkDrop},
		instruction{op: opExit},
		instruction{op: setK, dst: 0, imm: linkNext, label: "pass"},
		instruction{op: opExit},
	))
}

// network is a type of Ethernet as a little-endian machine reads it.
func network(kind int32) int32 { return kind>>8 | kind&0xff<<8 }
