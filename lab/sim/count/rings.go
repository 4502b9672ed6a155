package count

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/bully"
	"github.com/electd/elect/internal/protocol/ring"
)

func bullyKind() kind {
	return kind{
		name: bully.Name, least: 2, most: MaxNodes, why: whyTwo, told: true,
		make: func(ids []protocol.NodeID, i int, _ *Spec) (protocol.Machine, error) {
			return bully.New(bully.Config{Self: ids[i], Members: ids})
		},
		play: playBully, beyond: []protocol.MessageType{bully.Alive},
		formula: bullyFormula,
	}
}

// bullyFormula is Garcia-Molina's, with one initiator. With several, those above
// the lowest would have begun anyway.
func bullyFormula(s *Spec) ([]Kind, string) {
	n, i := uint64(s.N), uint64(s.lowest())
	m := n - i
	says := "m²+n−2, m=n−i"
	if i == 1 {
		says = "n²−n−1"
	}
	return []Kind{
		{Type: bully.Election, Formula: m * (m + 1) / 2},
		{Type: bully.OK, Formula: m * (m - 1) / 2},
		{Type: bully.Coordinator, Formula: n - 2},
	}, says
}

// lowest is the lowest of the initiators.
func (s *Spec) lowest() int {
	lowest := 1
	for k, p := range s.Initiators {
		if k == 0 || p < lowest {
			lowest = p
		}
	}
	return lowest
}

// playBully: the highest leads and dies; the initiators notice, all before any
// of them hears another.
func playBully(k *kind, s *Spec) (*net, error) {
	w, err := k.net(s)
	if err != nil {
		return nil, err
	}
	// The highest is up before all others: no other needs to stand.
	top := s.N - 1
	w.give(top, protocol.Input{Kind: protocol.Boot})
	w.do(top, protocol.Campaign)
	if err := w.alone(top, func() bool { return w.elected == top }); err != nil {
		return nil, err
	}
	for i := range top {
		w.give(i, protocol.Input{Kind: protocol.Boot})
		w.do(i, protocol.Campaign)
	}
	// They hear it before they begin an election, and follow.
	w.nodes[top].sent = false
	if err := w.alone(top, func() bool { return w.nodes[top].sent }); err != nil {
		return nil, err
	}
	w.deliver()
	w.kill(top)
	w.counting = true
	begin := []int{s.lowest()}
	if len(s.Initiators) > 0 {
		begin = s.Initiators
	}
	for _, p := range begin {
		for !w.nodes[p-1].sent {
			if !w.fire(p - 1) {
				return nil, fmt.Errorf("%s does not notice", w.ids[p-1])
			}
		}
	}
	return w, w.together(func() bool { return w.elected != none })
}

func ringKind(name string, changRoberts bool) kind {
	k := kind{
		name: name, least: 2, most: MaxNodes, why: whyTwo, told: true, ring: true,
		make: func(ids []protocol.NodeID, i int, s *Spec) (protocol.Machine, error) {
			return ring.New(ring.Config{Self: ids[i], Members: ids, Ring: s.around, ChangRoberts: changRoberts})
		},
		play: playRing, beyond: []protocol.MessageType{ring.Alive, ring.Ack},
		formula: ringFormula,
	}
	if changRoberts {
		k.told, k.formula = false, changRobertsFormula
	}
	return k
}

// playRing: there was no leader, and the initiators begin at once. In the textbook's ring without
// initiators, the highest leads and dies, and the one before it notices.
func playRing(k *kind, s *Spec) (*net, error) {
	s.order()
	w, err := k.net(s)
	if err != nil {
		return nil, err
	}
	w.boot()
	w.deliver()
	begin := s.Initiators
	switch {
	case !k.told:
		for i := range s.N {
			begin = append(begin, i+1)
		}
	case len(begin) == 0:
		if err := w.alone(s.N-1, func() bool { return w.elected == s.N-1 }); err != nil {
			return nil, err
		}
		w.deliver()
		w.kill(s.N - 1)
		w.counting = true
		return w, w.together(func() bool { return w.elected != none })
	}
	w.clear()
	w.counting = true
	for _, p := range begin {
		if !w.fire(p-1) || !w.nodes[p-1].sent {
			return nil, fmt.Errorf("%s does not begin", w.ids[p-1])
		}
	}
	return w, w.together(func() bool { return w.elected != none })
}

// order makes the ring's ids of its places.
func (s *Spec) order() {
	if len(s.Ring) == 0 {
		return
	}
	ids := names(s.N)
	s.around = make([]protocol.NodeID, s.N)
	for i, p := range s.Ring {
		s.around[i] = ids[p-1]
	}
}

// ringFormula: for each of the initiators the list goes round once, and the Coordinator once.
func ringFormula(s *Spec) ([]Kind, string) {
	n, says := uint64(s.N), "2kn"
	k := uint64(len(s.Initiators))
	switch k {
	case 0:
		n, k, says = n-1, 1, "2(n−1)"
		if n == 1 {
			k = 0 // one that is left alone asks no other
		}
	case 1:
		says = "2n"
	}
	return []Kind{{Type: ring.Election, Formula: k * n}, {Type: ring.Coordinator, Formula: k * n}}, says
}

// changRobertsFormula: an id goes on until it meets a higher one; the highest
// goes round. So each id costs the distance to the next higher one.
func changRobertsFormula(s *Spec) ([]Kind, string) {
	n := uint64(s.N)
	var elections uint64
	says := "n+Σd"
	switch {
	case len(s.Ring) == 0 || rising(s.Ring):
		elections, says = 2*n-1, "2n−1+n"
	case falling(s.Ring):
		elections, says = n*(n+1)/2, "n(n+1)/2+n"
	default:
		elections = distances(s.Ring)
	}
	return []Kind{{Type: ring.Election, Formula: elections}, {Type: ring.Coordinator, Formula: n}}, says
}

// distances adds up the distances of each place of a ring from the next higher one, in one pass
// over two rounds, with a stack of those that have met none yet.
func distances(ring []int) uint64 {
	var sum uint64
	var open []int // indices, of falling places
	n := len(ring)
	for i := range 2 * n {
		for len(open) > 0 && ring[open[len(open)-1]%n] < ring[i%n] {
			if j := open[len(open)-1]; j < n {
				sum += uint64(i - j)
			}
			open = open[:len(open)-1]
		}
		open = append(open, i)
	}
	return sum + uint64(n) // the highest goes round
}

func rising(ring []int) bool {
	for i := range len(ring) {
		if ring[i] != i+1 {
			return false
		}
	}
	return true
}

func falling(ring []int) bool {
	for i := range len(ring) {
		if ring[i] != len(ring)-i {
			return false
		}
	}
	return true
}

// Rising is the cheapest ring of Chang and Roberts: 1, 2, …, n.
func Rising(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// Falling is the dearest: n, …, 2, 1.
func Falling(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = n - i
	}
	return all
}

// Shuffled is a ring by chance, the same for the same seed.
func Shuffled(n int, seed uint64) []int {
	all := Rising(n)
	w := net{rand: seed}
	for i := n - 1; i > 0; i-- {
		j := int(w.random() % uint64(i+1))
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// Harmonic is n·Hₙ, the mean of Chang and Roberts over all rings, without the n
// messages that announce the winner.
func Harmonic(n int) float64 {
	h := 0.0
	for k := n; k >= 1; k-- {
		h += 1 / float64(k)
	}
	return float64(n) * h
}
