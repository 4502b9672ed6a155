package sim

import "time"

// resource is what the leaders write to. It accepts a write if its token is not less than the
// greatest that it has seen.
type resource struct {
	highest uint64
	by      int32 // the node.index of the writer that used it first

	// Unknown to the resource: the latest term, by when its work began in true time, of which a
	// write was accepted.
	latest uint64
}

func (r *resource) clone() resource { return *r }

// checked judges a write of j for which the check succeeded.
func (r *resource) checked(w *World, n *node, j *job) {
	if j.token < r.highest || j.serial < r.latest {
		w.fail(NoneOffered, n, "its check said yes to token %d when the resource had accepted token %d of %s, whose term is a later one", j.token, r.highest, w.nodes[r.by].id)
	}
}

// arrive handles a write that arrives, even if its writer is gone.
func (r *resource) arrive(w *World, e event) {
	p := w.work.take(e.ref)
	n := w.nodes[e.node]
	if !n.up || n.life != e.life {
		w.seen.add(SawLateWrite)
	}
	stale := r.stale(w, &p)
	accepted := p.token >= r.highest
	if w.tracer != nil {
		r.tell(w, n, p.token, accepted, stale)
	}
	switch {
	case stale && accepted:
		w.stats.StaleOffered++
		w.stats.StaleAccepted++
		w.fail(NoStale, n, "the resource accepted a write with token %d, checked %s ago, after one of a later term with token %d of %s",
			p.token, time.Duration(w.now-p.checked), r.highest, w.nodes[r.by].id)
	case stale:
		w.stats.StaleOffered++
		w.stats.StaleRefused++
		w.seen.add(SawStaleRefused)
	case !accepted:
		w.stats.FreshRefused++
	}
	if !accepted {
		return
	}
	if p.token > r.highest {
		r.highest, r.by = p.token, p.node
	}
	r.latest = max(r.latest, p.serial)
}

// What becomes of a write, as a [RecordWrite] says it.
const (
	WriteAccepted      = "accepted"
	WriteRefused       = "refused" // its token is too small, and a later term has written
	WriteStaleAccepted = "accepted, although a later term has written"
	WriteFreshRefused  = "refused, although no later term has written"
)

func (r *resource) tell(w *World, n *node, token uint64, accepted, stale bool) {
	rec := w.recordOf(n, RecordWrite)
	rec.Count = token
	switch {
	case accepted && stale:
		rec.Says = WriteStaleAccepted
	case accepted:
		rec.Says = WriteAccepted
	case stale:
		rec.Says = WriteRefused
	default:
		rec.Says = WriteFreshRefused
	}
	w.tracer.Event(w, &rec)
}

// stale reports whether a write comes after one of a later term was accepted. Terms with proven
// leases are ordered by true time; elected terms are ordered by their tokens only, and by time if
// those are equal.
func (r *resource) stale(w *World, p *writeRequest) bool {
	if electedCounts(w) {
		return p.token < r.highest || p.token == r.highest && p.serial < r.latest
	}
	return p.serial < r.latest
}
