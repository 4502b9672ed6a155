package sim

import "time"

// The liveness phase: when the faults have ended, the world heals a core of
// participants who can all talk to each other (or to the store), and leaves the
// rest as it is. Then within settleWithin patiences somebody leads, and goes on
// without a gap until the end, at least settleHold patiences later; in between
// there are few terms.
//
// Somebody outside the core may lead too, if enough of the world is left to it.
// But nobody promises how long that lasts: when it ends, the time begins anew.
const (
	settleWithin = 10
	settleHold   = 5
	// fewTerms is how many terms may begin, each after another of the core's.
	fewTerms = 5
)

// LeastSettle is how long a Settle has to be for the liveness phase to be judged.
func LeastSettle(patience time.Duration) time.Duration { return (settleWithin + settleHold) * patience }

// liveness is what is kept of the liveness phase.
type liveness struct {
	on       bool
	inside   bool // the last term that began is the core's
	healed   Time
	patience Time
	terms    int    // that began since, in the core, after others of the core
	holder   uint64 // the term that leads; 0: none does, or more than one
	outsider bool   // its leader is not of the core
	since    Time   // since when that is so
	from     Time   // when the time to settle began: the healing, or the end of the last outsider's term
}

// healing is called when the liveness phase begins.
func (o *oracle) healing(w *World) {
	for i := range o.seats {
		o.seats[i].mark.cut = 0
	}
	patience, err := w.protocol.Patience(w.schedule.Config)
	if err != nil || w.schedule.Settle < LeastSettle(patience) {
		return
	}
	o.live = liveness{on: true, healed: w.now, patience: Time(patience), since: w.now, from: w.now}
	o.changed(w)
}

// crowned is called when n's term begins, if it is a leader that counts.
func (l *liveness) crowned(w *World, n *node) {
	inside := w.schedule.inCore(n.id)
	if inside && l.inside {
		l.terms++
	}
	l.inside = inside
}

// look sees who leads now. If somebody's lease has lapsed, that was at the time
// lapsed. Where elected counts one of the core has to be the only one that is:
// an outsider who believes that it leads disturbs nobody.
func (l *liveness) look(w *World, o *oracle, lapsed Time) {
	if !l.on {
		return
	}
	var insiders, outsiders int
	var in, out uint64
	for i := range o.seats {
		s := &o.seats[i]
		if s.servesUntil(w) <= w.now {
			continue
		}
		if w.schedule.inCore(w.nodes[i].id) {
			insiders++
			in = s.mark.crown
		} else {
			outsiders++
			out = s.mark.crown
		}
	}
	holder, outsider := in, false
	switch {
	case insiders > 1 || insiders == 0 && outsiders != 1:
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
		return // an outsider's term has ended too late to tell
	}
	w.stats.Judged++
	switch {
	case l.holder == 0 && o.serving.led:
		w.fail(Live, nil, "more than one of those who can talk to each other is elected at the end, and since %s; the world was healed at %s", l.since, l.healed)
	case l.holder == 0:
		w.fail(Live, nil, "nobody leads at the end, and since %s; the world was healed at %s", l.since, l.healed)
	case l.since > limit && !l.outsider:
		w.fail(Live, nil, "the term that leads at the end has done so without a gap since %s; want since %s at the latest, %d patiences after the healing or the last outsider's term", l.since, limit, settleWithin)
	case l.terms > fewTerms:
		w.fail(Live, nil, "%d terms of the core followed each other after the healing at %s; want at most %d", l.terms, l.healed, fewTerms)
	default:
		w.seen.add(SawSettled)
		if k := len(w.schedule.Core); k > 0 && k < w.schedule.Nodes {
			w.seen.add(SawSettledInPart)
		}
	}
}
