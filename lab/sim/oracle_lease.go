package sim

import "github.com/electd/elect/internal/protocol"

// prove takes the proof of n's view.
func (o *oracle) prove(w *World, n *node, s *processState) {
	v := &n.view
	s.active, s.end, s.read = v.Active, v.LeaseEnd, v.Read
	o.refresh(w, n, s)
	w.work.renewed(w, n)
}

// refresh computes again until when n's proof holds, after a change of the proof or of a clock.
// Between two such changes a clock runs straight, so the proof holds in one interval of true time,
// whose end is known when it begins; and an interval begins at an event only. So two intervals
// overlap if and only if one begins while another is not over, and the comparison there is exact at
// every true instant, also between events.
func (o *oracle) refresh(w *World, n *node, s *processState) {
	was := s.until > w.now
	until := provenUntil(w, n, s)
	if until > w.now && !was {
		o.begins(w, n, s)
		for i := range o.processes {
			if r := &o.processes[i]; r != s && r.until > w.now {
				w.fail(Exclusive, n, "its lease is proven, with token %d, while that of %s is, with token %d, since %s and until %s%s",
					max(s.token, s.joining), w.nodes[i].id, max(r.token, r.joining), r.since, r.until, r.unjoined())
			}
		}
	}
	if was || until > w.now {
		s.until = until
		o.renewed(w, s)
	}
}

// begins is called when an interval begins in which s's proof holds.
func (o *oracle) begins(w *World, n *node, s *processState) {
	if s.active && s.joining == 0 && s.proved == s.token && !s.broken {
		w.fail(Once, n, "its lease with token %d is proven anew, and it had lapsed at %s", s.token, s.until)
	}
	s.since, s.proved, s.broken = w.now, s.token, false
	for i := range o.processes {
		if r := &o.processes[i]; r.orphan > w.now {
			w.fail(Exclusive, n, "its lease is proven, with token %d, while the work of token %d, which has outlived a process of %s, may go on until %s",
				s.token, r.parent, w.nodes[i].id, r.orphan)
		}
	}
}

// checkSole checks a participant that is elected and runs, in protocols without leases.
func (o *oracle) checkSole(w *World, n *node, s *processState) {
	for i := range o.processes {
		if r := &o.processes[i]; r != s && r.stage != stageNone && r.up && !r.frozen {
			w.fail(Exclusive, n, "it is elected, with token %d, while %s is, with token %d", s.token, w.nodes[i].id, r.token)
			return
		}
	}
}

// outlives is called when n's process was killed and its work goes on: until the end of the proof
// that it knows, or until a witness declares it dead.
func (o *oracle) outlives(w *World, n *node) {
	if s := o.process(n); s.until > w.now && s.until > s.orphan {
		s.orphan, s.parent = s.until, max(s.token, s.joining)
	}
}

// workDied is called when all work of n's former incarnations is known to be dead.
func (o *oracle) workDied(n *node) { o.process(n).orphan = 0 }

// provenUntil is the first true time from now on at which Proven is false, if nothing changes; now
// if it is false now. A frozen process may be thawed at any time, and a sleeping computer woken, so
// neither matters.
func provenUntil(w *World, n *node, s *processState) Time {
	now := w.reading(n)
	proof := protocol.View{Active: s.active, LeaseEnd: s.end, Read: s.read}
	if !proof.Proven(now) {
		return w.now
	}
	end := s.end
	if n.clock.asleep {
		// Only the boot clock runs: its distance from the other one passes the
		// tolerance when it has gone that far.
		end = min(end, now.Boot.Add(protocol.JumpTolerance-(now.Offset()-s.read.Offset())+1))
	}
	return w.trueAt(n, end)
}

// unjoined describes a proof whose term was stopped.
func (s *processState) unjoined() string {
	if s.joining == 0 {
		return ""
	}
	return "; it was told to stop, and its work has not returned"
}
