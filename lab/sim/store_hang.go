package sim

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// hangSlack is the longest time for which a paused leader of etcd answers before it learns that it
// has been replaced.
const hangSlack = 100 * time.Millisecond

// hang is a leader of etcd that hangs and does not learn of its successor (OpStoreHang). If its
// raft loop waits for a disk, its lessor goes on: it renews leases for the clients that are
// connected to it, by its own clock. If its process is paused, requests wait, and it renews when it
// resumes. It proposes to revoke the leases that have run out by its own clock, and when it resumes
// its successor does that, although the client has renewed the lease there meanwhile. That is
// etcd's issue 15247. A server with the fix (pull request 16822) does neither: it checks whether it
// still leads.
type hang struct {
	on     bool
	paused bool
	until  Time // when it resumes
	leads  Time // when its successor begins; if that is not before until, there is none
	over   Time // when it has learnt of that
}

// hang makes the leader hang for a span; 0 is until the faults end.
func (d *etcd) hang(s *store, w *World, span time.Duration, paused bool) {
	h := &d.hung
	if h.on || s.noise.Replicated {
		return
	}
	if span == 0 {
		span = w.schedule.Faults
	}
	*h = hang{on: true, paused: paused, until: w.Now() + Time(span), leads: w.Now() + Time(d.elects(s, 0))}
	h.over = h.until
	if slack := below(s.random.Uint64(), hangSlack); paused {
		h.over += Time(slack)
	}
	s.serving = max(s.serving, h.leads)
	for i := range d.sessions {
		z := &d.sessions[i]
		z.atOld = z.expiry
	}
	for i := range s.routes {
		s.routes[i].hung = s.random.Uint64()>>63 == 1
	}
	s.closeWatches(w, func(t *watch) bool { return !s.routes[t.node].hung })
	s.then(w, time.Duration(h.leads-w.Now()), stepSucceed, 0)
	s.then(w, time.Duration(h.over-w.Now()), stepResume, 0)
}

// succeeds begins the tenure of the next leader, unless the previous one goes on.
func (d *etcd) succeeds(s *store, w *World) {
	if h := &d.hung; h.on && w.Now() == h.leads && h.leads < h.until {
		d.leads(s, w)
	}
}

// resume handles the old leader that has learnt of its successor, or that leads on.
func (d *etcd) resume(s *store, w *World) {
	h := d.hung
	if !h.on {
		return
	}
	d.hung = hang{}
	for i := range s.routes {
		s.routes[i].hung = false
	}
	if h.leads >= h.until || w.Now() < h.leads {
		if s.serving == h.leads {
			s.serving = min(s.serving, w.Now())
		}
		return
	}
	if s.noise.Mended {
		return
	}
	now := s.clock(w.Now())
	for id := d.opened; id > 0; id-- {
		z := d.live(id)
		if z == nil || z.atOld == 0 || now < z.atOld {
			continue
		}
		if now < z.expiry {
			w.seen.add(SawRevokedEarly)
		}
		d.end(s, w, z, false)
	}
}

// waits is until when a request waits at a paused server; 0: it does not.
func (s *store) waits(w *World, p *parcel) Time {
	if d, ok := s.server.(*etcd); ok && d.hung.paused && s.routes[p.node].hung && w.Now() < d.hung.until {
		return d.hung.until
	}
	return 0
}

// atHung reports whether the hanging leader answers a request.
func (s *store) atHung(p *parcel) bool {
	d, ok := s.server.(*etcd)
	return ok && d.hung.on && s.routes[p.node].hung && !s.noise.Mended && p.ask.Op == protocol.KeepAlive
}

// answerHung is a keep-alive at the hanging leader.
func (d *etcd) answerHung(s *store, w *World, p *parcel) bool {
	z, a, now := d.session(p.ask.Session), &p.answer, s.clock(w.Now())
	if z == nil || z.atOld == 0 || now >= z.atOld {
		return false // it waits for the end of a lease that it cannot end
	}
	z.atOld = now + z.ttl
	switch {
	case z.closed != 0:
		w.seen.add(SawRenewedInVain)
	case w.Now() < d.hung.leads:
		z.expiry = z.atOld
	}
	a.Status, a.Session, a.TTL, a.Revision = protocol.StatusDone, z.id, z.ttl, d.rev
	return true
}
