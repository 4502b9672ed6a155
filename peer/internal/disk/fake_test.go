package disk

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall"
)

// fakeDisk is a folder that remembers what is durable and what is in memory
// only, and in which each operation that changes something is a point at which
// it can fail, or the process can die.
type fakeDisk struct {
	names   map[string]*inode // as the system shows them
	durable map[string]*inode
	changes []func(map[string]*inode) // of names, that are not durable yet
	created []*inode                  // by these changes

	point int           // counts operations
	fault map[int]fault // by point
	dead  bool          // the process died: nothing happens any more
}

// inode is a file's content.
type inode struct {
	cache, disk []byte
	dirty       map[int]bool // by sector: in the cache, not on the disk, to be written
}

type fault int

const (
	fine    fault = iota
	die           // before the operation
	dieHalf       // in the midst of it
	eio           // it fails; a write or a sync is lost, and the cache says otherwise
	enospc        // it fails; of a write, half is done
)

var errDead = errors.New("the process is dead")

func newFakeDisk() *fakeDisk {
	return &fakeDisk{names: map[string]*inode{}, durable: map[string]*inode{}, fault: map[int]fault{}}
}

// next is what becomes of the operation that begins.
func (d *fakeDisk) next() (fault, error) {
	if d.dead {
		return die, errDead
	}
	d.point++
	switch f := d.fault[d.point]; f {
	case die:
		d.dead = true
		return f, errDead
	case dieHalf:
		d.dead = true
		return f, nil
	case eio:
		return f, syscall.EIO
	case enospc:
		return f, syscall.ENOSPC
	}
	return fine, nil
}

func (d *fakeDisk) List() ([]string, error) {
	return slices.Sorted(maps.Keys(d.names)), nil
}

func (d *fakeDisk) Open(name string) (file, error) {
	if i := d.names[name]; i != nil {
		return &fakeFile{d, i}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (d *fakeDisk) Create(name string) (file, error) {
	if f, err := d.next(); err != nil || f == dieHalf {
		return nil, errors.Join(err, errDead)
	}
	i := &inode{dirty: map[int]bool{}}
	d.created = append(d.created, i)
	d.change(func(names map[string]*inode) { names[name] = i })
	return &fakeFile{d, i}, nil
}

func (d *fakeDisk) Rename(from, to string) error {
	if _, err := d.next(); err != nil {
		return err
	}
	d.change(func(names map[string]*inode) {
		if i := names[from]; i != nil {
			delete(names, from)
			names[to] = i
		}
	})
	if d.dead {
		return errDead
	}
	return nil
}

func (d *fakeDisk) change(do func(map[string]*inode)) {
	do(d.names)
	d.changes = append(d.changes, do)
}

func (d *fakeDisk) Sync() error {
	if _, err := d.next(); err != nil {
		return err
	}
	for _, do := range d.changes {
		do(d.durable)
	}
	d.changes, d.created = nil, nil
	if d.dead {
		return errDead
	}
	return nil
}

// kill is SIGKILL: what the system has in memory stays there.
func (d *fakeDisk) kill() {
	d.dead, d.point, d.fault = false, 0, map[int]fault{}
}

// surviving says which of the sectors that were not synced reach the disk when
// the power fails: by the how-manieth of all it is. true is as it was to be
// written; garbled is neither old nor new.
type surviving func(n, of int) (written, garbled bool)

// outages are the ways in which the power fails. Each sector alone, each but
// one, each prefix, and each in its turn garbled.
func outages(sectors int) []surviving {
	all := []surviving{
		func(int, int) (bool, bool) { return false, false },
		func(int, int) (bool, bool) { return true, false },
	}
	for k := range sectors {
		all = append(all,
			func(n, _ int) (bool, bool) { return n == k, false },
			func(n, _ int) (bool, bool) { return n != k, false },
			func(n, _ int) (bool, bool) { return n < k, false },
			func(n, _ int) (bool, bool) { return n <= k, n == k },
			func(n, _ int) (bool, bool) { return n >= k, n == k },
		)
	}
	return all
}

// unsynced is how many sectors, and how many changes of names, are not durable.
func (d *fakeDisk) unsynced() (sectors, changes int) {
	for _, i := range d.inodes() {
		sectors += len(i.dirty)
	}
	return sectors, len(d.changes)
}

func (d *fakeDisk) inodes() []*inode {
	all := slices.Clone(d.created)
	for _, names := range []map[string]*inode{d.names, d.durable} {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !slices.Contains(all, names[name]) {
				all = append(all, names[name])
			}
		}
	}
	return all
}

// outage returns the disk as it is after the power has failed: the first changes
// of names are durable, and of what was written, what survives.
func (d *fakeDisk) outage(changes int, survive surviving) *fakeDisk {
	after := newFakeDisk()
	names := maps.Clone(d.durable)
	for _, do := range d.changes[:changes] {
		do(names)
	}
	copies := map[*inode]*inode{}
	n := 0
	of, _ := d.unsynced()
	for _, i := range d.inodes() {
		c := &inode{disk: slices.Clone(i.disk), dirty: map[int]bool{}}
		for _, s := range slices.Sorted(maps.Keys(i.dirty)) {
			written, garbled := survive(n, of)
			if n++; !written {
				continue
			}
			i.flush(s, c)
			if garbled {
				for k := s * sector; k < min(s*sector+sector/2, len(c.disk)); k++ {
					c.disk[k] ^= 0x55
				}
			}
		}
		c.cache = slices.Clone(c.disk)
		copies[i] = c
	}
	for name, i := range names {
		after.names[name], after.durable[name] = copies[i], copies[i]
	}
	return after
}

// copy is the same disk once more, so that two things can happen to it. What
// was changed of the names and is not durable counts as one change.
func (d *fakeDisk) copy() *fakeDisk {
	c := newFakeDisk()
	same := map[*inode]*inode{}
	for _, i := range d.inodes() {
		same[i] = &inode{cache: slices.Clone(i.cache), disk: slices.Clone(i.disk), dirty: maps.Clone(i.dirty)}
	}
	for name, i := range d.durable {
		c.durable[name] = same[i]
	}
	for name, i := range d.names {
		c.names[name] = same[i]
	}
	if final := maps.Clone(c.names); len(d.changes) > 0 {
		for _, i := range d.created {
			c.created = append(c.created, same[i])
		}
		c.changes = append(c.changes, func(names map[string]*inode) {
			clear(names)
			maps.Copy(names, final)
		})
	}
	return c
}

// flush writes a sector from i's cache to c's disk.
func (i *inode) flush(s int, c *inode) {
	end := min((s+1)*sector, len(i.cache))
	for len(c.disk) < end {
		c.disk = append(c.disk, 0)
	}
	copy(c.disk[s*sector:end], i.cache[s*sector:end])
}

type fakeFile struct {
	d *fakeDisk
	i *inode
}

func (f *fakeFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(f.i.cache)) {
		return 0, io.EOF
	}
	n := copy(p, f.i.cache[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *fakeFile) WriteAt(p []byte, off int64) (int, error) {
	what, err := f.d.next()
	switch what {
	case die, eio:
		return 0, err
	case dieHalf:
		p, err = p[:len(p)/2], errDead
	case enospc:
		p = p[:len(p)/2]
	}
	for len(f.i.cache) < int(off)+len(p) {
		f.i.cache = append(f.i.cache, 0)
	}
	copy(f.i.cache[off:], p)
	for s := int(off) / sector; s*sector < int(off)+len(p); s++ {
		f.i.dirty[s] = true
	}
	return len(p), err
}

func (f *fakeFile) Sync() error {
	what, err := f.d.next()
	switch what {
	case die:
		return err
	case eio, enospc:
		f.i.dirty = map[int]bool{} // the pages count as clean, and are on no disk
		return err
	}
	half := len(f.i.dirty) / 2
	for _, s := range slices.Sorted(maps.Keys(f.i.dirty)) {
		if half--; what == dieHalf && half < 0 {
			return errDead
		}
		f.i.flush(s, f.i)
		delete(f.i.dirty, s)
	}
	if what == dieHalf {
		return errDead
	}
	return nil
}

// Forget drops the pages that count as clean.
func (f *fakeFile) Forget() {
	if f.d.dead {
		return
	}
	fresh := slices.Clone(f.i.disk)
	for s := range f.i.dirty {
		end := min((s+1)*sector, len(f.i.cache))
		for len(fresh) < end {
			fresh = append(fresh, 0)
		}
		copy(fresh[s*sector:end], f.i.cache[s*sector:end])
	}
	f.i.cache = fresh
}

func (f *fakeFile) Close() error { return nil }
