//go:build linux

package storm

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
)

// Plan is what a schedule is drawn from.
type Plan struct {
	Seed      uint64
	For       time.Duration
	Setup     string
	Network   string
	Abilities []Ability
	Faults    []string // only these; empty: all that there are
}

// Draw draws a schedule. The same plan gives the same one.
func Draw(p Plan) (*Schedule, error) {
	set, err := setup(p.Setup)
	if err != nil {
		return nil, err
	}
	s := &Schedule{
		Format: format, Seed: p.Seed, For: p.For, Setup: p.Setup, Network: p.Network,
		Abilities: slices.Compact(slices.Sorted(slices.Values(p.Abilities))),
		Promise:   set.Promise, Heartbeat: set.Heartbeat,
	}
	s.Voters, s.Size = crowd(p.Seed, set)
	root := &dice{seed: p.Seed, promise: set.Promise, voters: s.Voters}
	nodes := root.stream("nodes")
	// Either clocks have rates, or they are stepped: both at once would break the assumption.
	rates := nodes.oneIn(2)
	if slices.Contains(p.Faults, clockRates) || slices.Contains(p.Faults, clockStep) {
		rates = slices.Contains(p.Faults, clockRates)
	}
	s.Nodes = drawNodes(nodes, s, set, rates)
	faults, err := choose(p.Faults, s.has, set, s.Voters)
	if err != nil {
		return nil, err
	}
	faults = slices.DeleteFunc(faults, func(f fault) bool { return f.name == clockRates && !rates || f.name == clockStep && rates })
	if len(faults) == 0 {
		return nil, fmt.Errorf("storm: no fault can be had here with the setup %s", p.Setup)
	}
	drawEvents(root, s, faults)
	return s, s.check()
}

// crowd is the number of founders, and of all nodes.
func crowd(seed uint64, set Setup) (voters, size int) {
	switch {
	case set.File:
		return 5, 5
	case seed%2 == 1:
		return 5, 6
	}
	return 3, 4 // one to add
}

// fastest is the greatest deviation of a clock within the assumption.
const fastest = 50_000 // millionths

func drawNodes(d *dice, s *Schedule, set Setup, rates bool) []Node {
	nodes := make([]Node, s.Size)
	kinds := []cluster.Kind{cluster.Command, cluster.Command, cluster.Library, cluster.Guarded}
	shift := d.IntN(len(kinds))
	for i := range nodes {
		kind := kinds[(i+shift)%len(kinds)]
		if set.File && kind == cluster.Guarded {
			kind = cluster.Command // a guardian is for leases
		}
		nodes[i].Kind = kind.String()
		if set.File {
			continue
		}
		// It is drawn even if it is not available: the rest does not change.
		rate, zone := d.between(-fastest, fastest), d.oneIn(2)
		boot, mono := d.between(0, 30*24*3600), d.between(0, 30*24*3600)
		if s.has(Clocks) && rates {
			nodes[i].Rate = rate
		}
		if s.has(Zones) && zone {
			nodes[i].Boot, nodes[i].Mono = time.Duration(boot)*time.Second, time.Duration(mono)*time.Second
		}
	}
	return nodes
}

// deck draws faults: each as often as its weight before any repeats.
type deck struct {
	d      *dice
	faults []fault
	cards  []int
}

func (k *deck) deal(fits func(fault) bool) (fault, bool) {
	for range 2 {
		for i, c := range k.cards {
			if fits(k.faults[c]) {
				k.cards = slices.Delete(k.cards, i, i+1)
				return k.faults[c], true
			}
		}
		k.cards = k.cards[:0]
		for c, f := range k.faults {
			for range f.weight {
				k.cards = append(k.cards, c)
			}
		}
		k.d.Shuffle(len(k.cards), func(i, j int) { k.cards[i], k.cards[j] = k.cards[j], k.cards[i] })
	}
	return fault{}, false
}

// drawEvents fills the time with bursts of one to three overlapping faults, and pauses between
// them.
func drawEvents(root *dice, s *Schedule, faults []fault) {
	cards := &deck{d: root.stream("deck"), faults: faults}
	rhythm := root.stream("rhythm")
	// The last fault has time to end.
	for at := s.Promise; at < s.For; {
		count := 1
		switch n := rhythm.IntN(20); {
		case n < 3:
			count = 3
		case n < 9:
			count = 2
		}
		end := at
		var alone []string
		for range count {
			f, ok := cards.deal(func(f fault) bool { return f.alone == "" || !slices.Contains(alone, f.alone) })
			if !ok {
				break
			}
			if f.alone != "" {
				alone = append(alone, f.alone)
			}
			number := len(s.Events) + 1
			d := root.stream("fault/" + strconv.Itoa(number) + "/" + f.name)
			p := Planned{Number: number, At: at + d.promises(0, 150), Fault: f.name, For: d.promises(20, 300), Order: d.order()}
			switch n := d.IntN(5); {
			case n < 2:
				p.First = leader
			case n < 3:
				p.First = follower
			}
			if f.draw != nil {
				f.draw(d, &p)
			}
			s.Events = append(s.Events, p)
			end = max(end, p.At+p.For)
		}
		at = end + rhythm.tail(4)
		if rhythm.oneIn(6) {
			at += 3 * s.Promise // long enough for all to recover
		}
	}
	slices.SortStableFunc(s.Events, func(a, b Planned) int { return int(a.At - b.At) })
	for i := range s.Events {
		s.Events[i].Number = i + 1
	}
}
