package group

import "github.com/electd/elect/internal/protocol"

// enrolment is how far a coordinator has come with the registry of its tenure (G8).
type enrolment struct {
	registry *Registry // the latest version; nil during cover
	changed  bool      // the sessions have changed since
	pass     bool      // somebody may have to be admitted
	waiting  bool      // somebody waits for acknowledgements
}

// enrol numbers a new version if the sessions have changed, admits whom every voucher knows, and finds vouchers.
func (c *Coordinator) enrol(now protocol.Instant, fx *Effects) {
	r := &c.enrolment
	if r.changed {
		r.changed = false
		next := &Registry{Tenure: c.tenure, Version: 1, Sessions: make([]Session, len(c.sessions))}
		if r.registry != nil {
			next.Version = r.registry.Version + 1
		}
		for i, s := range c.sessions {
			next.Sessions[i] = s.id
			if s.since == 0 {
				s.since = next.Version
				if c.cfg.Mutant.Has("registry-of-arrival") {
					s.arrival = next
				}
			}
		}
		r.registry = next
		for _, s := range c.sessions {
			if s.voucher && s.conn != 0 {
				c.tell(s, now, fx)
			}
		}
	}
	if !r.pass {
		return
	}
	r.pass, r.waiting = false, false
	known, vouchers := c.knownToAll()
	promise, cover := c.inUse()
	// All that can be admitted now are decided at once: each is told a registry that contains the others.
	for _, s := range c.sessions {
		if s.admitted || s.conn == 0 {
			continue
		}
		if s.since > known {
			r.waiting = true
			continue
		}
		if why := c.unfit(s.longest, s.cover, promise, cover); why != "" {
			c.refuseUnfit(s.conn, fx, why)
			continue
		}
		promise, cover = s.uses(promise, cover)
		s.admitted = true
		if c.cfg.Vouchers == 0 || vouchers < c.cfg.Vouchers {
			s.voucher = true
			vouchers++
		}
		c.admit(s, now, fx)
	}
	for _, s := range c.sessions {
		if s.admitted && !s.voucher && s.conn != 0 && (c.cfg.Vouchers == 0 || vouchers < c.cfg.Vouchers) {
			s.voucher = true
			vouchers++
			c.tell(s, now, fx)
		}
	}
}

// knownToAll returns the newest version that every voucher has acknowledged, and their number.
func (c *Coordinator) knownToAll() (version uint64, vouchers int) {
	version = ^uint64(0)
	if c.cfg.Mutant.Has("no-acks") {
		return version, 0
	}
	for _, s := range c.sessions {
		if !s.voucher {
			continue
		}
		vouchers++
		if s.conn == 0 && c.cfg.Mutant.Has("acks-of-connected-only") {
			continue
		}
		version = min(version, s.acked)
	}
	if c.cfg.Mutant.Has("acks-of-a-majority") {
		return c.knownToMost(vouchers), vouchers
	}
	return version, vouchers
}

// knownToMost is a mutant: a majority of acknowledgements suffices.
func (c *Coordinator) knownToMost(vouchers int) uint64 {
	for v := c.enrolment.registry.Version; v > 0; v-- {
		acks := 0
		for _, s := range c.sessions {
			if s.voucher && s.acked >= v {
				acks++
			}
		}
		if 2*acks > vouchers {
			return v
		}
	}
	if vouchers == 0 {
		return ^uint64(0)
	}
	return 0
}

// tell sends a voucher the registry of now.
func (c *Coordinator) tell(s *session, now protocol.Instant, fx *Effects) {
	s.toldAt = now
	fx.Sends = append(fx.Sends, Send{s.conn, Message{Type: Enrol, Tenure: c.tenure, Number: s.number, Registry: c.enrolment.registry}})
}

// admit tells a session that it is admitted.
func (c *Coordinator) admit(s *session, now protocol.Instant, fx *Effects) {
	msg := Message{Type: Admit, Tenure: c.tenure, Number: s.number}
	if s.voucher {
		msg.Registry = c.enrolment.registry
		if c.cfg.Mutant.Has("registry-of-arrival") {
			msg.Registry = s.arrival
		}
		s.toldAt = now
	}
	fx.Sends = append(fx.Sends, Send{s.conn, msg})
}

// acknowledged reports whether all vouchers that are there keep the registry of now, and know that they are admitted:
// else they could not vouch.
func (c *Coordinator) acknowledged() bool {
	if c.enrolment.registry == nil {
		return true
	}
	for _, s := range c.sessions {
		if s.voucher && s.conn != 0 && (s.acked < c.enrolment.registry.Version || !s.shown) {
			return false
		}
	}
	return true
}
