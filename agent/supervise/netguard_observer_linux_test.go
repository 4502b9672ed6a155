package supervise_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// observer knows when each of the latest datagrams of a cgroup came to it. It runs before the programs of the cgroups
// above, and after those that its cgroup had already. A datagram begins with its number, little-endian.
type observer struct{ times []byte }

const observed = 1 << 16 // datagrams

// at is when the datagram came, on CLOCK_BOOTTIME.
func (o *observer) at(datagram []byte) int64 {
	n := binary.LittleEndian.Uint32(datagram) % observed
	return (*atomic.Int64)(unsafe.Pointer(&o.times[8*n])).Load()
}

// observe attaches an observer to a cgroup, for as long as that exists.
func observe(t testing.TB, cgroup string) *observer {
	t.Helper()
	bpf := func(command int, attr []uint32) int {
		for {
			r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(unsafe.Pointer(&attr[0])), uintptr(4*len(attr)))
			if errno == 0 {
				return int(r)
			}
			if errno != unix.EAGAIN { // a signal came in while the kernel verified a program
				t.Fatalf("bpf(%d): %v", command, errno)
			}
		}
	}
	array := bpf(unix.BPF_MAP_CREATE, []uint32{unix.BPF_MAP_TYPE_ARRAY, 4, 8 * observed, 1, unix.BPF_F_MMAPABLE})
	defer unix.Close(array)
	times, err := unix.Mmap(array, 0, 8*observed, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(os.NewSyscallError("mmap", err))
	}
	t.Cleanup(func() { _ = unix.Munmap(times) })
	in := func(op, dst, src byte, off int16, imm int) uint64 {
		return uint64(op) | uint64(dst|src<<4)<<8 | uint64(uint16(off))<<16 | uint64(uint32(imm))<<32
	}
	const (
		loadBytes, bootTime      = 26, 125    // functions of the kernel
		header, protocol, number = -32, 9, 28 // on the stack; in the headers of IPv4 without options, and UDP
	)
	code := []uint64{
		in(0xbf, 6, 1, 0, 0),        // r6 = the packet
		in(0x85, 0, 0, 0, bootTime), // r0 = the time
		in(0xbf, 7, 0, 0, 0),        // r7 = r0
		in(0xbf, 1, 6, 0, 0),        // skb_load_bytes(packet, 0, header, 32)
		in(0xb7, 2, 0, 0, 0),
		in(0xbf, 3, 10, 0, 0),
		in(0x07, 3, 0, 0, header),
		in(0xb7, 4, 0, 0, -header),
		in(0x85, 0, 0, 0, loadBytes),
		in(0x55, 0, 0, 9, 0), // if r0 != 0 goto the end
		in(0x71, 1, 10, header+protocol, 0),
		in(0x55, 1, 0, 7, unix.IPPROTO_UDP), // if r1 is another goto the end
		in(0x61, 1, 10, header+number, 0),
		in(0x57, 1, 0, 0, observed-1),
		in(0x67, 1, 0, 0, 3),                                // times 8
		in(0x18, 2, unix.BPF_PSEUDO_MAP_VALUE, 0, array), 0, // r2 = the array
		in(0x0f, 2, 1, 0, 0),
		in(0x7b, 2, 7, 0, 0), // *r2 = r7
		in(0xb7, 0, 0, 0, 1), // return 1
		in(0x95, 0, 0, 0, 0),
	}
	license := []byte("Apache-2.0\x00")
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&code[0])
	pin.Pin(&license[0])
	wide := func(p unsafe.Pointer) (low, high uint32) { return uint32(uintptr(p)), uint32(uintptr(p) >> 32) }
	codeLow, codeHigh := wide(unsafe.Pointer(&code[0]))
	textLow, textHigh := wide(unsafe.Pointer(&license[0]))
	attr := make([]uint32, 18) // up to the type of attachment
	copy(attr, []uint32{unix.BPF_PROG_TYPE_CGROUP_SKB, uint32(len(code)), codeLow, codeHigh, textLow, textHigh})
	attr[17] = unix.BPF_CGROUP_INET_EGRESS
	program := bpf(unix.BPF_PROG_LOAD, attr)
	defer unix.Close(program)
	dir, err := unix.Open(cgroup, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	bpf(unix.BPF_PROG_ATTACH, []uint32{uint32(dir), uint32(program), unix.BPF_CGROUP_INET_EGRESS, unix.BPF_F_ALLOW_MULTI})
	return &observer{times}
}
