//go:build linux

package disk

import (
	"math/rand/v2"
	"slices"
)

// outage is the tree after a power loss.
func (t *tree) outage(torn bool, luck uint64) *tree {
	chance := rand.New(rand.NewPCG(luck, 0))
	if luck != 0 {
		t.spareNames(chance)
	}
	return t.rebuild(true, func(i *inode) map[string]*inode { return i.kept }, func(c *content) *content {
		b := slices.Clone(c.disk)
		waits := c.pending
		torn := torn && len(waits) > 0 && len(waits[len(waits)-1].data) > 1
		if torn {
			waits = waits[:len(waits)-1]
		}
		if luck != 0 {
			b = spare(b, waits, chance)
		}
		if torn {
			last := c.pending[len(c.pending)-1]
			last.data = last.data[:1+chance.IntN(len(last.data)-1)]
			b = last.apply(b)
		}
		return &content{disk: b, live: slices.Clone(b)}
	})
}

// spare brings some of the writes to the disk b that were not synced.
func spare(b []byte, waits []write, chance *rand.Rand) []byte {
	switch chance.IntN(4) {
	case 0: // none
		return b
	case 1: // all
	case 2: // the first ones
		waits = waits[:chance.IntN(len(waits)+1)]
	case 3: // any sectors
		for _, w := range waits {
			for _, piece := range w.sectors() {
				if chance.IntN(2) == 0 {
					b = piece.apply(b)
				}
			}
		}
		return b
	}
	for _, w := range waits {
		b = w.apply(b)
	}
	return b
}

// spareNames brings some of the changes of names to the disk that were not
// synced.
func (t *tree) spareNames(chance *rand.Rand) {
	n := chance.IntN(len(t.changes) + 1)
	switch chance.IntN(4) {
	case 0: // none
	case 1: // all
		t.reach(t.closure(func(change) bool { return true }))
	case 2: // the first ones
		t.reach(t.closure(func(c change) bool { return n > 0 && c.number <= t.changes[n-1].number }))
	case 3: // any, with those that they rest on
		t.reach(t.closure(func(change) bool { return chance.IntN(2) == 0 }))
	}
}
