//go:build linux

package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tmpfs is a plain directory on a small file system.
type tmpfs struct {
	*plain
	mount string

	mu     sync.Mutex
	closed bool
	filler *filler // nil: the disk is not full
}

// NewTmpfs makes a small disk of size bytes in dir, which is made if it is absent. It is a tmpfs,
// so the kernel decides what does not fit: names of empty files do. Full fills it, and goes on
// filling freed space; it can have no other fault. It requires root; others get [ErrUnable].
func NewTmpfs(dir string, size int64) (Disk, error) {
	mount, err := place(dir, "tmpfs")
	if err != nil {
		return nil, err
	}
	source, err := sweep()
	if err != nil {
		return nil, err
	}
	if err := unix.Mount(source, mount, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=700", size)); err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: tmpfs: %w", ErrUnable, err)
		}
		return nil, err
	}
	inner, err := newPlain(mount, "disk")
	if err != nil {
		return nil, errors.Join(err, detach(mount))
	}
	inner.snapshots = filepath.Join(filepath.Dir(mount), "snapshots")
	return &tmpfs{plain: inner, mount: mount}, nil
}

func (d *tmpfs) Can(f Fault) error {
	if f != (Fault{Full: f.Full}) {
		return fmt.Errorf("%w: a tmpfs can be full, and no more", ErrUnable)
	}
	return nil
}

func (d *tmpfs) Fault(f Fault) error {
	if err := d.Can(f); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return os.ErrClosed
	case f.Full && d.filler == nil:
		filler, err := fill(filepath.Join(d.mount, "filler"))
		if err != nil {
			return err
		}
		d.filler = filler
	case !f.Full && d.filler != nil:
		err := d.filler.empty()
		d.filler = nil
		return err
	}
	return nil
}

func (d *tmpfs) PowerLoss() error {
	return fmt.Errorf("%w: a tmpfs has nothing that survives a loss of power", ErrUnable)
}

func (d *tmpfs) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	var err error
	if d.filler != nil {
		err = d.filler.empty()
		d.filler = nil
	}
	aside := filepath.Join(filepath.Dir(d.mount), "kept")
	err = errors.Join(err, copyTree(d.path, aside), detach(d.mount))
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(aside, d.path), d.plain.Close())
}

// filler keeps a disk full.
type filler struct {
	f     *os.File
	block []byte
	stop  chan struct{}
	done  chan struct{}
}

// refill is the time after which freed space is taken again.
const refill = 50 * time.Millisecond

func fill(path string) (*filler, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	b := &filler{f: f, block: make([]byte, 1<<16), stop: make(chan struct{}), done: make(chan struct{})}
	if err := b.more(); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	go b.loop()
	return b, nil
}

// more writes until there is no space left.
func (b *filler) more() error {
	for size := len(b.block); ; {
		_, err := b.f.Write(b.block[:size])
		switch {
		case err == nil:
		case !errors.Is(err, unix.ENOSPC):
			return err
		case size == 1:
			return nil
		default:
			size /= 2
		}
	}
}

func (b *filler) loop() {
	defer close(b.done)
	tick := time.NewTicker(refill)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
			if b.more() != nil {
				return // a disk that cannot be written is full enough
			}
		}
	}
}

func (b *filler) empty() error {
	close(b.stop)
	<-b.done
	return errors.Join(os.Remove(b.f.Name()), b.f.Close())
}
