//go:build linux

package judge

import (
	"fmt"
	"slices"
	"time"
)

// ledLong is the shortest leadership that must have left evidence: a leader that was killed at once
// may have left none.
const ledLong = int64(time.Second)

// enough is the percentage of long tenures that must have left evidence: records may be lost with
// disks.
const enough = 90

// few returns how many of the long tenures have evidence, how many there are, and whether that is
// too few.
func (r *run) few(there map[term]bool) (n, of int, few bool) {
	for _, g := range r.tenures {
		if g.last-g.start > ledLong && g.node >= 0 {
			if of++; there[term{g.node, uint64(g.token)}] {
				n++
			}
		}
	}
	return n, of, 100*n < enough*of
}

// material checks that the promised evidence exists. Without it all other checks pass.
func (r *run) material(found *findings, report *Report) {
	var promised []string
	var final *Event
	for i, e := range r.events {
		switch e.Kind {
		case Run:
			promised = e.Material
		case Final:
			final = &r.events[i]
		}
	}
	if len(promised) == 0 {
		return
	}
	lacks := func(node int, format string, args ...any) {
		found.add(Violation{Check: CheckMaterial, Node: node, Text: fmt.Sprintf(format, args...)})
	}
	led := map[int]int64{} // by node, for how long
	var sum int64
	for _, g := range r.tenures {
		led[g.node] += g.last - g.start
		sum += g.last - g.start
	}
	if final != nil && !slices.ContainsFunc(r.tenures, func(g tenure) bool { return g.token == final.Token }) {
		lacks(final.Node, "in the end %s led with token %d, and no life in the ledger has that token; want the work of each leader to stamp it", nodeName(final.Node), final.Token)
	}
	dials := r.dials()
	for _, what := range promised {
		switch what {
		case Writes:
			if sum >= ledLong && !slices.ContainsFunc(r.ops, accepted) {
				lacks(NoNode, "the register has accepted nothing in %d operations, though there were leaders for %v; want them to write", len(r.ops), short(time.Duration(sum)))
			}
		case Flights, Leases:
			for node, long := range led {
				_, dialed := dials[node]
				switch {
				case long < ledLong || node < 0:
				case what == Flights && r.recorded[node] == 0:
					lacks(node, "%s led for %v, and there is no flight record of it below %s or %s; want a copy of each disk that is taken away", nodeName(node), short(time.Duration(long)), dataDir, flightDir)
				case what == Leases && !dialed:
					lacks(node, "%s led for %v, and how its clock ran is not known; want a clock event at the beginning", nodeName(node), short(time.Duration(long)))
				}
			}
			// Records of other protocols, which promise no leases, do not name the leader.
			if n, of, few := r.few(r.shown); few && what == Leases {
				lacks(NoNode, "of %d of the %d tenures that were longer than %v a flight record has steps; want it of %d %%", n, of, time.Duration(ledLong), enough)
			}
			if n, of, few := r.few(r.leased); few && what == Leases {
				lacks(NoNode, "of %d of the %d tenures that were longer than %v a lease was compared; want it of %d %%", n, of, time.Duration(ledLong), enough)
			}
			if what == Leases && sum >= ledLong && report.Leases == 0 {
				lacks(NoNode, "no lease was compared, though there were leaders for %v; want flight records of the quorum protocol", short(time.Duration(sum)))
			}
		case Watches:
			if final != nil && report.Observations == 0 {
				lacks(NoNode, "%d watchers have seen nothing; want those that were promised", report.Watchers)
			}
		default:
			lacks(NoNode, "the run promises %q; want %s, %s, %s or %s", what, Writes, Flights, Leases, Watches)
		}
	}
}
