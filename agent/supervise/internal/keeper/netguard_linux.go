package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// netGuard lets the packets of a cgroup, and of those below it, out until an instant of CLOCK_BOOTTIME. The kernel
// compares the clock with it for each packet, on its way out, retransmissions included.
//
// There are two programs. The gate is attached to the cgroup, and stays so until the cgroup and the sockets that were
// opened in it are gone. It is not attached by a link, because that ends, and lets everything out, when its last
// descriptor is closed. The gate calls the second program through an array, and drops the packet if the array has
// none. The kernel empties such an array when its last descriptor is closed: so the guard is closed once its holders,
// parent and keeper, are both dead. The second program compares the clock with the deadline.
//
// bpf(2) is called without a library: so few instructions need no compiler, no loader and no type information.
type netGuard struct {
	mu     sync.Mutex // guards what follows: a cgroup may be removed while its lease is renewed
	memory []byte     // the deadline, shared with the kernel; nil in the keeper, and when closed
	gate   int        // the array, which is what keeps the guard open; -1 when closed
}

// The parts of bpf(2) that are used here, by the names of linux/bpf.h.
const (
	bpfMapCreate, bpfMapUpdate, bpfMapDelete, bpfProgLoad, bpfProgAttach = 0, 2, 3, 5, 8 // commands

	bpfMapArray, bpfMapProgArray = 2, 3
	bpfMmapable                  = 1 << 10
	bpfProgSchedCls              = 3
	bpfProgCgroupSKB             = 8
	bpfCgroupInetEgress          = 1
	bpfAllowMulti                = 2 // programs of cgroups above and below count, too: each must let a packet pass
	bpfPseudoMapFD               = 1
	bpfPseudoMapValue            = 2
	bpfTailCall                  = 12
	bpfLoadBytes                 = 26
	bpfFullSock                  = 95
	bpfKtimeGetBootNanos         = 125
)

// instruction is one of BPF: an operation, two registers, an offset and a number.
type instruction struct {
	op, dst, src byte
	off          int16
	imm          int32
	to, label    string // it jumps to the instruction with that label
}

// The operations that are used here: loads, arithmetic with a number (k) or a register (x), jumps.
const (
	load64k, load64, load32, load16, load8 = 0x18, 0x79, 0x61, 0x69, 0x71
	setK, setX, addK, andK, shiftK         = 0xb7, 0xbf, 0x07, 0x57, 0x67
	goTo, equalK, otherK, other32K, belowK = 0x05, 0x15, 0x55, 0x56, 0xa5
	belowX, hasK, callHelper, opExit       = 0xad, 0x45, 0x85, 0x95
)

// assemble encodes instructions as little-endian machines do.
func assemble(list []instruction) (code []uint64) {
	at := map[string]int{}
	var where []int
	n := 0
	for _, i := range list {
		if i.label != "" {
			at[i.label] = n
		}
		where = append(where, n)
		if n++; i.op == load64k { // has two words
			n++
		}
	}
	for k, i := range list {
		if i.to != "" {
			i.off = int16(at[i.to] - where[k] - 1)
		}
		code = append(code, uint64(i.op)|uint64(i.dst|i.src<<4)<<8|uint64(uint16(i.off))<<16|uint64(uint32(i.imm))<<32)
		if i.op == load64k {
			code = append(code, 0)
		}
	}
	return code
}

// gateProgram goes on with the program in the array, if there is one, and else drops the packet.
func gateProgram(array int) []uint64 {
	return assemble([]instruction{
		{op: load64k, dst: 2, src: bpfPseudoMapFD, imm: int32(array)},
		{op: setK, dst: 3, imm: 0},
		{op: callHelper, imm: bpfTailCall}, // (r1, r2, r3): does not return if it succeeds
		{op: setK, dst: 0, imm: 0},
		{op: opExit},
	})
}

// deadlineProgram lets all packets pass until the deadline. Afterwards it passes those to an allowed destination, and
// resets of TCP, which have no data and tell a server that the connection is over. To its sender a dropped packet is
// EPERM; TCP tries again later.
func deadlineProgram(deadlines int, allow []Destination) []uint64 {
	const stack, sk, protocol, version, next, flags = -8, 168, 12, 0, 6, 13 // of __sk_buff, bpf_sock, and headers
	return assemble(slices.Concat([]instruction{
		{op: setX, dst: 6, src: 1}, // the packet
		{op: callHelper, imm: bpfKtimeGetBootNanos},
		{op: load64k, dst: 1, src: bpfPseudoMapValue, imm: int32(deadlines)},
		{op: load64, dst: 1, src: 1},
		{op: belowX, dst: 0, src: 1, to: "pass"},
	}, allowed(allow), []instruction{
		// What a TCP socket sends was made by the kernel, unlike what a raw one does.
		{op: load64, dst: 1, src: 6, off: sk, label: "no"},
		{op: equalK, dst: 1, imm: 0, to: "drop"},
		{op: callHelper, imm: bpfFullSock},
		{op: equalK, dst: 0, imm: 0, to: "drop"},
		{op: load32, dst: 1, src: 0, off: protocol},
		{op: otherK, dst: 1, imm: unix.IPPROTO_TCP, to: "drop"},

		// The IP header: where that of TCP begins.
		{op: setX, dst: 1, src: 6},
		{op: setK, dst: 2, imm: 0},
		{op: setX, dst: 3, src: 10},
		{op: addK, dst: 3, imm: stack},
		{op: setK, dst: 4, imm: 8},
		{op: callHelper, imm: bpfLoadBytes},
		{op: otherK, dst: 0, imm: 0, to: "drop"},
		{op: load8, dst: 2, src: 10, off: stack + version},
		{op: belowK, dst: 2, imm: 0x60, to: "v4"},
		{op: load8, dst: 1, src: 10, off: stack + next},
		{op: otherK, dst: 1, imm: unix.IPPROTO_TCP, to: "drop"}, // options of IPv6 are not followed
		{op: setK, dst: 2, imm: 40},
		{op: goTo, to: "tcp"},
		{op: andK, dst: 2, imm: 15, label: "v4"}, // its length, in words of 32 bits
		{op: shiftK, dst: 2, imm: 2},

		{op: addK, dst: 2, imm: flags, label: "tcp"},
		{op: setX, dst: 1, src: 6},
		{op: setX, dst: 3, src: 10},
		{op: addK, dst: 3, imm: stack},
		{op: setK, dst: 4, imm: 1},
		{op: callHelper, imm: bpfLoadBytes},
		{op: otherK, dst: 0, imm: 0, to: "drop"},
		{op: load8, dst: 1, src: 10, off: stack},
		{op: hasK, dst: 1, imm: 4, to: "pass"}, // RST

		{op: setK, dst: 0, imm: 0, label: "drop"},
		{op: opExit},
		{op: setK, dst: 0, imm: 1, label: "pass"},
		{op: opExit},
	}))
}

// allowed goes to "pass" if the packet's destination is in the list, and else to "no". A port matches TCP and UDP, and
// no fragment.
func allowed(list []Destination) (code []instruction) {
	const (
		stack, head                   = -8, -48         // of 40 bytes, which is the header of IPv6
		noPort                        = 1 << 16         // in r9
		fragment                      = 0xff3f          // more fragments, or an offset; as a little-endian machine reads it
		next4, next6, to4, to6, parts = 9, 6, 16, 24, 6 // in the headers
	)
	if len(list) == 0 {
		return nil
	}
	load := func(size int32, more ...instruction) []instruction { // r2 is the offset
		return append([]instruction{
			{op: setX, dst: 1, src: 6},
			{op: setX, dst: 3, src: 10},
			{op: addK, dst: 3, imm: head},
			{op: setK, dst: 4, imm: size},
			{op: callHelper, imm: bpfLoadBytes},
		}, more...)
	}
	code = slices.Concat([]instruction{{op: setK, dst: 2, imm: 0}}, load(20,
		instruction{op: otherK, dst: 0, imm: 0, to: "drop"},
		instruction{op: setK, dst: 9, imm: noPort},
		instruction{op: load8, dst: 8, src: 10, off: head}, // the version
		instruction{op: belowK, dst: 8, imm: 0x60, to: "to v4"},
		instruction{op: setK, dst: 2, imm: 0},
	), load(40,
		instruction{op: otherK, dst: 0, imm: 0, to: "drop"},
		instruction{op: load8, dst: 5, src: 10, off: head + next6},
		instruction{op: setK, dst: 7, imm: 40},
		instruction{op: goTo, to: "ports"},

		instruction{op: load16, dst: 1, src: 10, off: head + parts, label: "to v4"},
		instruction{op: andK, dst: 1, imm: fragment},
		instruction{op: otherK, dst: 1, imm: 0, to: "lists"},
		instruction{op: load8, dst: 5, src: 10, off: head + next4},
		instruction{op: setX, dst: 7, src: 8},
		instruction{op: andK, dst: 7, imm: 15}, // the length of the header, in words of 32 bits
		instruction{op: shiftK, dst: 7, imm: 2},

		instruction{op: equalK, dst: 5, imm: unix.IPPROTO_TCP, to: "port", label: "ports"},
		instruction{op: otherK, dst: 5, imm: unix.IPPROTO_UDP, to: "lists"},
		instruction{op: setX, dst: 1, src: 6, label: "port"},
		instruction{op: setX, dst: 2, src: 7},
		instruction{op: addK, dst: 2, imm: 2},
		instruction{op: setX, dst: 3, src: 10},
		instruction{op: addK, dst: 3, imm: stack},
		instruction{op: setK, dst: 4, imm: 2},
		instruction{op: callHelper, imm: bpfLoadBytes},
		instruction{op: otherK, dst: 0, imm: 0, to: "lists"},
		instruction{op: load16, dst: 9, src: 10, off: stack},

		instruction{op: belowK, dst: 8, imm: 0x60, to: "v4 list", label: "lists"},
	))
	var lists [2][]instruction // of IPv4 and IPv6
	for k, to := range list {
		other := fmt.Sprint("other than ", k)
		at, which := int16(head+to4), 0
		if len(to.Addr) == 16 {
			at, which = head+to6, 1
		}
		for b := range slices.Chunk(to.Addr, 4) {
			lists[which] = append(lists[which],
				instruction{op: load32, dst: 1, src: 10, off: at},
				instruction{op: other32K, dst: 1, imm: int32(binary.LittleEndian.Uint32(b)), to: other})
			at += 4
		}
		if port := to.Port; port != 0 {
			lists[which] = append(lists[which], instruction{op: otherK, dst: 9, imm: int32(port>>8 | port<<8&0xff00), to: other})
		}
		lists[which] = append(lists[which], instruction{op: goTo, to: "pass"}, instruction{op: setK, dst: 1, imm: 0, label: other})
	}
	lists[0] = append([]instruction{{op: setK, dst: 1, imm: 0, label: "v4 list"}}, lists[0]...)
	return slices.Concat(code, lists[1], []instruction{{op: goTo, to: "no"}}, lists[0])
}

// bpf makes the system call. attr are numbers of 32 bits (int), pointers, and names.
func bpf(what string, command int, attr ...any) (int, error) {
	var b []byte
	for _, a := range attr {
		switch a := a.(type) {
		case int:
			b = binary.NativeEndian.AppendUint32(b, uint32(a))
		case unsafe.Pointer:
			b = binary.NativeEndian.AppendUint64(b, uint64(uintptr(a)))
		case string:
			b = append(b, a+strings.Repeat("\x00", 16-len(a))...)
		}
	}
	r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	runtime.KeepAlive(attr)
	if errno != 0 {
		return -1, os.NewSyscallError("bpf("+what+")", errno)
	}
	return int(r), nil
}

// hook is a type of programs, which is also where they are attached.
type hook int

const (
	wayOutOfCgroup hook = bpfProgCgroupSKB
	wayOfLink      hook = bpfProgSchedCls // in or out
)

// load loads code for the place.
func (h hook) load(name string, code []uint64) (int, error) {
	license := []byte("Apache-2.0\x00")
	attach := 0
	if h == wayOutOfCgroup {
		attach = bpfCgroupInetEgress
	}
	for tries := 0; ; tries++ {
		fd, err := bpf("load", bpfProgLoad, int(h), len(code), unsafe.Pointer(&code[0]), unsafe.Pointer(&license[0]),
			0, 0, unsafe.Pointer(nil), 0, 0, name, 0, attach)
		if tries == 1000 || !errors.Is(err, unix.EAGAIN) { // a signal came in while the kernel verified it
			return fd, err
		}
	}
}

// newNetGuard attaches a guard that is closed, except for the allowed destinations.
func newNetGuard(cgroup int, allow []Destination) (*netGuard, error) {
	g, err := newGate(wayOutOfCgroup, func(deadlines int) []uint64 { return deadlineProgram(deadlines, allow) })
	if err == nil {
		var gate int
		if gate, err = wayOutOfCgroup.load("elect_gate", gateProgram(g.gate)); err == nil {
			_, err = bpf("attach", bpfProgAttach, cgroup, gate, bpfCgroupInetEgress, bpfAllowMulti)
			unix.Close(gate) // the cgroup holds it
		}
		if err != nil {
			g.close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the network guard cannot be made: %w; want CAP_BPF and CAP_NET_ADMIN, a seccomp profile that allows bpf, and Linux 5.15 with CONFIG_CGROUP_BPF", err)
	}
	return g, nil
}

// newGate makes the array and the program in it, which compares the clock with a deadline that has passed. program is
// its code, for the map with that deadline.
func newGate(at hook, program func(deadlines int) []uint64) (_ *netGuard, err error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, errors.New("this machine is big-endian; want a little-endian one")
	}
	g := &netGuard{gate: -1}
	open := []int{}
	defer func() {
		for _, fd := range open {
			unix.Close(fd) // the programs hold what they need
		}
		if err != nil {
			g.close()
		}
	}()
	deadlines, err := bpf("map", bpfMapCreate, bpfMapArray, 4, 8, 1, bpfMmapable, 0, 0, "elect_deadline")
	if err != nil {
		return nil, err
	}
	open = append(open, deadlines)
	if g.memory, err = unix.Mmap(deadlines, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if g.gate, err = bpf("map", bpfMapCreate, bpfMapProgArray, 4, 4, 1, 0, 0, 0, "elect_gate"); err != nil {
		return nil, err
	}
	deadline, err := at.load("elect_deadline", program(deadlines))
	if err != nil {
		return nil, err
	}
	open = append(open, deadline)
	key, value := new(uint32), new(uint32)
	*value = uint32(deadline)
	_, err = bpf("update", bpfMapUpdate, g.gate, 0, unsafe.Pointer(key), unsafe.Pointer(value), 0, 0)
	return g, err
}

// until sets when the last packet may leave; 0 is at once. It is for the parent.
func (g *netGuard) until(at int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.memory != nil {
		(*atomic.Int64)(unsafe.Pointer(&g.memory[0])).Store(at)
	}
}

// mute closes the guard for good, whatever the other holder does.
func (g *netGuard) mute() {
	g.until(0)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gate >= 0 {
		_, _ = bpf("delete", bpfMapDelete, g.gate, 0, unsafe.Pointer(new(uint32))) // ENOENT: the other holder did
	}
}

// close ends this process's hold.
func (g *netGuard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.memory != nil {
		_ = unix.Munmap(g.memory)
	}
	if g.gate >= 0 {
		unix.Close(g.gate)
	}
	g.memory, g.gate = nil, -1
}

// probeNetwork sends a packet that no process receives, and returns the error.
func probeNetwork() syscall.Errno {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	to := unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 9})
	if err == unix.EAFNOSUPPORT {
		fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		to = &unix.SockaddrInet6{Addr: [16]byte{15: 1}, Port: 9}
	}
	if err == nil {
		err = unix.Sendto(fd, []byte{0}, 0, to)
	}
	errno, _ := errors.AsType[syscall.Errno](err)
	return errno
}
