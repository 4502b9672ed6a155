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

// Append appends the set in its canonical encoding: its words, of 64 members
// each, in rising order.
func (s *Set) Append(dst []byte) []byte {
	for _, w := range s.words {
		dst = protocol.AppendUint(dst, w)
	}
	return dst
}

// Load reads what Append wrote for as many members. d fails, and the set is
// empty, if there is anything in it beyond them.
func (s *Set) Load(d *protocol.Decoder) {
	s.count = 0
	for i := range s.words {
		s.words[i] = d.Uint()
		s.count += bits.OnesCount64(s.words[i])
	}
	if rest := s.all % 64; rest > 0 && s.words[len(s.words)-1]>>rest != 0 {
		d.Fail(fmt.Errorf("a set with members beyond the %d that there are", s.all))
		s.Clear()
	}
}
