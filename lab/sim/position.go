package sim

import (
	"strconv"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// position is the text of a place in the leader's log.
func position(at uint64) string {
	if at == 0 {
		return ""
	}
	return strconv.FormatUint(at, 10)
}

// tellPosition makes the program of a process that has just started determine its position, which
// takes some time.
func (w *World) tellPosition(n *node) {
	ref := w.delayed.get()
	w.delayed.all[ref].command = protocol.Command{Verb: protocol.Locate}
	w.in(w.schedule.Log.Lag, event{kind: evLocate, node: int32(n.index), life: n.life, ref: ref})
}

// appendLog advances the leader's position, and the others' follow.
func (w *World) appendLog() {
	s := w.schedule
	w.in(s.Log.Every, event{kind: evAppend})
	leader := w.named(w.leader())
	if leader == nil || leader.frozen || leader.still > 0 || !leader.view.Proven(w.reading(leader)) {
		return
	}
	w.locate(leader, leader.position+1)
	for i, n := range w.nodes[:w.width] {
		if n != leader && !w.shape(leader, n).cut {
			w.copy(i, s.Log.Lag, leader.position)
		}
	}
}

// copy makes a participant reach a position, later.
func (w *World) copy(place int, lag time.Duration, at uint64) {
	ref := w.delayed.get()
	w.delayed.all[ref].command = protocol.Command{Position: position(at)}
	w.in(lag, event{kind: evLocate, node: int32(place), ref: ref})
}

// copied handles evLocate.
func (w *World) copied(n *node, e event) {
	c := w.delayed.all[e.ref].command
	w.delayed.put(e.ref)
	switch at := place(c.Position); {
	case !n.up:
	case c.Verb == protocol.Locate:
		if e.life == n.life {
			w.locate(n, n.position)
		}
	case n.still == 0 && !n.frozen && at > n.position:
		w.locate(n, at)
	}
}

// place parses the text of position; 0 if empty.
func place(text string) uint64 {
	at, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return at
}

// locate sets n's position, and tells its machine.
func (w *World) locate(n *node, at uint64) {
	n.position = at
	w.command(n, protocol.Command{Verb: protocol.Locate, Position: position(at)})
}

// beginLocate begins an OpLocate.
func (w *World) beginLocate(n *node, op *Op, st *opState) {
	if op.Count == 0 {
		if op.For <= 0 {
			st.on = false
			return
		}
		n.still++
		return
	}
	st.on = false
	if !n.up || n.frozen {
		return
	}
	most := uint64(0)
	for _, o := range w.nodes[:w.width] {
		most = max(most, o.position)
	}
	w.locate(n, most+uint64(op.Count))
}

// catchUp is what the program does when its machine says that it is behind another: it copies what
// it lacks, if that other one is up and reachable.
func (w *World) catchUp(n *node, ord *protocol.Order) {
	w.oracle.behind(w, n)
	from := w.named(ord.From)
	if from == nil || !from.up || w.shape(from, n).cut {
		return
	}
	w.copy(n.base, w.schedule.Links.Delay+w.schedule.Log.Lag, min(place(ord.Position), from.position))
}
