//go:build linux

package judge

import (
	"testing"
	"time"
)

// TestZombies: a family that was frozen whole and stamps on for an instant is counted
// if another led by then, and its reign ends when it was frozen. Where nobody else
// led it has just been frozen for a while.
func TestZombies(t *testing.T) {
	for _, c := range []struct {
		name    string
		next    int64 // when the next leader begins
		zombies int
		longest time.Duration
	}{
		{"another leads", 21 * second, 1, time.Second},
		{"nobody else does", 26 * second, 0, 26*time.Second - 25*time.Second - 90*time.Millisecond},
	} {
		s := sound()
		s.ops, s.watch = nil, nil
		for i := range 2 {
			s.lives[i].Last, s.lives[i].Paused, s.lives[i].Resumed = 25*second+90*ms, 20*second, 25*second
		}
		s.lives[2].Start, s.lives[2].Last = c.next, 60*second
		s.at(20*second-ms, Event{Kind: Stop, Node: 0, Part: PartFamily})
		s.at(25*second+ms, Event{Kind: Cont, Node: 0, Part: PartFamily})
		if r := s.judge(t); !r.OK() || r.Zombies != c.zombies || r.Longest != c.longest {
			t.Errorf("%s: %d zombies, without a leader for %v; want %d and %v\n%v", c.name, r.Zombies, r.Longest, c.zombies, c.longest, &r)
		}
	}
}
