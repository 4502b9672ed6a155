package quorum

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// twin derives what a machine keeps up to date from the whole history of one incarnation, each time
// from the beginning and as literally as the rules state it.
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
	term    uint64 // of the ballot of the tenure

	ms       *protocol.Membership
	known    map[protocol.Voter]standing
	ranking  []protocol.NodeID            // that was told last
	held     protocol.ConfigID            // on disk
	saves    map[uint64]protocol.ConfigID // the membership that each save holds, by number
	start    protocol.Instant
	refused  protocol.Instant // the first refusal for a position since a leader was heard, or Always
	ballot   Ballot           // before the step
	rounds   []uint64         // votes of these count in the tenure
	end      protocol.Instant // the latest that could be claimed in the tenure
	fresh    protocol.Instant // e_q after the latest step
	before   protocol.Instant // e_q when the membership changed
	won      protocol.Instant // when the tenure began
	leads    bool             // and has not given up
	target   protocol.NodeID  // of a transfer
	led      protocol.Instant // since when the tenure lasts, or Always
	better   protocol.NodeID  // a voter that outranks this leader,
	betterAt protocol.Instant // since then,
	yielded  protocol.NodeID  // and the voter that it handed over to for that
	times    int              // so many times, without having heard it lead
	wrong    string           // what a step did and the twin would not have done
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
	followed    bool // the leader was heard last, and nothing newer was heard
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
	from     protocol.Voter
	idle     bool
	held     protocol.ConfigID
	seq      uint64 // or round
	granted  time.Duration
	residual time.Duration
	at       protocol.Instant
	newest   uint64 // that had been sent by then
}

// see records one step.
func (w *twin) see(n *node, in *protocol.Input, fx *protocol.Effects, order int) {
	now, m := in.Now.Boot, n.m
	msg := &in.Message
	sender := protocol.Voter{ID: in.From, Dir: msg.Dir}
	w.missed(now, fx)
	w.change(m)
	w.saw(in, fx)
	switch {
	case in.Kind == protocol.Boot:
		w.boot = protocol.Always
		w.start, w.refused, w.end, w.fresh, w.before = now, protocol.Always, protocol.Always, protocol.Always, protocol.Always
		if in.Durable != nil {
			b, err := DecodeBallot(in.Durable)
			if err != nil {
				panic(err)
			}
			w.boot, w.held = now.Add(b.MaxPromise), b.Membership.ID()
		}
	case in.Kind == protocol.PeerClosed:
		w.closes = append(w.closes, closes{in.From, in.Incarnation, order})
	case in.Kind != protocol.Receive:
	case msg.Type == WitnessRelease && sender != n.cfg.Self:
		if w.ms.Has(sender) {
			w.told = append(w.told, told{of: sender, incarnation: msg.Echo, witness: true, order: order})
		}
	case w.dead(sender, msg.Incarnation):
	default:
		if w.ms.Has(sender) && msg.Priority != 0 {
			w.known[sender] = standing{priority: msg.Priority, position: msg.Position}
		}
		w.received(n, in, fx, order)
	}
	for _, s := range fx.Sends {
		switch {
		case s.Message.Type == Heartbeat && (len(w.beats) == 0 || w.beats[len(w.beats)-1].seq < s.Message.Seq):
			w.beats = append(w.beats, sentBeat{s.Message.Seq, s.Message.Promise, now})
		case s.Message.Type == Vote && (len(w.asked) == 0 || w.asked[len(w.asked)-1].round < s.Message.Round):
			w.asked = append(w.asked, sentVote{s.Message.Round, now})
		case s.Message.Type == HeartbeatAck && s.Message.Granted && s.Message.Held.Compare(w.held) > 0:
			w.wrong = fmt.Sprintf("it says that it has membership %v on disk; the twin, %v", s.Message.Held, w.held)
		}
	}
	for _, o := range fx.Orders {
		if o.Kind == protocol.Elected && !w.leading || o.Kind == protocol.Stop && o.Reason == Overtaken {
			w.acks, w.given = nil, forgetHeard(w.given)
			w.rounds, w.end, w.fresh, w.before, w.target, w.refused = nil, protocol.Always, protocol.Always, protocol.Always, "", protocol.Always
			w.led, w.better, w.betterAt, w.won = protocol.Always, "", protocol.Always, now
		}
		if o.Kind == protocol.Lead {
			w.led = now
		}
	}
	w.leading, w.leads = m.inTenure(), m.role == protocol.Leader
	if w.leading {
		w.term = m.tenure.term
		if !slices.Contains(w.rounds, m.tenure.round) {
			w.rounds = append(w.rounds, m.tenure.round)
		}
		w.lead(n, in, fx)
	}
	w.ballot = m.ballot
}

// change follows the membership: nothing is kept of a removed voter.
func (w *twin) change(m *Machine) {
	ms, was := m.ballot.Membership, w.ms
	w.ms = ms
	if was == nil {
		w.known = make(map[protocol.Voter]standing)
		w.saves = make(map[uint64]protocol.ConfigID)
		return
	}
	if was.Version == ms.Version && was.ConfigTerm == ms.ConfigTerm {
		return
	}
	gone := func(a gotAck) bool { return !ms.Has(a.from) }
	w.acks = slices.DeleteFunc(w.acks, gone)
	w.votes = slices.DeleteFunc(w.votes, gone)
	for v := range w.known {
		if !ms.Has(v) {
			delete(w.known, v)
		}
	}
	if was.Version != ms.Version && w.leading {
		w.before = w.fresh
	}
}

// saw records what is on disk.
func (w *twin) saw(in *protocol.Input, fx *protocol.Effects) {
	if in.Kind == protocol.Saved && !in.Failed {
		w.held = w.saves[in.Number]
	}
	for _, s := range fx.Saves {
		b, err := DecodeBallot(s.Data)
		if err != nil {
			panic(err)
		}
		w.saves[s.Number] = b.Membership.ID()
	}
}

// received records a message.
func (w *twin) received(n *node, in *protocol.Input, fx *protocol.Effects, order int) {
	now, m, msg := in.Now.Boot, n.m, &in.Message
	sender := protocol.Voter{ID: in.From, Dir: msg.Dir}
	switch msg.Type {
	case Release:
		h := protocol.Handover{Leader: sender, Incarnation: msg.Incarnation, Term: msg.Term, Seq: msg.Seq}
		if w.over(&h, order) {
			if len(msg.Ranking) > 0 {
				w.ranking = msg.Ranking
			}
		}
	case TransferNow:
		if h := msg.Handover; h.Leader == sender && h.Incarnation == msg.Incarnation && h.Target == n.cfg.Self.ID {
			w.over(h, order)
		}
	case Vote:
		if msg.Handover != nil {
			w.over(msg.Handover, order)
		}
		w.judge(n, in, fx)
	case PreVote:
		w.judge(n, in, fx)
	case Heartbeat:
		acked := slices.ContainsFunc(fx.Sends, func(s protocol.Send) bool {
			return s.To == in.From && s.Message.Type == HeartbeatAck && s.Message.Granted
		})
		// An ack that would wait for a failed save is not sent, and an observer sends none.
		quiet := (m.badDisk && m.role == protocol.Follower || m.role == protocol.Observer) && msg.Term == m.ballot.Term && w.ms.Has(sender)
		if acked || quiet || m.heard.is(sender, msg.Incarnation) && m.role == protocol.Fencing {
			g := given{sender, msg.Incarnation, msg.Term, msg.Seq, msg.Promise, now, true, order}
			for _, o := range w.given {
				if o.leader == g.leader && o.incarnation == g.incarnation && o.seq >= g.seq {
					g.fresh = false
				}
			}
			for _, r := range w.told {
				if r.followed && r.of == g.leader && r.incarnation == g.incarnation && r.seq >= g.seq {
					g.fresh = false
				}
			}
			if m.role == protocol.Fencing {
				g.promise = 0
			}
			if g.fresh && g.promise > 0 {
				w.ranking, w.refused = msg.Ranking, protocol.Always
				if in.From == w.yielded {
					w.yielded, w.times = "", 0
				}
			}
			w.given = append(w.given, g)
		}
	case HeartbeatAck:
		if msg.Granted && msg.Echo == m.ballot.Incarnation && w.leading && msg.Term == w.term && w.ms.Has(sender) {
			newest := uint64(0)
			if len(w.beats) > 0 {
				newest = w.beats[len(w.beats)-1].seq
			}
			if i := slices.IndexFunc(w.beats, func(b sentBeat) bool { return b.seq == msg.Seq }); i >= 0 && newest-msg.Seq < marks {
				w.acks = append(w.acks, gotAck{sender, msg.Unhealthy, msg.Held, msg.Seq, msg.Promise, msg.Residual, now, newest})
			}
		}
	case VoteReply:
		late := w.leading && m.inTenure() && msg.Round < m.tenure.round
		if msg.Granted && msg.Echo == m.ballot.Incarnation && w.ms.Has(sender) && !late {
			w.votes = append(w.votes, gotAck{from: sender, seq: msg.Round, residual: msg.Residual, at: now})
		}
	}
}

// over records a release, from any sender, and reports whether it is from the leader that was heard
// last, and nothing newer was heard.
func (w *twin) over(h *protocol.Handover, order int) bool {
	r := told{of: h.Leader, incarnation: h.Incarnation, term: h.Term, seq: h.Seq, order: order}
	for i := len(w.given) - 1; i >= 0 && w.given[i].leader == h.Leader && w.given[i].incarnation == h.Incarnation; i-- {
		if g := w.given[i]; g.term > h.Term || g.seq > h.Seq {
			r.followed = false
			break
		}
		r.followed = true
	}
	for _, o := range w.told {
		if o.followed && o.of == r.of && o.incarnation == r.incarnation && o.seq > r.seq {
			r.followed = false
		}
	}
	w.told = append(w.told, r)
	return r.followed
}

// forgetHeard keeps the promises and drops what counts for stickiness.
func forgetHeard(all []given) []given {
	all = slices.Clone(all)
	for i := range all {
		all[i].fresh = false
	}
	return append(all, given{order: -1})
}

// dead reports whether a witness has declared that incarnation dead.
func (w *twin) dead(v protocol.Voter, incarnation uint64) bool {
	return slices.ContainsFunc(w.told, func(r told) bool { return r.witness && r.of == v && incarnation <= r.incarnation })
}

// owed is the end of the residual: the latest of the live promises to any other incarnation, and
// the boot residual.
func (w *twin) owed(candidate protocol.Voter, incarnation uint64, promises []given) protocol.Instant {
	until := w.boot
	for _, g := range promises {
		if g.promise == 0 || g.leader == candidate && g.incarnation == incarnation {
			continue
		}
		// The latest heartbeat of that incarnation with a promise is the one that a release has to
		// reach.
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
	for seed := *first; seed < *first+*seeds/long.Or[uint64](5, 25); seed++ {
		n, diff := compare(seed, nil)
		if diff != "" {
			t.Fatal(diff)
		}
		compared += n
	}
	t.Logf("%d steps compared", compared)
}

// compare runs a world, unless its clocks jump, until machine and twin differ.
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
				seed, w.Now, n.name(), n.view.Role, in.Kind, in.Message.Type, what, got, want)
		}
		m, now := n.m, in.Now.Boot
		ms := m.ballot.Membership
		for i, v := range ms.Voters {
			if i == m.self {
				continue
			}
			j := slices.IndexFunc(w.nodes, func(o *node) bool { return o.cfg.Self.ID == v.ID })
			for _, inc := range []uint64{0, w.nodes[j].life64()} {
				if got, want := left(m.owed(v, inc), now), left(h.owed(v, inc, h.promises), now); got != want {
					differ("the residual to others than "+v.String(), got, want)
				}
			}
			if got, want := m.sticky(v), h.sticky(v, now); got != want {
				differ("stickiness against "+v.String(), got, want)
			}
		}
		switch {
		case h.wrong != "":
			diff = fmt.Sprintf("seed %d, %v, %s (%v), after %v %s: %s", seed, w.Now, n.name(), n.view.Role, in.Kind, in.Message.Type, h.wrong)
		case m.inTenure():
			covered, fresh, free := h.tenure(m, now, h.promises)
			h.end, h.fresh = max(h.end, covered), fresh
			switch {
			case m.tenure.covered != covered:
				differ("what a majority has promised", m.tenure.covered, covered)
			case m.tenure.leaseEnd != h.end:
				differ("leaseEnd", m.tenure.leaseEnd, h.end)
			case m.tenure.fresh != fresh:
				differ("e_q", m.tenure.fresh, fresh)
			case !m.tenure.active && (m.role == protocol.Leader || m.tenure.again) && max(m.tenure.notBefore, now) != max(free, now):
				differ("notBefore", m.tenure.notBefore, free)
			case m.settled() != h.settled(m):
				differ("whether the membership is settled", m.settled(), h.settled(m))
			}
			if beat := h.beaten(fx); beat != nil && (beat.Promise == 0) != h.probes(now) {
				differ("that it only probes", beat.Promise == 0, h.probes(now))
			}
			if what := h.objections(m, now, covered); what != "" {
				diff = fmt.Sprintf("seed %d, %v, %s: %s", seed, w.Now, n.name(), what)
			}
		}
		if got, want := m.rank(), h.rank(n); m.self >= 0 && got != want {
			differ("the rank", got, want)
		}
		compared++
	}
	w.run(2 * time.Second)
	return compared, diff
}

func (n *node) life64() uint64 {
	if n.m == nil {
		return 0
	}
	return n.m.ballot.Incarnation
}

// sticky is how long another leader counts as heard.
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
		if r.followed && last.incarnation == r.incarnation {
			return 0
		}
	}
	return left(last.at.Add(w.cfg.Promise), now)
}
