package check

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
)

// chunk is how many things are allocated at a time.
const chunk = 1 << 12

// list is a list that grows, and whose elements keep their places: an element can be looked up by
// its number without a lock, while others are appended.
type list[T any] struct {
	chunks atomic.Pointer[[]*[chunk]T]
	n      uint32
}

// add appends, under the caller's lock. Numbers begin with 1.
func (l *list[T]) add(v T) uint32 {
	l.n++
	at := int(l.n / chunk)
	var all []*[chunk]T
	if p := l.chunks.Load(); p != nil {
		all = *p
	}
	if at >= len(all) {
		next := append(make([]*[chunk]T, 0, 2*len(all)+1), all...)
		next = append(next, new([chunk]T))
		next[at][l.n%chunk] = v
		l.chunks.Store(&next)
		return l.n
	}
	all[at][l.n%chunk] = v
	return l.n
}

// at returns the element with a number that add has returned.
func (l *list[T]) at(n uint32) *T { return &(*l.chunks.Load())[n/chunk][n%chunk] }

// sum identifies contents. 128 bits of SHA-256 count as equality.
type sum [16]byte

func sumOf(b []byte) sum {
	s := sha256.Sum256(b)
	return sum(s[:16])
}

// hash is the part of a sum that fingerprints are made of.
func (s sum) hash() uint64 { return binary.LittleEndian.Uint64(s[:8]) }

// memo maps keys, which are not 0, to numbers, which are not 0 either. Reading
// takes no lock.
type memo struct {
	table atomic.Pointer[memoTable]
	n     int
}

type memoTable struct {
	keys []atomic.Uint64
	vals []atomic.Uint32
}

func newTable(size int) *memoTable {
	return &memoTable{make([]atomic.Uint64, size), make([]atomic.Uint32, size)}
}

func (t *memoTable) get(key uint64) uint32 {
	mask := uint64(len(t.keys) - 1)
	for i := mix(key) & mask; ; i = (i + 1) & mask {
		switch t.keys[i].Load() {
		case key:
			return t.vals[i].Load()
		case 0:
			return 0
		}
	}
}

func (t *memoTable) put(key uint64, val uint32) {
	mask := uint64(len(t.keys) - 1)
	i := mix(key) & mask
	for t.keys[i].Load() != 0 {
		i = (i + 1) & mask
	}
	t.vals[i].Store(val)
	t.keys[i].Store(key)
}

// get returns 0 for a key that does not exist, or is not visible yet.
func (m *memo) get(key uint64) uint32 {
	if t := m.table.Load(); t != nil {
		return t.get(key)
	}
	return 0
}

// put adds a new key, under the caller's lock.
func (m *memo) put(key uint64, val uint32) {
	t := m.table.Load()
	switch {
	case t == nil:
		t = newTable(1 << 12)
		m.table.Store(t)
	case 3*(m.n+1) > 2*len(t.keys):
		next := newTable(2 * len(t.keys))
		for i := range t.keys {
			if k := t.keys[i].Load(); k != 0 {
				next.put(k, t.vals[i].Load())
			}
		}
		t = next
		m.table.Store(t)
	}
	m.n++
	t.put(key, val)
}

// mix scatters a number over all 64 bits, one to one (Steele, Lea, Flood:
// SplitMix, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
