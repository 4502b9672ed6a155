//go:build linux

package judge

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// TestLeases: two nodes, each alone, have leases at the same readings of their
// clocks, an hour after zero. Whether that is the same time depends on the clocks.
func TestLeases(t *testing.T) {
	one, two := newTape(t, "n1", 1, nil).elect(3), newTape(t, "n2", 1, nil).elect(3)
	const both = 6
	for _, c := range []struct {
		name   string
		clocks []Event
		want   bool // a violation
		leases int
	}{
		{"clocks of which nothing is known", nil, false, 0},
		{"one clock is known", []Event{{At: second, Node: 0}}, false, both / 2},
		{"the same clocks", []Event{{At: second, Node: 0}, {At: second, Node: 1}}, true, both},
		{"one is ahead", []Event{{At: second, Node: 0}, {At: second, Node: 1, Ahead: time.Minute}}, false, both},
		{"both are ahead", []Event{{At: second, Node: 0, Ahead: -time.Minute}, {At: second, Node: 1, Ahead: -time.Minute}}, true, both},
		{"one is ahead so little that one cannot tell", []Event{{At: second, Node: 0}, {At: second, Node: 1, Ahead: 50 * time.Microsecond}}, true, both},
		{"one runs fast", []Event{{At: second, Node: 0, Rate: 1}, {At: second, Node: 1, Rate: 1.01}}, false, both},
		{"one runs fast and then slow", []Event{
			{At: second, Node: 0}, {At: second, Node: 1, Rate: 1.25},
			{At: 1001 * second, Node: 1, Ahead: 250 * time.Second, Rate: 0.5},
			{At: 1501 * second, Node: 1}, // it has lost what it was ahead
		}, true, both},
		{"a clock that is true too late", []Event{{At: second, Node: 0}, {At: second, Node: 1, Ahead: time.Minute}, {At: int64(2 * time.Hour), Node: 1}}, false, both},
		{"clocks that are known too late", []Event{{At: second, Node: 0}, {At: int64(2 * time.Hour), Node: 1}}, false, both / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sound()
			s.files = map[string][]byte{segmentPath("data", "n1", "flight-00000001.ndjson"): one.out.Bytes(), segmentPath("data", "n2", "flight-00000001.ndjson"): two.out.Bytes()}
			for _, e := range c.clocks {
				e.Kind = Clock
				s.at(e.At, e)
			}
			r := s.judge(t)
			want := []string{CheckTerm} // they have the same terms
			if c.want {
				want = []string{CheckLease, CheckTerm}
			}
			// Both nodes have the same tokens, too, at the same times.
			if got := slices.Sorted(maps.Keys(r.Counts)); !slices.Equal(got, want) || r.Leases != c.leases {
				t.Errorf("violates %v with %d leases; want %v with %d\n%v", got, r.Leases, want, c.leases, &r)
			}
		})
	}
}

// TestLeaseSlack: leases that overlap by what clocks may be off are none. Those here
// are of 102 ms, from the vote that is durable to the resignation.
func TestLeaseSlack(t *testing.T) {
	one, two := newTape(t, "n1", 1, nil).elect(1), newTape(t, "n2", 1, nil).elect(1)
	for ahead, want := range map[time.Duration]bool{
		102*time.Millisecond - leaseSlack - time.Nanosecond: true,
		102*time.Millisecond - leaseSlack:                   false,
	} {
		s := sound()
		s.files = map[string][]byte{segmentPath("data", "n1", "flight-00000001.ndjson"): one.out.Bytes(), segmentPath("data", "n2", "flight-00000001.ndjson"): two.out.Bytes()}
		s.at(second, Event{Kind: Clock, Node: 0})
		s.at(second, Event{Kind: Clock, Node: 1, Ahead: ahead})
		if r := s.judge(t); r.Counts[CheckLease] > 0 != want {
			t.Errorf("ahead by %v: %v", ahead, &r)
		}
	}
}
