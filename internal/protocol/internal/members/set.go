package members

import (
	"fmt"
	"math/bits"

	"github.com/electd/elect/internal/protocol"
)

// Set is a set of members by their places: one bit each, and how many are in it.
// Copies of a Set share its bits, but not the count.
type Set struct {
	words []uint64
	count int
	all   int
}

// NewSet is an empty set for the members 0 to all-1.
func NewSet(all int) Set { return Set{words: make([]uint64, (all+63)/64), all: all} }

// Len is how many are in it.
func (s *Set) Len() int { return s.count }

// Add puts the member at i in, if it is not there.
func (s *Set) Add(i int) {
	if w := &s.words[i/64]; *w&(1<<(i%64)) == 0 {
		*w |= 1 << (i % 64)
		s.count++
	}
}

// Remove takes the member at i out, if it is there.
func (s *Set) Remove(i int) {
	if w := &s.words[i/64]; *w&(1<<(i%64)) != 0 {
		*w &^= 1 << (i % 64)
		s.count--
	}
}

// Clear takes all out.
func (s *Set) Clear() {
	clear(s.words)
	s.count = 0
}

// State codes the set: its words, of 64 members each, in rising order. c fails, and the set is empty,
// if it loads members beyond those that there are.
func (s *Set) State(c *protocol.Coder) {
	for i := range s.words {
		c.Uints(&s.words[i])
	}
	if !c.Loads() {
		return
	}
	s.count = 0
	for _, w := range s.words {
		s.count += bits.OnesCount64(w)
	}
	if rest := s.all % 64; rest > 0 && s.words[len(s.words)-1]>>rest != 0 {
		c.Fail(fmt.Errorf("a set with members beyond the %d that there are", s.all))
		s.Clear()
	}
}

// CodePlace codes the place of one of all members; -1 is none.
func CodePlace(c *protocol.Coder, place *int, all int) {
	v := uint64(*place + 1)
	if c.Uints(&v); v > uint64(all) {
		c.Fail(fmt.Errorf("the place %d of %d members", v, all))
		v = 0
	}
	*place = int(v) - 1
}
