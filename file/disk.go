//go:build linux || darwin || freebsd

package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/file/internal/durable"
	dirs "github.com/electd/elect/internal/place"
)

// disk is the open directory of an election, for the counter. It uses the descriptor and not the path, so that a
// leader whose directory was replaced cannot touch the new one.
type disk struct{ p *place }

func (d disk) Open(name string) (durable.File, error) {
	f, err := d.p.at.Open(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	return syncedFile{f}, nil
}

func (d disk) Create(name string) (durable.File, error) {
	f, err := d.p.at.Create(name, os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	d.p.access.apply(int(f.Fd()), d.p.path+"/"+name, d.p.log)
	return syncedFile{f}, nil
}

func (d disk) Rename(from, to string) error { return d.p.at.Rename(from, to) }

func (d disk) Remove(name string) error { return d.p.at.Remove(name) }

// Sync also covers the two directories above. A candidate may have made them and crashed before it synced them.
func (d disk) Sync() error {
	if err := d.p.dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	above := filepath.Dir(d.p.path)
	if err := syncDir(above); err != nil {
		return err
	}
	return syncDir(filepath.Dir(above))
}

// mint returns the token of a new leader, once it is durable. last is the token of the record, which is 0 if there is
// none.
//
// The system calls of a victory on a lock that was held before, after the two flocks and without what Go adds (fcntl
// F_GETFL, a read at the end of a file), are: newfstatat twice (is the lock in place?), pread and fstat (the seal),
// openat, fstat, read and close (the record), openat, fstat, pread, pread, pwrite, fdatasync and close (the counter),
// unlinkat, openat, fchmod, write, close and renameat (the record), unlinkat, socket, bind, listen, openat, fstat,
// fchmodat, close and renameat (the socket), fcntl (the announcement), fstat, pwrite and ftruncate (the seal),
// newfstatat twice (is it still in place?). Only fdatasync waits for the disk.
func (p *place) mint(era uint64, h history, last fence.Token) (fence.Token, error) {
	// A counter may be created anew only if no token was ever issued, or none of this era.
	reached := last.Era()
	if h.used {
		reached = max(reached, h.era)
	}
	if h.torn { // the torn seal may have had any era, so this one is not known to be above it
		reached = max(reached, era)
	}
	used := h.used || last != 0
	raised := used && era > reached
	token, err := durable.Next(disk{p}, durable.Request{
		Era: era, Floor: last, Create: !used || raised, Replace: raised,
	})
	if err == nil {
		return token, nil
	}

	name := p.path + "/" + durable.Name
	below, isBelow := errors.AsType[*durable.EraError](err)
	switch {
	case errors.Is(err, durable.ErrMissing), errors.Is(err, durable.ErrCorrupt):
		return 0, driver.Permanent(fmt.Errorf("%s: %w, and tokens could repeat; restore it, or raise the era above %d at every candidate, as in file:%s?era=%d",
			name, err, reached, filepath.Dir(p.path), reached+1))
	case errors.Is(err, durable.ErrExhausted):
		return 0, driver.Permanent(fmt.Errorf("%s: %w; raise the era at every candidate, as in file:%s?era=%d", name, err, filepath.Dir(p.path), era+1))
	case errors.Is(err, durable.ErrVersion):
		return 0, driver.Permanent(fmt.Errorf("%s: %w; want the version of elect that wrote it, or a later one", name, err))
	case isBelow:
		return 0, driver.Permanent(fmt.Errorf("%s: %w; want era %d or higher at every candidate", name, err, below.Stored))
	}
	if refused, ok := errors.AsType[*dirs.Refused](err); ok {
		return 0, driver.Permanent(refused)
	}
	return 0, explain("count in", name, err)
}
