package durable

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
)

var (
	errKilled = errors.New("killed here")
	errIO     = errors.New("input/output error")
	errSpace  = errors.New("no space left on device")
)

const sectorSize = 512

// crashFS is a directory on a disk that loses power. Writes go to a cache and
// reach the disk sector by sector, at the latest at Sync. Names go to the disk
// at the latest at the directory's Sync, in order.
//
// An operation numbered die kills the process: it and all later ones fail. What
// it did to the cache before that is a matter of chance.
type crashFS struct {
	rand *rand.Rand

	cache map[string]*node
	disk  map[string]*node // names on the disk; the nodes are shared with cache

	names []func(map[string]*node) // changes that the disk's names lack

	ops, die int  // die 0 is never
	fault    int  // one operation in so many fails, without killing; 0 is never
	liar     bool // Sync does nothing: to prove that the test can fail
}

// node is a file: what readers see, what is on the disk, and the sectors in
// which they differ as far as the system knows. A failed Sync forgets the
// sectors without having written them all, as Linux does.
type node struct {
	cache, disk []byte
	dirty       map[int64]bool
}

func newCrashFS(r *rand.Rand) *crashFS {
	return &crashFS{rand: r, cache: map[string]*node{}, disk: map[string]*node{}}
}

// step counts one operation. It returns errKilled from the fatal one on, and
// also whether the fatal operation takes effect on the cache.
func (c *crashFS) step(possible ...error) (effect bool, err error) {
	c.ops++
	switch {
	case c.die != 0 && c.ops == c.die:
		return c.rand.IntN(2) == 0, errKilled
	case c.die != 0 && c.ops > c.die:
		return false, errKilled
	case c.fault != 0 && len(possible) > 0 && c.rand.IntN(c.fault) == 0:
		return c.rand.IntN(2) == 0, possible[c.rand.IntN(len(possible))]
	}
	return true, nil
}

// restart starts the next process. If the power failed, the cache is lost, and
// each sector and name that was not synced may be on the disk, or not, and a
// sector may be torn.
func (c *crashFS) restart(power bool) {
	c.ops, c.die = 0, 0
	if !power {
		return
	}
	for _, change := range c.names[:c.rand.IntN(len(c.names)+1)] {
		change(c.disk)
	}
	c.names = nil
	for _, name := range slices.Sorted(maps.Keys(c.disk)) {
		n := c.disk[name]
		for _, s := range slices.Sorted(maps.Keys(n.dirty)) {
			n.toDisk(s, c.rand, true)
		}
		n.cache, n.dirty = bytes.Clone(n.disk), map[int64]bool{}
	}
	c.cache = maps.Clone(c.disk)
}

// toDisk writes sector s, or not, or a part of it.
func (n *node) toDisk(s int64, r *rand.Rand, chance bool) {
	from, to := s*sectorSize, min((s+1)*sectorSize, int64(len(n.cache)))
	if grow := to - int64(len(n.disk)); grow > 0 {
		n.disk = append(n.disk, make([]byte, grow)...)
	}
	if chance {
		switch r.IntN(3) {
		case 0:
			return
		case 1:
			if r.IntN(2) == 0 {
				to = from + r.Int64N(to-from)
			} else {
				from += r.Int64N(to - from)
			}
		}
	}
	copy(n.disk[from:to], n.cache[from:to])
}

func (c *crashFS) Open(name string) (File, error) {
	if _, err := c.step(); err != nil {
		return nil, err
	}
	n, ok := c.cache[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return &handle{c, n}, nil
}

func (c *crashFS) Create(name string) (File, error) {
	effect, err := c.step(errSpace)
	if _, ok := c.cache[name]; ok {
		return nil, fs.ErrExist
	}
	n := &node{dirty: map[int64]bool{}}
	if effect {
		c.change(func(m map[string]*node) { m[name] = n })
	}
	return &handle{c, n}, err
}

func (c *crashFS) Rename(from, to string) error {
	effect, err := c.step(errIO)
	n, ok := c.cache[from]
	if !ok {
		return fs.ErrNotExist
	}
	if effect {
		c.change(func(m map[string]*node) { delete(m, from); m[to] = n })
	}
	return err
}

func (c *crashFS) Remove(name string) error {
	effect, err := c.step(errIO)
	if _, ok := c.cache[name]; !ok {
		return fs.ErrNotExist
	}
	if effect {
		c.change(func(m map[string]*node) { delete(m, name) })
	}
	return err
}

func (c *crashFS) change(f func(map[string]*node)) {
	f(c.cache)
	c.names = append(c.names, f)
}

func (c *crashFS) Sync() error {
	effect, err := c.step(errIO)
	if effect && !c.liar {
		for _, change := range c.names {
			change(c.disk)
		}
		c.names = nil
	}
	return err
}

type handle struct {
	c *crashFS
	n *node
}

func (h *handle) ReadAt(b []byte, at int64) (int, error) {
	if _, err := h.c.step(errIO); err != nil {
		return 0, err
	}
	if at >= int64(len(h.n.cache)) {
		return 0, io.EOF
	}
	n := copy(b, h.n.cache[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) WriteAt(b []byte, at int64) (int, error) {
	effect, err := h.c.step(errSpace, errIO)
	written := len(b)
	if err != nil && effect {
		written = h.c.rand.IntN(len(b) + 1) // also a part of it
	}
	if effect {
		end := at + int64(written)
		if grow := end - int64(len(h.n.cache)); grow > 0 {
			h.n.cache = append(h.n.cache, make([]byte, grow)...)
		}
		copy(h.n.cache[at:end], b)
		for s := at / sectorSize; s*sectorSize < end; s++ {
			h.n.dirty[s] = true
		}
	}
	if err != nil {
		return 0, err
	}
	return written, nil
}

func (h *handle) Sync() error {
	effect, err := h.c.step(errIO)
	if h.c.liar {
		return err
	}
	if err == nil || effect {
		for _, s := range slices.Sorted(maps.Keys(h.n.dirty)) {
			h.n.toDisk(s, h.c.rand, err != nil)
		}
		h.n.dirty = map[int64]bool{}
	}
	return err
}

func (h *handle) Close() error {
	_, err := h.c.step()
	return err
}
