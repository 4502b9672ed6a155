package group

import (
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strconv"

	"github.com/electd/elect/driver"
	machine "github.com/electd/elect/internal/protocol/group"
)

// MaxKeys is the greatest number of shards of a group, and of the keys that one member wants.
const MaxKeys = machine.MaxKeys

// Keys is a set of keys that all members of a group know. The zero value is empty.
type Keys struct {
	n   int
	key func(i int) string
}

// Range is the keys "0" to n-1 in decimal.
func Range(n int) Keys { return Keys{n, strconv.Itoa} }

// List is the keys in a list, which the caller must not change.
func List(keys ...string) Keys { return Keys{len(keys), func(i int) string { return keys[i] }} }

// Func is n keys, the i-th of which is key(i), for i from 0. [Join] calls it once for each.
func Func(n int, key func(i int) string) Keys { return Keys{n, key} }

// Len is the number of keys.
func (k Keys) Len() int { return k.n }

// All yields the keys.
func (k Keys) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range k.n {
			if !yield(k.key(i)) {
				return
			}
		}
	}
}

// check returns what is wrong with the keys, or all of them in order and their digest.
func (k Keys) check() (sorted []string, digest uint64, err error) {
	if k.n < 0 || k.n > MaxKeys {
		return nil, 0, fmt.Errorf("group.Config.Keys has %d keys; want 0 to %d", k.n, MaxKeys)
	}
	sorted = make([]string, 0, k.n)
	for key := range k.All() {
		if err := driver.CheckName(key); err != nil {
			return nil, 0, fmt.Errorf("group.Config.Keys: key: %w", err)
		}
		sorted = append(sorted, key)
	}
	slices.Sort(sorted)
	h := fnv.New64a()
	for i, key := range sorted {
		if i > 0 && sorted[i-1] == key {
			return nil, 0, fmt.Errorf("group.Config.Keys has %q twice; want each key once", key)
		}
		h.Write([]byte(key))
		h.Write([]byte{0}) // which no key contains
	}
	return sorted, h.Sum64(), nil
}
