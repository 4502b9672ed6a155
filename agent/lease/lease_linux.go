package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/leasepage"
)

// Page is an open lease page. Its methods may be called by any number of goroutines, before Close.
type Page struct {
	data  []byte // mapped
	token fence.Token
}

// Open opens a page. The error matches fs.ErrNotExist if it is gone, as that of an earlier leader is.
func Open(path string) (*Page, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Size != leasepage.Size {
		return nil, fmt.Errorf("%s: it is no lease page; want %d bytes", path, leasepage.Size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, leasepage.Size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &fs.PathError{Op: "mmap", Path: path, Err: err}
	}
	if err := leasepage.Check(data); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), unix.Munmap(data))
	}
	p := &Page{data: data}
	p.token = fence.Token(p.word(leasepage.Token))
	return p, nil
}

// Close unmaps the page. A second call returns an error.
func (p *Page) Close() error { return unix.Munmap(p.data) }

// word reads a number at once. A mapping begins at the start of a memory page, so the number does not cross a boundary.
func (p *Page) word(at int) uint64 {
	v := atomic.LoadUint64((*uint64)(unsafe.Pointer(&p.data[at])))
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Pointer(&v))[:])
}

// remaining reads the clock after the page.
func (p *Page) remaining() time.Duration {
	until := int64(p.word(leasepage.Until))
	return time.Duration(until - int64(clock.Now()))
}
