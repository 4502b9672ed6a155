package supervise_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// elsewhere makes an ear in a network namespace of its own, which a talker enters as its descriptor 3. Interfaces that
// are made there do not touch those of this machine.
func elsewhere(t testing.TB, listen func(t testing.TB) *ear) *ear {
	t.Helper()
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip(err)
	}
	defer func() {
		if unix.Setns(int(here.Fd()), unix.CLONE_NEWNET) == nil { // else the thread ends with the test
			runtime.UnlockOSThread()
		}
	}()
	there, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	lo, err := unix.NewIfreq("lo")
	if err == nil {
		err = up(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := listen(t)
	e.space = there
	return e
}

// enterSpace has the calling goroutine go on in the network namespace that it has inherited.
func enterSpace() error {
	runtime.LockOSThread()
	return unix.Setns(3, unix.CLONE_NEWNET)
}

// up sets the address of an interface, if the request has one, and turns it on.
func up(r *unix.Ifreq) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := r.Inet4Addr(); err == nil {
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, r); err != nil {
			return err
		}
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

// tun writes UDP packets into a tun device. To the kernel they have arrived there, and no process has sent them.
func tun(addr string) (func([]byte) error, error) {
	if err := enterSpace(); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	r, err := unix.NewIfreq("elect0")
	if err != nil {
		return nil, err
	}
	r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		return nil, err
	}
	if err := r.SetInet4Addr([]byte{192, 0, 2, 1}); err != nil {
		return nil, err
	}
	if err := up(r); err != nil {
		return nil, err
	}
	to, err := netip.ParseAddrPort(addr)
	return func(b []byte) error {
		p := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0, 192, 0, 2, 2, 192, 0, 2, 1} // from 192.0.2.2
		binary.BigEndian.PutUint16(p[2:], uint16(28+len(b)))
		sum := uint32(0)
		for at := 0; at < len(p); at += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[at:]))
		}
		binary.BigEndian.PutUint16(p[10:], ^uint16(sum+sum>>16))
		p = binary.BigEndian.AppendUint16(p, 1)
		p = binary.BigEndian.AppendUint16(p, to.Port())
		p = binary.BigEndian.AppendUint32(p, uint32(8+len(b))<<16) // without a checksum
		_, err := unix.Write(fd, append(p, b...))
		return err
	}, err
}

// xdp sends frames through the ring of an AF_XDP socket on the loopback interface.
func xdp(string) (func([]byte) error, error) {
	if err := enterSpace(); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	const chunk = 4096
	memory, err := unix.Mmap(-1, 0, 2*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	option := func(name int, value unsafe.Pointer, size uintptr) error {
		if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(name), uintptr(value), size, 0); errno != 0 {
			return fmt.Errorf("setsockopt %d: %w", name, errno)
		}
		return nil
	}
	area := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&memory[0]))), Len: uint64(len(memory)), Size: chunk}
	if err := option(unix.XDP_UMEM_REG, unsafe.Pointer(&area), unsafe.Sizeof(area)); err != nil {
		return nil, err
	}
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_TX_RING} {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, ring, 2); err != nil {
			return nil, err
		}
	}
	var at unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(at))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return nil, errno
	}
	ring, err := unix.Mmap(fd, unix.XDP_PGOFF_TX_RING, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(lo.Index)}); err != nil {
		return nil, err
	}
	return func(b []byte) error {
		tail := (*atomic.Uint32)(unsafe.Pointer(&ring[at.Tx.Producer]))
		slot := tail.Load() % 2
		frame := append([]byte{12: byte(ether & 0xff), 13: ether >> 8}, b...)
		copy(memory[slot*chunk:], frame)
		*(*unix.XDPDesc)(unsafe.Pointer(&ring[at.Tx.Desc+16*uint64(slot)])) = unix.XDPDesc{Addr: uint64(slot) * chunk, Len: uint32(len(frame))}
		tail.Add(1)
		return unix.Sendto(fd, nil, unix.MSG_DONTWAIT, nil)
	}, nil
}
