package check

import (
	"fmt"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// Kill describes how a mutant was found.
type Kill struct {
	World     World
	States    uint64 // that were visited until then, in all worlds
	Violation *Violation
	Trail     *Trail
}

// Hunt explores the worlds of a mutant of package quorum until an invariant is violated. It returns
// nil without a violation, and if the mutant has no world: mutants that break no safety, or not in
// so small a world, are for the simulator. It works in builds with the tag mutants; otherwise it
// returns ErrNoMutants.
func Hunt(mutant string, o Options) (*Kill, error) {
	states := uint64(0)
	for _, w := range HuntingGrounds(mutant) {
		w.Mutant = mutant
		r, err := Explore(w, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mutant, err)
		}
		states += r.States
		if r.Violation != nil {
			return &Kill{w, states, r.Violation, r.Trail}, nil
		}
	}
	return nil, nil
}

// HuntingGrounds are the worlds in which a mutant is hunted, each as small as possible; none if it
// is not hunted. The unchanged machine exhausts all of them.
func HuntingGrounds(mutant string) []World {
	idle := func(w World) []World {
		w.Mode, w.Nodes = Async, max(w.Nodes, 3)
		return []World{w}
	}
	led := func(w World) []World {
		w.Begin = Led
		return idle(w)
	}
	timed := func(w World) []World {
		w.Mode, w.Nodes, w.Begin = Timed, max(w.Nodes, 3), Led
		return []World{w}
	}
	apart := func(w World) []World {
		w = timed(w)[0]
		w.Begin = Apart
		return []World{w}
	}
	switch mutant {
	case "vote-twice-in-a-term":
		return idle(World{Terms: 1, Messages: 2, Fires: 2})
	case "vote-not-durable", "own-vote-before-save":
		return idle(World{Terms: 1, Messages: 2, Fires: 1, Saves: 2})
	case "save-in-flight-counts-as-done":
		return idle(World{Terms: 1, Messages: 2, Fires: 1, Saves: 2, Duplicates: 1})
	case "promise-not-saved":
		return idle(World{Terms: 1, Messages: 2, Fires: 1, Promises: map[protocol.NodeID]int{"n1": 6}})
	case "re-anchor-always":
		return led(World{Terms: 3, Messages: 3, Fires: 2, Hints: 2})
	case "lease-revives-in-term":
		return timed(World{Terms: 1, Messages: 2, Fires: 2, Ticks: 4, Candidates: 1})
	case "no-residual-wait", "no-own-residual":
		return apart(World{Terms: 2, Messages: 2, Fires: 1, Ticks: 1, Hints: 1})
	case "fence-after-follow", "vote-while-work-runs":
		return apart(World{Terms: 2, Messages: 2, Fires: 1, Ticks: 1, Hints: 1, Candidates: 2})
	case "release-before-the-work-returned":
		return timed(World{Terms: 2, Messages: 2, Fires: 1, Ticks: 1, Resigns: 1})
	case "handover-before-the-work-returned":
		return timed(World{Terms: 2, Messages: 2, Ticks: 1, Transfers: 1})
	case "priority-never-ignored":
		return idle(World{Terms: 1, Messages: 2, Fires: 1, Priorities: map[protocol.NodeID]int{"n1": protocol.NeverLead}})
	case "paused-stands":
		return idle(World{Terms: 1, Messages: 2, Fires: 1, Pauses: 1})
	case "reconfigure-two-at-once":
		return led(World{Nodes: 4, Terms: 1, Messages: 2, Changes: 1, Memberships: memberships("n1,n2,n3", "n1")})
	case "reconfigure-without-quorum":
		return led(World{Terms: 1, Messages: 2, Fires: 1, Changes: 2, Memberships: memberships("n1,n2", "n1")})
	case "held-before-saved":
		return led(World{Terms: 1, Messages: 2, Fires: 1, Saves: 2, Changes: 2, Memberships: memberships("n1,n2", "n1")})
	case "stands-at-config-term":
		return idle(World{Nodes: 4, Voters: 3, Terms: 1, Messages: 2, Fires: 3, Changes: 2, Transfers: 1, Priorities: map[protocol.NodeID]int{"n2": protocol.NeverLead, "n3": protocol.NeverLead}, Memberships: memberships("n1,n2,n3,n4", "n1,n3,n4")})
	case "round-outlives-membership":
		return led(World{Terms: 2, Messages: 3, Fires: 2, Hints: 2, Changes: 1, Memberships: memberships("n1,n2", "n2,n3")})
	case "membership-before-durable":
		return led(World{Terms: 1, Messages: 2, Saves: 1, Changes: 1, Memberships: memberships("n1,n2")})
	case "residual-before-adoption":
		return apart(World{Terms: 2, Messages: 2, Fires: 1, Ticks: 1, Hints: 1, Candidates: 2})
	case "promise-forgotten-on-restart":
		return apart(World{Terms: 2, Messages: 2, Fires: 1, Ticks: 3, Crashes: 1, Candidates: 2, Promise: 6})
	case "lease-from-ack-arrival":
		return apart(World{Terms: 2, Messages: 2, Fires: 2, Ticks: 8, Candidates: 2, Promise: 7})
	case "ignore-drift":
		return apart(World{Terms: 2, Messages: 2, Fires: 1, Ticks: 5, Candidates: 2, Rates: []int{80, 120}})
	case "probe-extends-lease":
		return apart(World{Terms: 2, Messages: 2, Fires: 2, Ticks: 8, Candidates: 2, Promise: 8})
	case "duplicate-ack-extends":
		return apart(World{Terms: 2, Messages: 2, Fires: 3, Ticks: 8, Candidates: 2, Promise: 7})
	}
	return nil
}

// memberships are voters, separated by commas.
func memberships(all ...string) (sets [][]protocol.NodeID) {
	for _, text := range all {
		var set []protocol.NodeID
		for id := range strings.SplitSeq(text, ",") {
			set = append(set, protocol.NodeID(id))
		}
		sets = append(sets, set)
	}
	return sets
}
