//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// lease is a time throughout which a node could prove by its own clock that it leads: from the step
// in which it began, up to the end of its last lease, the step that ended it, or the last known
// step, whichever comes first. Check would have returned nil, whether it was called or not, and
// whether the process ran or not: so no other node may have had a lease then.
type lease struct {
	from, to protocol.Instant
	token    uint64
}

// leads follows the lease of a machine that has taken a step.
func (m *watched) leads(now protocol.Instant, v *protocol.View) {
	switch {
	case m.active && (!v.Active || v.Token != m.token || v.LeaseEnd <= now):
		m.over(now)
	case m.active:
		m.until = v.LeaseEnd
	}
	if !m.active && v.Active && v.LeaseEnd > now {
		m.active, m.from, m.until, m.token = true, now, v.LeaseEnd, v.Token
	}
	m.seen = now
}

// over ends the lease.
func (m *watched) over(now protocol.Instant) {
	if to := min(now, m.until); m.active && to > m.from {
		m.s.leases = append(m.s.leases, lease{from: m.from, to: to, token: m.token})
	}
	m.active = false
}

// leaseSlack is by how much leases may seem to overlap: the harness records a change of a clock
// shortly before or after it makes it, and clocks are off by at most 5 %.
const leaseSlack = 200 * time.Microsecond

// dial is how a node's clock runs from a time on.
type dial struct {
	at, shows int64
	rate      float64
}

// machine is the computer's time when the clock showed something.
func (d dial) machine(shown protocol.Instant) int64 {
	return d.at + int64(float64(int64(shown)-d.shows)/d.rate)
}

// dials is how the clocks of the nodes ran, by node. The clock of a missing one is unknown.
func (r *run) dials() map[int][]dial {
	dials := map[int][]dial{}
	for _, e := range r.events {
		if e.Kind == Clock {
			dials[e.Node] = append(dials[e.Node], dial{e.At, e.At + int64(e.Ahead), cmp.Or(e.Rate, 1)})
		}
	}
	return dials
}

// when is the computer's time when a clock showed something: the first, and, where it was set back,
// the last. An unknown clock is the computer's.
func when(dials []dial, shown protocol.Instant) (first, last int64) {
	first, last = never, 0
	for k, d := range dials {
		at := d.machine(shown)
		if (k == 0 || at >= d.at) && (k+1 == len(dials) || at < dials[k+1].at) {
			first, last = min(first, at), max(last, at)
		}
	}
	switch {
	case first != never:
		return first, last
	case len(dials) > 0: // it leapt over that
		at := dials[len(dials)-1].machine(shown)
		return at, at
	}
	return int64(shown), int64(shown)
}

// granted is a lease in the computer's time.
type granted struct {
	span
	node  int
	token uint64
}

// sweepLeases checks that leases of different tokens were disjoint, at nodes with known clocks.
func (r *run) sweepLeases(byNode map[protocol.NodeID][]*segment, found *findings, report *Report) {
	dials := r.dials()
	var all []granted
	terms := map[uint64]bool{}
	for id, segments := range byNode {
		node := nodeNumber(id)
		for _, s := range segments {
			for _, l := range s.leases {
				for k, d := range dials[node] {
					// What of it was while the clock ran so.
					g := span{max(d.machine(l.from), d.at), d.machine(l.to)}
					if k+1 < len(dials[node]) {
						g.to = min(g.to, dials[node][k+1].at)
					}
					if g.length() > 0 {
						all = append(all, granted{g, node, l.token})
						r.leased[term{node, l.token}], r.shown[term{node, l.token}] = true, true
						terms[l.token] = true
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b granted) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.node, b.node), cmp.Compare(a.token, b.token))
	})
	var latest *granted
	for i := range all {
		g := &all[i]
		if latest != nil && latest.to-g.from > int64(leaseSlack) && (latest.node != g.node || latest.token != g.token) {
			both := latest.both(g.span)
			found.add(Violation{Check: CheckLease, At: g.from, Node: g.node, Text: fmt.Sprintf("%s with token %d had a lease up to %v after %s with token %d had one, both for %v",
				nodeName(latest.node), latest.token, time.Duration(latest.to-g.from), nodeName(g.node), g.token, time.Duration(both.length()))})
		}
		if latest == nil || g.to > latest.to {
			latest = g
		}
	}
	report.Leases = len(all)
	for _, g := range r.tenures {
		if term := uint64(g.token); terms[term] {
			report.Leased++
			delete(terms, term)
		}
	}
}
