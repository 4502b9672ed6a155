package sim

import "time"

// meeting is which of several processes with one id a process is connected with, where the runtime
// distinguishes them (Protocol.Replaces). The connection ends with either process, when it is
// reset, and when the two are cut off from each other and nothing has come for as long as a leader
// is waited for. An idle connection lasts: the kernels of both maintain it.
type meeting struct {
	with        int32  // the other process's node, by index
	incarnation uint64 // and its incarnation; 0 is none
	life        uint32 // the incarnation of this process
	heard       Time   // when a message came last
}

// meeting finds the meeting of n with the participant of other.
func (w *World) meeting(n, other *node) *meeting {
	return &w.meetings[n.index*w.width+other.base]
}

// meet makes room for meetings where there are twins that are distinguished.
func (w *World) meet() error {
	if w.protocol.Replaces == nil || len(w.nodes) == w.width {
		return nil
	}
	w.meetings = make([]meeting, len(w.nodes)*w.width)
	w.idle = time.Second
	if w.protocol.Silence == nil {
		return nil
	}
	var err error
	w.idle, err = w.protocol.Silence(w.schedule.Config)
	return err
}

// present returns the process of other's participant with which n is connected; nil if none.
func (w *World) present(n, other *node) *meeting {
	m := w.meeting(n, other)
	if m.incarnation == 0 || m.life != n.life || w.nodes[m.with].incarnation != m.incarnation {
		return nil
	}
	if cut := w.shape(n, other).cut || w.shape(other, n).cut; cut && w.now-m.heard >= Time(w.idle) {
		return nil
	}
	return m
}

// introduce makes n, whose incarnation is now known, call all others, as the runtime of a starting
// process does.
func (w *World) introduce(n *node) {
	if w.meetings == nil {
		return
	}
	for _, to := range w.nodes {
		if to.base != n.base && to.up && !to.frozen && !w.shape(n, to).cut && !w.shape(to, n).cut {
			w.admits(to, n, n.incarnation)
		}
	}
}

// admits reports whether n accepts a message of the process from in that incarnation. A process
// that may replace the one with which n is connected does so, and n is told that the other
// connection is closed.
func (w *World) admits(n, from *node, incarnation uint64) bool {
	if w.meetings == nil || incarnation == 0 {
		return true
	}
	m := w.present(n, from)
	switch {
	case m == nil:
	case int(m.with) == from.index:
		if incarnation < m.incarnation {
			return true // a last message of an earlier incarnation
		}
	default:
		if !w.protocol.Replaces(incarnation, m.incarnation) {
			w.seen.add(SawTwinRefused)
			return false
		}
		if incarnation <= m.incarnation {
			w.fail(ToldApart, n, "it is connected with a process of %s whose incarnation is %d, and talks to another one whose is %d", from.id, m.incarnation, incarnation)
		}
		w.seen.add(SawTwinReplaced)
		ref := w.flights.get()
		w.flights.all[ref] = flight{from: m.with, closed: m.incarnation, cause: w.cause}
		w.in(0, event{kind: evClosed, node: int32(n.index), ref: ref})
	}
	*w.meeting(n, from) = meeting{with: int32(from.index), incarnation: incarnation, life: n.life, heard: w.now}
	return true
}

// reaches reports whether a message of from to n finds a connection: from has none with another
// process of n's participant.
func (w *World) reaches(n, from *node) bool {
	if w.meetings == nil {
		return true
	}
	m := w.present(from, n)
	return m == nil || int(m.with) == n.index
}

// unmeet ends the connection of two processes.
func (w *World) unmeet(a, b *node) {
	if w.meetings == nil {
		return
	}
	for _, p := range [...][2]*node{{a, b}, {b, a}} {
		if m := w.meeting(p[0], p[1]); int(m.with) == p[1].index {
			*m = meeting{}
		}
	}
}
