//go:build linux

package warp

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Page is a mapped page.
type Page struct {
	mem    []byte
	at     *layout
	offset [2]int64 // of this process's time namespace, by clock
}

// layout is the content of the page. It has two functions: the one that counts, and the one that is written next. So
// a writer that dies in the middle of a change has changed nothing.
type layout struct {
	magic    atomic.Uint64
	version  atomic.Uint64 // its last bit says which function counts
	function [2]struct {
		rate                               atomic.Uint64
		bootFrom, bootTo, monoFrom, monoTo atomic.Int64
	}
}

const (
	magic = 0x656c_6563_7477_7031 // electwp1
	size  = 4096
)

// Create makes a page in a new file, straight at first.
func Create(path string) (*Page, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	p, err := mapped(f, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	p.Set(Straight())
	p.at.magic.Store(magic)
	return p, nil
}

// Open maps the page in a file, for reading.
func Open(path string) (*Page, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if info.Size() != size {
		return nil, fmt.Errorf("%s: %d bytes; a page of clocks has %d", path, info.Size(), size)
	}
	p, err := mapped(f, unix.PROT_READ)
	if err != nil {
		return nil, err
	}
	if m := p.at.magic.Load(); m != magic {
		return nil, fmt.Errorf("%s: it begins with %#x; a page of clocks with %#x", path, m, uint64(magic))
	}
	return p, nil
}

func mapped(f *os.File, how int) (*Page, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, size, how, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	p := &Page{mem: mem, at: (*layout)(unsafe.Pointer(&mem[0]))}
	boot, mono, err := Offsets()
	if err != nil {
		return nil, err
	}
	p.offset = [2]int64{int64(boot), int64(mono)}
	return p, nil
}

// Close unmaps the page, which must not be used any more.
func (p *Page) Close() error { return unix.Munmap(p.mem) }

// Set replaces the function. One process makes the calls, one after the other.
func (p *Page) Set(f Function) {
	next := p.at.version.Load() + 1
	to := &p.at.function[next%2]
	to.rate.Store(math.Float64bits(f.Rate))
	to.bootFrom.Store(f.Boot.From)
	to.bootTo.Store(f.Boot.To)
	to.monoFrom.Store(f.Mono.From)
	to.monoTo.Store(f.Mono.To)
	p.at.version.Store(next)
}

// Version changes with each Set.
func (p *Page) Version() uint64 { return p.at.version.Load() }

// Function is the one that counts.
func (p *Page) Function() Function {
	for {
		v := p.at.version.Load()
		of := &p.at.function[v%2]
		f := Function{
			Rate: math.Float64frombits(of.rate.Load()),
			Boot: Line{of.bootFrom.Load(), of.bootTo.Load()},
			Mono: Line{of.monoFrom.Load(), of.monoTo.Load()},
		}
		if p.at.version.Load() == v {
			return f
		}
	}
}

// Clock is one of the two.
type Clock int

// The clocks.
const (
	Boot Clock = iota // CLOCK_BOOTTIME
	Mono              // CLOCK_MONOTONIC
)

// Read is the reading of the clock, with kernel as that of the kernel's. It never uses a function that was replaced
// before the call began, or during the reading.
func (p *Page) Read(c Clock, kernel func() int64) int64 {
	for {
		v := p.at.version.Load()
		f := p.Function()
		t := kernel()
		if p.at.version.Load() == v {
			return f.at(c, t-p.offset[c]) + p.offset[c]
		}
	}
}

func (f *Function) at(c Clock, t int64) int64 {
	if c == Mono {
		return f.Mono.At(t, f.Rate)
	}
	return f.Boot.At(t, f.Rate)
}
