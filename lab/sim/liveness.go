package sim

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The liveness phase: after the faults, the world heals a core of participants that can all reach
// each other (or the store), and leaves the rest as it is. Then a participant must lead within
// settleWithin patiences, and lead without a gap until the end, at least settleHold patiences
// later; in between there may be few terms.
//
// A participant outside of the core may lead too, if it can reach enough of the world. But nothing
// promises how long that lasts: when it ends, the time begins anew. The same applies when a leader
// hands over to one with a higher priority.
const (
	settleWithin = 10
	settleHold   = 5
	// fewTerms is how many terms may begin, each after another of the core's. A leader that hands
	// over without a command may cost two more: a preferred voter that answers but cannot win is
	// tried again, after twice the time.
	fewTerms = 5
)

// LeastSettle is the least Settle for which the liveness phase is checked. A protocol whose leaders
// hand over without a command needs its Yields in addition.
func LeastSettle(patience time.Duration) time.Duration { return (settleWithin + settleHold) * patience }

// leastSettle is LeastSettle of the protocol, in that configuration.
func (p *Protocol) leastSettle(config json.RawMessage) (least, patience, yields time.Duration, err error) {
	if patience, err = p.Patience(config); err != nil {
		return 0, 0, 0, err
	}
	if p.Yields != nil {
		if yields, err = p.Yields(config); err != nil {
			return 0, 0, 0, err
		}
	}
	return LeastSettle(patience) + yields, patience, yields, nil
}

// liveness is the state of the liveness phase.
type liveness struct {
	on       bool
	inside   bool // the last term that began is the core's
	healed   Time
	patience Time
	terms    int    // that began since, in the core, after others of the core
	yielded  int    // how often a leader has handed over to one with a higher priority since
	holder   uint64 // the term that leads; 0: none does, or more than one
	outsider bool   // its leader is outside of the core
	since    Time   // since when that is so
	from     Time   // when the time to settle began: the healing, or the end of the last outsider's term
}

// healing is called when the liveness phase begins.
func (o *oracle) healing(w *World) {
	for i := range o.processes {
		o.processes[i].notes.cut = 0
	}
	least, patience, _, err := w.protocol.leastSettle(w.schedule.Config)
	if err != nil || w.schedule.Settle < least || w.noCore {
		return
	}
	o.live = liveness{on: true, healed: w.now, patience: Time(patience), since: w.now, from: w.now}
	o.changed(w)
}

// termBegan is called when n's term begins, if it is a leader that counts.
func (l *liveness) termBegan(w *World, n *node) {
	inside := w.inCore(n)
	if inside && l.inside {
		l.terms++
	}
	l.inside = inside
}

// yields is called when a leader hands over to one with a higher priority. Then the time begins
// anew.
func (l *liveness) yields(w *World) {
	if l.on {
		l.yielded++
		l.from = w.now
	}
}

// update determines the present leader. A lease that has lapsed did so at the time lapsed. Where
// elected counts, exactly one participant of the core has to be elected: an outsider that believes
// that it leads disturbs none. Of several outsiders it takes the last that was elected and that the
// core may follow.
func (l *liveness) update(w *World, o *oracle, lapsed Time) {
	if !l.on {
		return
	}
	var insiders, outsiders int
	var in, out uint64
	for i := range o.processes {
		s := &o.processes[i]
		if s.servesUntil(w) <= w.now {
			continue
		}
		if w.inCore(w.nodes[i]) {
			insiders++
			in = s.notes.serial
		} else {
			outsiders++
			out = max(out, s.notes.serial)
		}
	}
	holder, outsider := in, false
	switch {
	case insiders > 1 || insiders == 0 && outsiders == 0:
		holder = 0
	case insiders == 0:
		holder, outsider = out, true
	}
	if holder == l.holder && lapsed > w.now {
		return
	}
	if l.outsider {
		l.from = min(w.now, lapsed)
	}
	l.holder, l.outsider, l.since = holder, outsider, min(w.now, lapsed)
	if holder != 0 {
		l.since = w.now
	}
}

// judge is called at the end.
func (o *oracle) judge(w *World) {
	l := &o.live
	if !l.on || w.now < l.healed+Time(w.schedule.Settle) {
		return
	}
	limit := l.from + settleWithin*l.patience
	if l.since > limit && w.now < limit+settleHold*l.patience || l.holder == 0 && w.now < limit {
		return // an outsider's term has ended too late to judge
	}
	w.stats.Judged++
	switch {
	case l.outsider && !w.followed(o):
		w.fail(Live, nil, "none of the participants that can reach each other leads at the end, and no majority follows one that does; the world was healed at %s", l.healed)
	case l.holder == 0 && o.serving.led:
		w.fail(Live, nil, "more than one of the participants that can reach each other is elected at the end, and since %s; the world was healed at %s", l.since, l.healed)
	case l.holder == 0:
		w.fail(Live, nil, "nobody leads at the end, and since %s; the world was healed at %s", l.since, l.healed)
	case l.since > limit && !l.outsider:
		w.fail(Live, nil, "the term that leads at the end has done so without a gap since %s; want since %s at the latest, %d patiences after the healing, the last outsider's term, or the last handover without a command", l.since, limit, settleWithin)
	case l.terms > fewTerms+2*l.yielded:
		w.fail(Live, nil, "%d terms of the core followed each other after the healing at %s; want at most %d, and two for each of %d handovers without a command", l.terms, l.healed, fewTerms, l.yielded)
	default:
		w.seen.add(SawSettled)
		for _, n := range w.nodes[:w.width] {
			if !n.observer && !w.inCore(n) {
				w.seen.add(SawSettledInPart)
			}
		}
	}
}

// followed reports whether a majority follows the same leader, and it leads. A proven lease implies
// that.
func (w *World) followed(o *oracle) bool {
	if !w.protocol.Leaseless {
		return true
	}
	follow := make(map[protocol.NodeID]int)
	for _, n := range w.nodes[:w.width] {
		if n.up {
			follow[n.view.Leader.ID]++
		}
	}
	for i := range o.processes {
		if s := &o.processes[i]; s.servesUntil(w) > w.now && 2*follow[w.nodes[i].id] > w.width {
			return true
		}
	}
	return false
}

// chooseCore determines which participants are healed: the schedule's core, and in addition as many
// voters as a majority needs in each membership that may still count, the newest settled one
// included. Where disks were wiped there may be no such set; then liveness is not expected.
func (w *World) chooseCore() {
	w.core = places{}
	for _, id := range w.schedule.Core {
		w.core.add(w.index(id))
	}
	if len(w.schedule.Core) == 0 {
		for i := range w.width {
			w.core.add(i)
		}
	}
	if w.protocol.Members == nil {
		return
	}
	for _, ms := range w.living() {
		in, leaders := 0, 0
		for _, add := range [...]bool{false, true} {
			for _, v := range ms.Voters {
				n := w.named(v.ID)
				if n == nil || n.self != v {
					continue // its disk was wiped
				}
				leads := w.never>>n.base&1 == 0
				if w.inCore(n) == add || add && in >= ms.Quorum() && (leaders > 0 || !leads) {
					continue
				}
				w.core.add(n.base)
				in++
				if leads {
					leaders++
				}
			}
		}
		w.noCore = w.noCore || in < ms.Quorum() || leaders == 0
	}
}

// living are the memberships that a participant has, has on its disk, is saving, or was asked to
// make and may be about to, and that no settled one has replaced.
func (w *World) living() []*protocol.Membership {
	var all []*protocol.Membership
	add := func(ms *protocol.Membership) {
		if ms != nil && ms.Compare(w.oracle.members.settled) >= 0 && !slices.ContainsFunc(all, func(o *protocol.Membership) bool { return alike(o, ms) }) {
			all = append(all, ms)
		}
	}
	add(w.oracle.members.settled)
	for _, n := range w.nodes {
		if m, ok := n.machine.(protocol.Reconfigurable); ok {
			ms, _ := m.Membership()
			add(ms)
			add(n.asked)
		}
		stored := func(data []byte) {
			if data == nil {
				return
			}
			if ms, err := w.protocol.Members(data); err == nil {
				add(ms)
			}
		}
		data, _ := n.disk.content()
		stored(data)
		for i := range n.disk.queue {
			stored(n.disk.queue[i].data)
		}
	}
	return all
}
