package group

import "hash/maphash"

// index finds the places of keys in a list. It has 8 bytes a slot, of which at most four fifths are in use: a map would
// have each key a second time. The order of its slots shows nowhere. The zero index is empty.
type index struct {
	seed  maphash.Seed
	slots []slot // a power of two
	used  int
}

// slot has a part of a key's hash, and its place + 1; 0 is none.
type slot struct{ hash, place uint32 }

// listed is the list of an index.
type listed interface{ at(place uint32) Key }

func (x *index) hash(k Key) uint32 { return uint32(maphash.String(x.seed, string(k))) }

func (x *index) mask() uint32 { return uint32(len(x.slots) - 1) }

// find returns the place of a key.
func (x *index) find(k Key, in listed) (place uint32, ok bool) {
	if x.used == 0 {
		return 0, false
	}
	h := x.hash(k)
	for i := h & x.mask(); x.slots[i].place != 0; i = (i + 1) & x.mask() {
		if s := x.slots[i]; s.hash == h && in.at(s.place-1) == k {
			return s.place - 1, true
		}
	}
	return 0, false
}

// add adds a key, which is not there.
func (x *index) add(k Key, place uint32) {
	x.reserve(x.used + 1)
	x.used++
	x.insert(slot{x.hash(k), place + 1})
}

func (x *index) insert(s slot) {
	i := s.hash & x.mask()
	for x.slots[i].place != 0 {
		i = (i + 1) & x.mask()
	}
	x.slots[i] = s
}

// reserve makes room for as many keys in all.
func (x *index) reserve(keys int) {
	old, size := x.slots, max(8, len(x.slots))
	for 5*keys > 4*size {
		size *= 2
	}
	if size == len(old) {
		return
	}
	if old == nil {
		x.seed = maphash.MakeSeed()
	}
	x.slots = make([]slot, size)
	for _, s := range old {
		if s.place != 0 {
			x.insert(s)
		}
	}
}

// slot returns the slot of a key that is there.
func (x *index) slot(k Key, place uint32) uint32 {
	s := slot{x.hash(k), place + 1}
	i := s.hash & x.mask()
	for x.slots[i] != s {
		i = (i + 1) & x.mask()
	}
	return i
}

// move changes the place of a key.
func (x *index) move(k Key, from, to uint32) { x.slots[x.slot(k, from)].place = to + 1 }

// remove removes a key, and closes the gap, so that each search still ends at a free slot.
func (x *index) remove(k Key, place uint32) {
	gap := x.slot(k, place)
	for i := (gap + 1) & x.mask(); x.slots[i].place != 0; i = (i + 1) & x.mask() {
		if home := x.slots[i].hash; (i-home)&x.mask() >= (i-gap)&x.mask() {
			x.slots[gap], gap = x.slots[i], i
		}
	}
	x.slots[gap] = slot{}
	x.used--
}

// clear removes all keys.
func (x *index) clear() {
	clear(x.slots)
	x.used = 0
}
