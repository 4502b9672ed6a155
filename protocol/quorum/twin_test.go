package quorum

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/protocol"
)

// twin derives what a machine keeps up to date from the whole history of one
// life, every time anew and as literally as the rules say it.
type twin struct {
	cfg     Config
	boot    protocol.Instant // boot residual
	given   []given
	told    []told
	closes  []closes
	beats   []sentBeat
	acks    []gotAck
	votes   []gotAck
	asked   []sentVote
	leading bool
	term    uint64 // of the ballot of the reign
}

type given struct { // a heartbeat that was accepted
	leader      protocol.Voter
	incarnation uint64
	term, seq   uint64
	promise     time.Duration
	at          protocol.Instant
	fresh       bool
	order       int
}

type told struct { // a release: of one incarnation up to (term, seq), or by a witness of all up to it
	of          protocol.Voter
	incarnation uint64
	term, seq   uint64
	witness     bool
	order       int
}

type closes struct {
	leader      protocol.NodeID
	incarnation uint64
	order       int
}

type sentBeat struct {
	seq   uint64
	asked time.Duration
	at    protocol.Instant
}

type sentVote struct {
	round uint64
	at    protocol.Instant
}

type gotAck struct {
	from     protocol.NodeID
	seq      uint64 // or round
	granted  time.Duration
	residual time.Duration
	at       protocol.Instant
	newest   uint64 // that had been sent by then
}

// see takes one step down.
func (w *twin) see(n *node, in *protocol.Input, fx *protocol.Effects, order int) {
	now, m := in.Now.Boot, n.m
	msg := &in.Message
	sender := protocol.Voter{ID: in.From, Dir: msg.Dir}
	switch {
	case in.Kind == protocol.Boot:
		w.boot = protocol.Always
		if in.Durable != nil {
			b, err := DecodeBallot(in.Durable)
			if err != nil {
				panic(err)
			}
			w.boot = now.Add(b.MaxPromise)
		}
	case in.Kind == protocol.PeerClosed:
		w.closes = append(w.closes, closes{in.From, in.Incarnation, order})
	case in.Kind == protocol.Receive && msg.Type == WitnessRelease && sender != n.cfg.Self:
		w.told = append(w.told, told{of: sender, incarnation: msg.Echo, witness: true, order: order})
	case in.Kind == protocol.Receive && w.dead(sender, msg.Incarnation):
	case in.Kind == protocol.Receive && msg.Type == Release:
		w.told = append(w.told, told{of: sender, incarnation: msg.Incarnation, term: msg.Term, seq: msg.Seq, order: order})
	case in.Kind == protocol.Receive && msg.Type == Heartbeat:
		acked := slices.ContainsFunc(fx.Sends, func(s protocol.Send) bool {
			return s.To == in.From && s.Message.Type == HeartbeatAck && s.Message.Granted
		})
		// An ack that would have to wait for a save that failed is not sent.
		if acked || m.badDisk && m.role == protocol.Follower && msg.Term == m.ballot.Term || m.heard.is(sender, msg.Incarnation) && m.role == protocol.Fencing {
			g := given{sender, msg.Incarnation, msg.Term, msg.Seq, msg.Promise, now, true, order}
			for _, o := range w.given {
				if o.leader == g.leader && o.incarnation == g.incarnation && o.seq >= g.seq {
					g.fresh = false
				}
			}
			for _, r := range w.told {
				if !r.witness && r.of == g.leader && r.incarnation == g.incarnation && r.seq >= g.seq && w.heardBefore(r) {
					g.fresh = false
				}
			}
			if m.role == protocol.Fencing {
				g.promise = 0
			}
			w.given = append(w.given, g)
		}
	case in.Kind == protocol.Receive && msg.Type == HeartbeatAck && msg.Granted && msg.Echo == m.ballot.Incarnation:
		if w.leading && msg.Term == w.term {
			newest := uint64(0)
			if len(w.beats) > 0 {
				newest = w.beats[len(w.beats)-1].seq
			}
			w.acks = append(w.acks, gotAck{in.From, msg.Seq, msg.Promise, msg.Residual, now, newest})
		}
	case in.Kind == protocol.Receive && msg.Type == VoteReply && msg.Granted && msg.Echo == m.ballot.Incarnation:
		w.votes = append(w.votes, gotAck{from: in.From, seq: msg.Round, residual: msg.Residual, at: now})
	}
	for _, s := range fx.Sends {
		switch {
		case s.Message.Type == Heartbeat && (len(w.beats) == 0 || w.beats[len(w.beats)-1].seq < s.Message.Seq):
			w.beats = append(w.beats, sentBeat{s.Message.Seq, s.Message.Promise, now})
		case s.Message.Type == Vote && (len(w.asked) == 0 || w.asked[len(w.asked)-1].round < s.Message.Round):
			w.asked = append(w.asked, sentVote{s.Message.Round, now})
		}
	}
	for _, o := range fx.Orders {
		if o.Kind == protocol.Elected && !w.leading || o.Kind == protocol.Stop && o.Reason == Overtaken {
			w.acks, w.given = nil, forgetHeard(w.given)
		}
	}
	w.leading = m.reigning()
	if w.leading {
		w.term = m.reign.term
	}
}

// forgetHeard keeps what was promised and forgets for stickiness who was heard.
func forgetHeard(all []given) []given {
	all = slices.Clone(all)
	for i := range all {
		all[i].fresh = false
	}
	return append(all, given{order: -1})
}

// dead reports whether a witness has buried that life.
func (w *twin) dead(v protocol.Voter, incarnation uint64) bool {
	return slices.ContainsFunc(w.told, func(r told) bool { return r.witness && r.of == v && incarnation <= r.incarnation })
}

// heardBefore reports whether the released leader was the one that was heard
// when its release came: only then is what it still had on its way known to be old.
func (w *twin) heardBefore(r told) bool {
	for i := len(w.given) - 1; i >= 0; i-- {
		if g := w.given[i]; g.order < r.order {
			return g.leader == r.of && g.incarnation == r.incarnation
		}
	}
	return false
}

// owed is the residual's end: the latest of the live promises to any other
// incarnation, and the boot residual.
func (w *twin) owed(candidate protocol.Voter, incarnation uint64, promises []given) protocol.Instant {
	until := w.boot
	for _, g := range promises {
		if g.promise == 0 || g.leader == candidate && g.incarnation == incarnation {
			continue
		}
		// The latest heartbeat of that incarnation that a promise was given for
		// says what a release has to reach.
		gone := false
		for _, r := range w.told {
			if r.of != g.leader || r.order < g.order {
				continue
			}
			last := g
			for _, o := range promises {
				if o.leader == g.leader && o.incarnation == g.incarnation && o.promise > 0 && o.order < r.order && o.order > last.order {
					last = o
				}
			}
			if r.witness && g.incarnation <= r.incarnation ||
				!r.witness && r.incarnation == g.incarnation && (last.term < r.term || last.term == r.term && last.seq <= r.seq) {
				gone = true
			}
		}
		if !gone {
			until = max(until, g.at.Add(g.promise))
		}
	}
	return until
}

func kth(all []protocol.Instant, n, k int, least bool) protocol.Instant {
	for len(all) < n {
		if least {
			all = append(all, protocol.Never)
		} else {
			all = append(all, protocol.Always)
		}
	}
	slices.Sort(all)
	if !least {
		slices.Reverse(all)
	}
	return all[k-1]
}

// TestTwin compares machine and twin after each step of random worlds.
func TestTwin(t *testing.T) {
	compared := 0
	for seed := uint64(1); seed <= 20; seed++ {
		n, diff := compare(seed, nil)
		if diff != "" {
			t.Fatal(diff)
		}
		compared += n
	}
	t.Logf("%d steps compared", compared)
}

// compare runs a world, unless clocks jump in it, until machine and twin differ.
func compare(seed uint64, change func(*Config)) (compared int, diff string) {
	w := chaos(seed, change)
	if w.jumps {
		return 0, ""
	}
	type life struct {
		n    *node
		life int
	}
	type history struct {
		twin
		promises []given
	}
	lives := make(map[life]*history)
	order := 0
	w.after = func(n *node, in *protocol.Input, fx *protocol.Effects) {
		if diff != "" {
			return
		}
		order++
		id := life{n, n.life}
		h := lives[id]
		if h == nil {
			h = &history{twin: twin{cfg: n.m.cfg}}
			lives[id] = h
		}
		before := len(h.given)
		h.see(n, in, fx, order)
		if g := len(h.given); g > before && h.given[g-1].order == order && h.given[g-1].fresh {
			h.promises = append(h.promises, h.given[g-1])
		}
		differ := func(what string, got, want any) {
			diff = fmt.Sprintf("seed %d, %v, %s (%v), after %v %s: %s is %v; the twin says %v",
				seed, w.now, n.name(), n.view.Role, in.Kind, in.Message.Type, what, got, want)
		}
		m, now := n.m, in.Now.Boot
		ms := m.ballot.Membership
		for i, v := range ms.Voters {
			if i == m.self {
				continue
			}
			for _, inc := range []uint64{0, w.nodes[i].life64()} {
				if got, want := left(m.owed(v, inc), now), left(h.owed(v, inc, h.promises), now); got != want {
					differ("the residual to others than "+v.String(), got, want)
				}
			}
			if got, want := m.sticky(v), h.sticky(v, now); got != want {
				differ("stickiness against "+v.String(), got, want)
			}
		}
		if m.reigning() {
			end, fresh, free := h.reign(m, now, h.promises)
			switch {
			case len(ms.Voters) > 1 && m.reign.leaseEnd != end:
				differ("leaseEnd", m.reign.leaseEnd, end)
			case len(ms.Voters) > 1 && m.reign.fresh != fresh:
				differ("e_q", m.reign.fresh, fresh)
			case !m.reign.active && max(m.reign.notBefore, now) != max(free, now):
				differ("notBefore", m.reign.notBefore, free)
			}
		}
		compared++
	}
	w.run(1200 * time.Millisecond)
	return compared, diff
}

func (n *node) life64() uint64 {
	if n.m == nil {
		return 0
	}
	return n.m.ballot.Incarnation
}

// sticky is for how long another leader counts as heard.
func (w *twin) sticky(candidate protocol.Voter, now protocol.Instant) time.Duration {
	if len(w.given) == 0 {
		return 0
	}
	latest := w.given[len(w.given)-1]
	var last given // with a promise, of the leader that was heard last
	for _, g := range w.given {
		if g.leader == latest.leader && g.incarnation == latest.incarnation {
			if g.fresh && g.promise > 0 {
				last = g
			}
		} else {
			last = given{}
		}
	}
	if last.promise == 0 || last.leader == candidate {
		return 0
	}
	for _, c := range w.closes {
		if c.order > last.order && c.leader == last.leader.ID && c.incarnation == last.incarnation {
			return 0
		}
	}
	for _, r := range w.told {
		if r.order < last.order || r.of != last.leader {
			continue
		}
		if r.witness && last.incarnation <= r.incarnation {
			return 0
		}
		seen := true
		for _, g := range w.given {
			if g.leader == r.of && g.incarnation == r.incarnation && g.order < r.order && (g.term > r.term || g.seq > r.seq) {
				seen = false
			}
		}
		if !r.witness && last.incarnation == r.incarnation && seen {
			return 0
		}
	}
	return left(last.at.Add(w.cfg.Promise), now)
}

// reign derives leaseEnd, e_q and notBefore.
func (w *twin) reign(m *Machine, now protocol.Instant, promises []given) (end, fresh, free protocol.Instant) {
	ms := m.ballot.Membership
	var ends, sents, frees []protocol.Instant
	for _, v := range ms.Voters {
		if v == m.cfg.Self {
			ends, sents = append(ends, now.Add(w.cfg.Lease)), append(sents, now)
			frees = append(frees, w.owed(v, m.ballot.Incarnation, promises))
			continue
		}
		e, s, f := protocol.Always, protocol.Always, protocol.Never
		for _, a := range w.acks {
			i := slices.IndexFunc(w.beats, func(b sentBeat) bool { return b.seq == a.seq })
			if a.from != v.ID || i < 0 || a.newest-a.seq >= marks {
				continue
			}
			b := w.beats[i]
			s = max(s, b.at)
			if g := min(a.granted, b.asked); g > 0 {
				e = max(e, b.at.Add(min(w.cfg.Lease, w.cfg.Drift.Claim(g))))
			}
			f = min(f, a.at.Add(a.residual))
		}
		for _, a := range w.votes {
			i := slices.IndexFunc(w.asked, func(q sentVote) bool { return q.round == a.seq })
			if a.from == v.ID && i >= 0 && w.counts(m, a.seq) {
				s = max(s, w.asked[i].at)
				f = min(f, a.at.Add(a.residual))
			}
		}
		ends, sents, frees = append(ends, e), append(sents, s), append(frees, f)
	}
	n, k := len(ms.Voters), ms.Quorum()
	return kth(ends, n, k, false), kth(sents, n, k, false), kth(frees, n, k, true)
}

// counts reports whether votes of a round are of this reign: the round that was
// won, and those that re-anchored it.
func (w *twin) counts(m *Machine, round uint64) bool { return round == m.reign.round }
