package count

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// Spec describes the election that is counted.
type Spec struct {
	// Protocol is one of Protocols.
	Protocol string `json:"protocol"`
	// N is how many machines there are, the dead leader included. The least and
	// the greatest depend on the protocol; see Bounds.
	N int `json:"n"`
	// Initiators are the places, from 1, of the participants that begin, all before any of them
	// hears another. Only bully and ring can be told.
	//
	// Empty is in bully the lowest, which costs most; in ring the one before the leader, which
	// alone notices its death, and in ring-chang-roberts all; elsewhere the one whose timer expires
	// first. In ring with initiators, and in ring-chang-roberts, there is no leader before: all N
	// are alive.
	Initiators []int `json:"initiators,omitempty"`
	// Ring is the order of places around the ring, each of 1 to N once; empty is the order of ids,
	// which is the cheapest. It is for the rings only.
	Ring []int `json:"-"`
	// Seed is for what is random, such as timeouts.
	Seed uint64 `json:"seed,omitempty"`

	around []protocol.NodeID // Ring, as ids
}

// Count is the cost of an election.
type Count struct {
	Spec
	Winner protocol.NodeID `json:"winner"`
	// Requests: what is counted are requests to a store, not messages.
	Requests bool   `json:"requests,omitempty"`
	Kinds    []Kind `json:"kinds"`
	Sent     uint64 `json:"sent"` // all kinds together
	// Formula is what the formula gives, and Says is the formula.
	Formula uint64 `json:"formula"`
	Says    string `json:"says"`
}

// Kind is what was sent of one type. Messages to the dead count, as in the papers.
type Kind struct {
	Type    protocol.MessageType `json:"type"`
	Sent    uint64               `json:"sent"`
	Formula uint64               `json:"formula"`
}

// Exact reports whether each type was sent as often as the formula says.
func (c *Count) Exact() bool {
	return !slices.ContainsFunc(c.Kinds, func(k Kind) bool { return k.Sent != k.Formula })
}

// Protocols returns the names that can be counted.
func Protocols() []string {
	var all []string
	for i := range kinds() {
		all = append(all, kinds()[i].name)
	}
	return all
}

// Bounds returns the least and the greatest number of machines of a protocol,
// and why there are no more; false if the name is unknown.
func Bounds(name string) (least, most int, why string, ok bool) {
	k, ok := byName(name)
	if !ok {
		return 0, 0, "", false
	}
	return k.least, k.most, k.why, true
}

func byName(name string) (*kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil, false
	}
	return &all[i], true
}

// Run counts one election. An error says what is invalid in the spec, or that no leader was
// elected.
func Run(s Spec) (Count, error) {
	k, err := s.check()
	if err != nil {
		return Count{}, fmt.Errorf("count: %w", err)
	}
	w, err := k.play(k, &s)
	if err != nil {
		return Count{}, fmt.Errorf("count: %s with %d: %w", s.Protocol, s.N, err)
	}
	c := Count{Spec: s, Requests: k.requests, Winner: w.ids[cmp.Or(w.elected+1, 1)-1]}
	c.Kinds, c.Says = k.formula(&s)
	for _, sent := range w.kinds {
		if slices.Contains(k.beyond, sent.Type) {
			continue
		}
		i := slices.IndexFunc(c.Kinds, func(f Kind) bool { return f.Type == sent.Type })
		if i < 0 {
			i = len(c.Kinds)
			c.Kinds = append(c.Kinds, Kind{Type: sent.Type})
		}
		c.Kinds[i].Sent = sent.Sent
	}
	for _, t := range c.Kinds {
		c.Sent += t.Sent
		c.Formula += t.Formula
	}
	return c, nil
}

// check says what is wrong with the spec.
func (s *Spec) check() (*kind, error) {
	k, ok := byName(s.Protocol)
	if !ok {
		return nil, fmt.Errorf("protocol %q; want one of %s", s.Protocol, strings.Join(Protocols(), ", "))
	}
	if s.N < k.least || s.N > k.most {
		return nil, fmt.Errorf("%s with %d machines; want %d to %d: %s", s.Protocol, s.N, k.least, k.most, k.why)
	}
	if !k.told && len(s.Initiators) > 0 {
		return nil, fmt.Errorf("initiators of %s; only bully and ring have initiators", s.Protocol)
	}
	if !k.ring && len(s.Ring) > 0 {
		return nil, fmt.Errorf("a ring of %s; only the rings can have one", s.Protocol)
	}
	last := s.N - 1 // the leader is dead
	if k.ring {
		last = s.N
	}
	for i, p := range s.Initiators {
		if p < 1 || p > last || slices.Contains(s.Initiators[:i], p) {
			return nil, fmt.Errorf("initiators %v; want places from 1 to %d, each once", s.Initiators, last)
		}
	}
	if len(s.Ring) > 0 {
		sorted := slices.Sorted(slices.Values(s.Ring))
		for i, p := range sorted {
			if len(sorted) != s.N || p != i+1 {
				return nil, fmt.Errorf("a ring of %d places; want each of 1 to %d once", len(s.Ring), s.N)
			}
		}
	}
	return k, nil
}
