package members

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/internal/protocol"
)

// ids are n1 to n, in order.
func ids(n int) (all []protocol.NodeID) {
	for i := range n {
		all = append(all, protocol.NodeID(fmt.Sprintf("n%d", i+1)))
	}
	return all
}

func TestCheck(t *testing.T) {
	three := ids(3)
	for _, c := range []struct {
		self protocol.NodeID
		all  []protocol.NodeID
		says string // empty: valid
	}{
		{"n1", three, ""},
		{"n3", three, ""},
		{"n1", three[:1], ""},
		{"n10000", ids(Max), ""},
		{"n2", ids(Max + 1), "10001 members; want 1 to 10000"},
		{"n2", nil, "0 members; want 1 to 10000"},
		{"", three, "self: "},
		{"n 1", three, `self: node id "n 1"`},
		{"n1", []protocol.NodeID{"n2", "n1"}, `member "n1" after "n2"; want each once, ordered by id`},
		{"n1", []protocol.NodeID{"n1", "n10", "n2"}, `member "n2" after "n10"`}, // shorter before longer
		{"n1", []protocol.NodeID{"n1", "n2", "n2"}, `member "n2" after "n2"`},
		{"n4", three, "n4 is none of the 3 members; want it among them"},
	} {
		if err := Check(c.self, c.all); c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q among %d: %v; want %q", c.self, len(c.all), err, c.says)
		}
	}
}

func TestPlace(t *testing.T) {
	all := ids(12)
	for i, id := range all {
		if got := Place(all, id); got != i {
			t.Errorf("%s is at %d; want %d", id, got, i)
		}
	}
	for _, id := range []protocol.NodeID{"", "n0", "n13", "x"} {
		if got := Place(all, id); got != -1 {
			t.Errorf("%q is at %d; want -1", id, got)
		}
	}
}

// FuzzSet holds a set against a slice of places, for every number of members up
// to three words: each byte puts one in, takes one out, or clears it.
func FuzzSet(f *testing.F) {
	f.Add(uint8(3), []byte{0, 2, 4, 0, 1, 255})
	f.Add(uint8(64), []byte{126, 127, 126})
	f.Add(uint8(65), []byte{128, 126, 129})
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		all := 1 + int(n)%192
		s, want := NewSet(all), make([]bool, all)
		for _, b := range data {
			switch i := int(b/2) % all; {
			case b == 255:
				s.Clear()
				clear(want)
			case b%2 == 0:
				s.Add(i)
				want[i] = true
			default:
				s.Remove(i)
				want[i] = false
			}
			count := 0
			for i := range all {
				if want[i] {
					count++
				}
				if in := s.words[i/64]>>(i%64)&1 == 1; in != want[i] {
					t.Fatalf("of %d, member %d is in: %v; want %v", all, i, in, want[i])
				}
			}
			if s.Len() != count {
				t.Fatalf("%d of %d are in; want %d", s.Len(), all, count)
			}
		}
		other := NewSet(all)
		other.Add(0)
		c := protocol.Loading(appended(&s, nil))
		other.State(&c)
		if err := c.Done("set"); err != nil || !slices.Equal(other.words, s.words) || other.Len() != s.Len() {
			t.Errorf("%v was loaded as %v: %v", s, other, err)
		}
	})
}

func appended(s *Set, dst []byte) []byte {
	c := protocol.Appending(dst)
	s.State(&c)
	return c.Appended()
}

// A member beyond those that there are is refused, and leaves nothing behind.
func TestSetBeyond(t *testing.T) {
	for _, all := range []int{1, 63, 65, 100} {
		big := NewSet((all + 63) / 64 * 64)
		big.Add(0)
		big.Add(all)
		s := NewSet(all)
		c := protocol.Loading(appended(&big, nil))
		s.State(&c)
		if err := c.Done("set"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("beyond the %d", all)) || s.Len() != 0 {
			t.Errorf("of %d: %v, %d in", all, err, s.Len())
		}
	}
}

// A machine has a bit for each member, and nothing is allocated after New.
func TestSetSize(t *testing.T) {
	s := NewSet(Max)
	if size := 8 * len(s.words); size > Max/8+8 {
		t.Errorf("%d bytes for %d members; want a bit for each", size, Max)
	}
	dst := make([]byte, 0, 4*Max)
	if n := testing.AllocsPerRun(10, func() { s.Clear(); s.Add(Max - 1); dst = appended(&s, dst[:0]); s.Remove(Max - 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
