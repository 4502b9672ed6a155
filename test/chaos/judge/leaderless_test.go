//go:build linux

package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/network"
)

// TestLeaderless: n1 leads of three (or five) from 2 s to 20 s, n2 from 30 s to the end at 60 s.
// Which part of the ten seconds between counts depends on the nodes that were well and connected.
// Processes start at 1 s and need one second.
func TestLeaderless(t *testing.T) {
	base := func(n int) *script {
		s := &script{closed: true}
		s.begin(second, n)
		s.lives = []lives.Life{
			{Token: 1, Pid: 1, Node: 0, Kind: lives.Library, Start: 2 * second, Last: 20 * second},
			{Token: 2, Pid: 2, Node: 1, Kind: lives.Library, Start: 30 * second, Last: 60 * second},
		}
		s.at(60*second, Event{Kind: Over, Node: NoNode})
		return s
	}
	links := func(l network.Links) Event { return Event{Kind: Links, Node: NoNode, Links: l} }
	health := func(h ...bool) Event { return Event{Kind: Health, Node: NoNode, Healthy: h} }
	for _, c := range []struct {
		name  string
		nodes int
		do    func(s *script)
		want  time.Duration
		at    time.Duration
		set   []int
	}{
		{"all are well", 3, func(s *script) {}, 10 * time.Second, 20 * time.Second, []int{0, 1}},
		{"the leader is cut off for a while", 3, func(s *script) {
			s.at(19*second, links(network.Isolate(3, 0)))
			s.at(25*second, links(nil))
		}, 10 * time.Second, 20 * time.Second, []int{1, 2}},
		{"all are apart for a while", 3, func(s *script) {
			s.at(19*second, links(network.Apart(3)))
			s.at(26*second, links(nil))
		}, 4 * time.Second, 26 * time.Second, []int{0, 1}},
		{"a set after another", 3, func(s *script) {
			s.at(20*second, links(network.Isolate(3, 0)))
			s.at(24*second, links(network.Isolate(3, 1)))
			s.at(30*second, links(nil))
		}, 6 * time.Second, 24 * time.Second, []int{0, 2}},
		{"a link of one way", 3, func(s *script) {
			s.at(20*second, links(network.Merge(network.OneWay(3, 0, 1), network.OneWay(3, 1, 2), network.OneWay(3, 2, 0))))
			s.at(29*second, links(nil))
		}, time.Second, 29 * time.Second, []int{0, 1}},
		{"a link that loses a little", 3, func(s *script) {
			s.at(20*second, links(network.Lossy(3, 1)))
			s.at(28*second, links(nil))
		}, 2 * time.Second, 28 * time.Second, []int{0, 1}},
		{"two of three are ill", 3, func(s *script) {
			s.at(22*second, health(true, false, false))
			s.at(23*second, health(true, true, true))
		}, 7 * time.Second, 23 * time.Second, []int{0, 1}},
		{"one of three is ill", 3, func(s *script) { s.at(22*second, health(false, true, true)) }, 10 * time.Second, 20 * time.Second, []int{1, 2}},
		{"ill before the gap and after it", 3, func(s *script) {
			s.at(19*second, health(true, false, false))
			s.at(31*second, health(true, true, true))
		}, 0, 0, nil},
		{"two of three are down", 3, func(s *script) {
			s.at(20*second, Event{Kind: End, Node: 1, Pid: 101})
			s.at(20*second, Event{Kind: End, Node: 2, Pid: 102})
			s.at(24*second, Event{Kind: Start, Node: 2, Pid: 202})
		}, 5 * time.Second, 25 * time.Second, []int{0, 2}},
		{"a process ends before it has booted", 3, func(s *script) {
			s.at(20*second, Event{Kind: End, Node: 1, Pid: 101})
			s.at(20*second, Event{Kind: End, Node: 2, Pid: 102})
			s.at(24*second, Event{Kind: Start, Node: 2, Pid: 202})
			s.at(24*second+second/2, Event{Kind: End, Node: 2, Pid: 202})
			s.at(28*second, Event{Kind: Start, Node: 2, Pid: 203})
		}, time.Second, 29 * time.Second, []int{0, 2}},
		{"two of three are frozen", 3, func(s *script) {
			s.at(20*second, Event{Kind: Stop, Node: 1, Part: PartNode})
			s.at(20*second, Event{Kind: Stop, Node: 2, Part: PartFamily})
			s.at(21*second, Event{Kind: Cont, Node: 2, Part: PartFamily})
		}, 9 * time.Second, 21 * time.Second, []int{0, 2}},
		{"the machine stood still", 3, func(s *script) {
			s.at(24*second, Event{Kind: Stall, Node: NoNode, For: 3 * time.Second})
			s.at(25*second, Event{Kind: Stall, Node: NoNode, For: 2 * time.Second})
			s.at(41*second, Event{Kind: Stall, Node: NoNode, For: 2 * time.Second})
		}, 6 * time.Second, 20 * time.Second, []int{0, 1}},
		{"only two vote", 3, func(s *script) {
			s.at(10*second, Event{Kind: Voters, Node: NoNode, Voters: []int{0, 2}})
			s.at(22*second, Event{Kind: Voters, Node: NoNode, Voters: []int{0, 1, 2}})
			s.at(10*second, health(false, true, true))
		}, 8 * time.Second, 22 * time.Second, []int{1, 2}},
		{"five, and a bridge", 5, func(s *script) {
			s.at(20*second, links(network.Bridge(5, 4)))
			s.at(27*second, links(nil))
		}, 10 * time.Second, 20 * time.Second, []int{0, 1, 4}},
		{"five, and only a hub sees a majority", 5, func(s *script) {
			s.at(20*second, links(network.Hub(5, 0)))
			s.at(27*second, links(nil))
		}, 3 * time.Second, 27 * time.Second, []int{0, 1, 2}},
		{"one is enough, of a file", 3, func(s *script) {
			s.events[0].Majority = 1
			s.at(20*second, links(network.Apart(3)))
			s.at(20*second, health(false, false, true))
		}, 10 * time.Second, 20 * time.Second, []int{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base(c.nodes)
			c.do(s)
			r := s.judge(t)
			if r.Longest != c.want || c.want > 0 && (r.LongestAt != int64(c.at) || !slices.Equal(r.Leaderless[0].Set, c.set)) {
				t.Errorf("the longest is %v, at %v, of %v; want %v, at %v, of %v", r.Longest, time.Duration(r.LongestAt), r.Leaderless, c.want, c.at, c.set)
			}
		})
	}
}

// TestLive: a majority that is well and has no leader for more than thirty promises
// breaks one. The machine's pauses do not count, nor does a time without a majority.
func TestLive(t *testing.T) {
	for _, c := range []struct {
		name    string
		promise time.Duration
		do      func(s *script)
		want    int
	}{
		{"too long", 300 * time.Millisecond, func(*script) {}, 1},
		{"long", 334 * time.Millisecond, func(*script) {}, 0},
		{"no promise is known", 0, func(*script) {}, 0},
		{"too long, with a fault that goes on", 300 * time.Millisecond, func(s *script) {
			s.at(15*second, Event{Kind: Fault, Fault: "one-way", ID: 1, Node: 0})
		}, 1},
		{"the machine stood still", 300 * time.Millisecond, func(s *script) {
			s.at(24*second, Event{Kind: Stall, Node: NoNode, For: 2 * time.Second})
		}, 0},
		{"no majority for a while", 300 * time.Millisecond, func(s *script) {
			s.at(23*second, Event{Kind: Links, Node: NoNode, Links: network.Apart(3)})
			s.at(25*second, Event{Kind: Links, Node: NoNode})
		}, 0},
	} {
		s := &script{closed: true}
		s.begin(second, 3)
		s.lives = []lives.Life{
			{Token: 1, Pid: 1, Node: 0, Kind: lives.Library, Start: 2 * second, Last: 20 * second},
			{Token: 2, Pid: 2, Node: 1, Kind: lives.Library, Start: 30 * second, Last: 60 * second},
		}
		s.at(60*second, Event{Kind: Over, Node: NoNode})
		c.do(s)
		for _, quick := range []bool{true, false} {
			r, err := Judge(s.write(t), Options{Promise: c.promise, Quick: quick})
			if err != nil {
				t.Fatal(err)
			}
			if r.Counts[CheckLive] != c.want || r.All() != c.want {
				t.Errorf("%s: %d times; want %d\n%v", c.name, r.Counts[CheckLive], c.want, &r)
			}
		}
	}
}

func TestAvailability(t *testing.T) {
	s := &script{closed: true}
	s.begin(second, 3)
	s.lives = []lives.Life{
		{Token: 1, Pid: 1, Node: 0, Kind: lives.Library, Start: 11 * second, Last: 21 * second},
		{Token: 2, Pid: 2, Node: 1, Kind: lives.Library, Start: 26 * second, Last: 41 * second},
		{Token: 3, Pid: 3, Node: 2, Kind: lives.Library, Start: 46 * second, Last: 70 * second}, // beyond the end
	}
	s.at(20*second, Event{Kind: Fault, Fault: "isolate", ID: 1, Node: 0})
	s.at(20*second, Event{Kind: Links, Node: NoNode, Links: network.Apart(3)})
	s.at(23*second, Event{Kind: Links, Node: NoNode})
	s.at(23*second, Event{Kind: Heal, Fault: "isolate", ID: 1, Node: NoNode})
	s.at(40*second, Event{Kind: Fault, Fault: "kill", ID: 2, Node: 1})
	s.at(41*second, Event{Kind: Heal, Fault: "kill", ID: 2, Node: NoNode})
	s.at(42*second, Event{Kind: Fault, Fault: "slow", ID: 3, Node: 1}) // before there was a leader: the heal of 2 does not count
	s.at(43*second, Event{Kind: Fault, Fault: "slower", ID: 4, Node: 1})
	s.at(44*second, Event{Kind: Heal, Fault: "slow", ID: 3, Node: NoNode}) // 4 goes on: it does not count either
	s.at(45*second, Event{Kind: Heal, Fault: "slower", ID: 4, Node: NoNode})
	s.at(50*second, Event{Kind: Fault, Fault: "nothing", ID: 5, Node: 1})
	s.at(51*second, Event{Kind: Heal, Fault: "nothing", ID: 5, Node: NoNode}) // there is a leader all the time
	s.at(61*second, Event{Kind: Over, Node: NoNode})
	r := s.judge(t)
	if want := 40.0 / 50; r.Availability != want { // from 11 s to 61 s, but 21–26 and 41–46
		t.Errorf("availability %v; want %v", r.Availability, want)
	}
	if want := 39.0 / 47; r.AvailabilityHealthy != want || r.Healthy != 47*time.Second { // and not 20–23, with a leader for 1 s
		t.Errorf("availability of the healthy %v, %v; want %v", r.AvailabilityHealthy, r.Healthy, want)
	}
	if r.First != 10*time.Second || r.Longest != 5*time.Second || r.LongestAt != 41*second || len(r.Leaderless) != 2 {
		t.Errorf("first %v, leaderless %v", r.First, r.Leaderless)
	}
	if l := r.Leaderless[0]; len(l.During) != 0 || l.After != "kill" || l.Since != 0 {
		t.Errorf("the longest is %+v; want it after kill", l)
	}
	if l := r.Leaderless[1]; l.Length != 3*time.Second || l.After != "isolate" || l.Since != 0 {
		t.Errorf("the next is %+v; want it after isolate", l)
	}
	want := []Recovery{{23 * second, "isolate", 3 * time.Second, false}, {45 * second, "slower", time.Second, false}, {51 * second, "nothing", 0, false}}
	if !slices.Equal(r.Recoveries, want) || r.RecoveryMedian != time.Second {
		t.Errorf("recoveries %+v, median %v; want %+v", r.Recoveries, r.RecoveryMedian, want)
	}
}

// TestNoLeaderAgain: a run that ends without a leader says so.
func TestNoLeaderAgain(t *testing.T) {
	s := &script{closed: true}
	s.begin(second, 3)
	s.lives = []lives.Life{{Token: 1, Pid: 1, Node: 0, Kind: lives.Library, Start: 2 * second, Last: 10 * second}}
	s.at(10*second, Event{Kind: Fault, Fault: "kill", ID: 1, Node: 0})
	s.at(12*second, Event{Kind: Heal, Fault: "kill", ID: 1, Node: NoNode})
	s.at(60*second, Event{Kind: Over, Node: NoNode})
	r := s.judge(t)
	if r.Longest != 50*time.Second || len(r.Recoveries) != 1 || !r.Recoveries[0].Never || r.Recoveries[0].Took != 48*time.Second {
		t.Errorf("%v\n%+v", &r, r.Recoveries)
	}
	if l := r.Leaderless[0]; !slices.Equal(l.During, []string{"kill"}) {
		t.Errorf("it began during %v; want kill", l.During)
	}
}

func TestSpans(t *testing.T) {
	all := union([]span{{5, 7}, {1, 3}, {3, 4}, {6, 9}, {11, 11}})
	if want := []span{{1, 4}, {5, 9}}; !slices.Equal(all, want) {
		t.Errorf("union %v; want %v", all, want)
	}
	if got, want := without(span{0, 12}, all), []span{{0, 1}, {4, 5}, {9, 12}}; !slices.Equal(got, want) {
		t.Errorf("without %v; want %v", got, want)
	}
	if got := without(span{2, 3}, all); len(got) != 0 {
		t.Errorf("without %v; want nothing", got)
	}
	if got, want := common(all, []span{{2, 6}, {8, 20}}), []span{{2, 4}, {5, 6}, {8, 9}}; !slices.Equal(got, want) {
		t.Errorf("common %v; want %v", got, want)
	}
}
