//go:build linux

package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestZombies: a family that was frozen as a whole and stamps for an instant after it resumes is
// counted if there was another leader by then, and its tenure ends when it was frozen. Without
// another leader it was only frozen for a while.
func TestZombies(t *testing.T) {
	for _, c := range []struct {
		name    string
		next    int64 // when the next leader begins
		zombies int
		longest time.Duration
	}{
		{"another leads", 21 * second, 1, time.Second},
		{"no other does", 26 * second, 0, 26*time.Second - 25*time.Second - 90*time.Millisecond},
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

// TestGrace: excused stamps are counted, with their longest time, and those due to the computer
// separately.
func TestGrace(t *testing.T) {
	stop := func(s *script) {
		s.at(20*second-ms, Event{Kind: Stop, Node: 0, Part: PartFamily})
		s.at(25*second+ms, Event{Kind: Cont, Node: 0, Part: PartFamily})
	}
	stall := func(s *script) { s.at(25*second+ms, Event{Kind: Stall, Node: NoNode, For: 5 * time.Second}) }
	for _, c := range []struct {
		name   string
		freeze func(s *script)
		stood  int
	}{
		{"stopped", stop, 0},
		{"the machine stood still", stall, 1},
		{"both", func(s *script) { stall(s); stop(s) }, 0},
	} {
		s := sound()
		s.ops, s.watch = nil, nil
		for i := range int64(2) {
			s.lives[i].Last, s.lives[i].Paused, s.lives[i].Resumed = 25*second+(70-i)*ms, 20*second, 25*second
		}
		c.freeze(s)
		r := s.judge(t)
		if !r.OK() || r.Zombies != 1 || r.Stood != c.stood || r.Grace != 70*time.Millisecond {
			t.Errorf("%s: %d zombies, %d of the machine's, for %v; want 1, %d and 70ms\n%v", c.name, r.Zombies, r.Stood, r.Grace, c.stood, &r)
		}
		if stalls := min(1, strings.Count(c.name, "machine")+strings.Count(c.name, "both")); r.Stalls != stalls || r.Stalled != time.Duration(stalls)*5*time.Second || strings.Contains(r.String(), "stood still; for 5s together") != (stalls > 0) {
			t.Errorf("%s: %d stalls, for %v; want %d of 5s\n%v", c.name, r.Stalls, r.Stalled, stalls, &r)
		}
		if want := fmt.Sprintf("%d of them because the machine stood still; for 70ms at most", c.stood); !strings.Contains(r.String(), want) {
			t.Errorf("%s: no %q in\n%v", c.name, want, &r)
		}
	}
}
