//go:build linux

package disk

import "slices"

const (
	sectorSize = 512  // what a disk writes at once
	pageSize   = 4096 // what the system keeps in memory at once

	// maxPending and maxPendingBytes bound how much of one file waits to be synced. Older writes
	// have reached the disk by themselves, as by the kernel's writeback; it also bounds the memory
	// of this process.
	maxPending      = 1 << 14
	maxPendingBytes = 4 << 20
)

// content is the content of a file: on the disk, and in addition in the system's memory.
type content struct {
	disk    []byte  // what a power loss leaves
	pending []write // not on the disk yet, oldest first
	waiting int     // bytes of pending
	live    []byte  // disk with all of pending: what a read returns

	// lost are pages that the system counts as written, after a failed sync. A process sees them as
	// long as the kernel has them in its own memory; no sync writes them; and if one byte of a page
	// is written again all of it is.
	lost map[int64][]byte
}

// write is one change of a file's content.
type write struct {
	number uint64 // of all writes to the disk
	off    int64
	data   []byte // nil: the size becomes off
}

func (w write) truncates() bool { return w.data == nil }

// apply returns b after w.
func (w write) apply(b []byte) []byte {
	if w.truncates() {
		return resize(b, w.off)
	}
	b = resize(b, max(int64(len(b)), w.off+int64(len(w.data))))
	copy(b[w.off:], w.data)
	return b
}

// resize cuts b, or appends zeros.
func resize(b []byte, size int64) []byte {
	old := int64(len(b))
	if size <= old {
		return b[:size]
	}
	b = slices.Grow(b, int(size-old))[:size]
	clear(b[old:])
	return b
}

// do carries out w, and first its effect on lost pages.
func (c *content) do(w write) {
	if w.truncates() {
		for p, page := range c.lost {
			if rest := w.off - p*pageSize; rest <= 0 {
				delete(c.lost, p)
			} else if rest < int64(len(page)) {
				c.lost[p] = page[:rest]
			}
		}
	} else if len(c.lost) > 0 {
		for p := w.off / pageSize; p*pageSize < w.off+int64(len(w.data)); p++ {
			if page, ok := c.lost[p]; ok {
				c.add(write{w.number, p * pageSize, page})
				delete(c.lost, p)
			}
		}
	}
	c.add(w)
}

func (c *content) add(w write) {
	c.live = w.apply(c.live)
	c.pending = append(c.pending, w)
	c.waiting += len(w.data)
	if len(c.pending) > maxPending || c.waiting > maxPendingBytes {
		c.reach(c.pending[len(c.pending)/2].number)
	}
}

// read copies the content at off. The kernel asks for what it does not have in its memory any more,
// so lost pages are gone from there, too.
func (c *content) read(b []byte, off int64) int {
	for p := off / pageSize; len(c.lost) > 0 && p*pageSize < off+int64(len(b)); p++ {
		delete(c.lost, p)
	}
	if off >= int64(len(c.live)) {
		return 0
	}
	return copy(b, c.live[off:])
}

// last is the number of the newest write that is not on the disk, 0 if all are.
func (c *content) last() uint64 {
	if len(c.pending) == 0 {
		return 0
	}
	return c.pending[len(c.pending)-1].number
}

// split returns how many of the pending writes have a number up to that.
func (c *content) split(number uint64) int {
	n, _ := slices.BinarySearchFunc(c.pending, number, func(w write, number uint64) int {
		if w.number <= number {
			return -1
		}
		return 1
	})
	return n
}

// reach brings the writes up to number to the disk.
func (c *content) reach(number uint64) {
	n := c.split(number)
	for _, w := range c.pending[:n] {
		c.disk = w.apply(c.disk)
	}
	c.drop(n)
}

func (c *content) drop(n int) {
	for _, w := range c.pending[:n] {
		c.waiting -= len(w.data)
	}
	c.pending = slices.Delete(c.pending, 0, n)
}

// lose makes the sync of the writes up to number fail: they will never reach the disk, and the
// system counts their pages as clean. The size stays, and is a write of its own that the next sync
// brings to the disk.
func (c *content) lose(number uint64, next func() uint64) {
	n := c.split(number)
	if n == 0 {
		return
	}
	size := int64(len(c.live))
	for _, w := range c.pending[:n] {
		if w.truncates() {
			continue
		}
		for p := w.off / pageSize; p*pageSize < min(w.off+int64(len(w.data)), size); p++ {
			if c.lost == nil {
				c.lost = make(map[int64][]byte)
			}
			c.lost[p] = slices.Clone(c.live[p*pageSize : min((p+1)*pageSize, size)])
		}
	}
	c.drop(n)
	c.live = slices.Clone(c.disk)
	for _, w := range c.pending {
		c.live = w.apply(c.live)
	}
	if int64(len(c.live)) != size {
		c.add(write{next(), size, nil})
	}
}

// sectors divides a write into what a disk writes at once.
func (w write) sectors() []write {
	if w.truncates() {
		return []write{w}
	}
	var all []write
	for data, off := w.data, w.off; len(data) > 0; {
		n := min(int64(len(data)), sectorSize-off%sectorSize)
		all = append(all, write{w.number, off, data[:n]})
		data, off = data[n:], off+n
	}
	return all
}

// durable makes all content durable, and forgets the lost pages.
func (c *content) durable() *content {
	return &content{disk: slices.Clone(c.live), live: slices.Clone(c.live)}
}
