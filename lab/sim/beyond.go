package sim

import (
	"math"
	"slices"
)

// These functions list what a broken assumption excuses. The resource that checks tokens is excused
// only where tokens may have been lost.

// byClock: a claim outlasts its promise.
func byClock() []Invariant { return []Invariant{Exclusive, NoneOffered, ToldInTime, Live} }

// byHand: a session or a record is ended that must not be ended from outside. Where the record
// holds the count, tokens begin anew.
func byHand() []Invariant {
	return append(byClock(), OneLeader, Once, TokensRise, FIFO, NoStale)
}

// byMemory: acknowledged data is forgotten, or a message comes under another's name. This includes
// votes, tokens and memberships.
func byMemory() []Invariant {
	return append(byHand(), OneVote, VoteSaved, Anchored, Adjacent, OneMembership, DurableFirst)
}

// Excused lists the invariants that need not hold in the schedule's run, because it breaks an
// assumption of p about clocks, disks, stores or operators. It depends on the faults in the
// schedule, and is empty if s.Beyond is false: a schedule has to declare that it breaks
// assumptions.
func (s *Schedule) Excused(p *Protocol) ([]Invariant, error) {
	if !s.Beyond {
		return nil, nil
	}
	var all []Invariant
	if p.Drift != nil {
		drift, err := p.Drift(s.Config)
		if err != nil {
			return nil, err
		}
		if s.fastest(p) > drift.PPM {
			all = append(all, byClock()...)
		}
	}
	var breaks []OpKind
	if p.Breaks != nil {
		var err error
		if breaks, err = p.Breaks(s.Config); err != nil {
			return nil, err
		}
	}
	for i := range s.Ops {
		switch kind := s.Ops[i].Kind; {
		case kind.beyond():
			all = append(all, byMemory()...)
		case kind == OpStoreHang && s.Store.Mended:
		case slices.Contains(breaks, kind):
			all = append(all, byHand()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// fastest is the greatest deviation of a clock from true time, in parts per
// million.
func (s *Schedule) fastest(p *Protocol) int64 {
	most := int64(0)
	deviates := func(rate int64) { most = max(most, rate, -rate) }
	for _, c := range s.Clocks {
		deviates(c.Rate)
	}
	if p.Store != StoreNone {
		deviates(s.Store.Rate)
	}
	for i := range s.Ops {
		if s.Ops[i].Kind == OpRate {
			deviates(int64(math.Round(s.Ops[i].Value)))
		}
	}
	return most
}
