package quorum

import (
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// tenure derives what a majority has promised, e_q and notBefore.
func (w *twin) tenure(m *Machine, now protocol.Instant, promises []given) (covered, fresh, free protocol.Instant) {
	ms := m.ballot.Membership
	var ends, sents, frees []protocol.Instant
	for _, v := range ms.Voters {
		if v == m.cfg.Self {
			ends, sents = append(ends, now.Add(w.cfg.Lease)), append(sents, now)
			frees = append(frees, w.owed(v, m.ballot.Incarnation, promises))
			continue
		}
		e, f := protocol.Always, protocol.Never
		for _, a := range w.acks {
			if a.from != v {
				continue
			}
			b := w.beat(a.seq)
			if g := min(a.granted, b.asked); g > 0 {
				e = max(e, b.at.Add(min(w.cfg.Lease, w.cfg.Drift.Claim(g))))
			}
			f = min(f, a.at.Add(a.residual))
		}
		for _, a := range w.votes {
			if a.from == v && slices.Contains(w.rounds, a.seq) {
				f = min(f, a.at.Add(a.residual))
			}
		}
		ends, sents, frees = append(ends, e), append(sents, w.answered(v)), append(frees, f)
	}
	n, k := len(ms.Voters), ms.Quorum()
	return kth(ends, n, k, false), max(w.before, kth(sents, n, k, false)), kth(frees, n, k, true)
}

// missed derives whether a quorum was out of reach for a promise when a step began (R8): since e_q,
// or, in a younger tenure, since its win. A leader without a lease has lapsed.
func (w *twin) missed(now protocol.Instant, fx *protocol.Effects) {
	got := slices.ContainsFunc(fx.Orders, func(o protocol.Order) bool { return o.Kind == protocol.Stop && o.Reason == QuorumLost })
	silent := w.leads && len(w.ms.Voters) > 1 && now >= max(w.fresh, w.won).Add(w.cfg.Promise)
	if want := silent && (w.led == protocol.Always || now < w.end); got != want {
		w.wrong = fmt.Sprintf("it has lost its quorum is %v; the twin, %v: e_q is %v, and it has won at %v", got, want, w.fresh, w.won)
	}
}

// probes reports whether heartbeats ask for no promise: a quorum has been missed for half a
// promise.
func (w *twin) probes(now protocol.Instant) bool {
	return now > max(w.fresh, w.won).Add(w.cfg.Promise/2)
}

// beaten is a heartbeat to a voter that was sent in a step, or nil.
func (w *twin) beaten(fx *protocol.Effects) *protocol.Message {
	for i := range fx.Sends {
		if s := &fx.Sends[i]; s.Message.Type == Heartbeat && w.ms.Index(s.To) >= 0 {
			return &s.Message
		}
	}
	return nil
}

func (w *twin) beat(seq uint64) sentBeat {
	return w.beats[slices.IndexFunc(w.beats, func(b sentBeat) bool { return b.seq == seq })]
}

// answered is the latest send, in this tenure, that a voter has answered.
func (w *twin) answered(v protocol.Voter) protocol.Instant {
	s := protocol.Always
	for _, a := range w.acks {
		if a.from == v {
			s = max(s, w.beat(a.seq).at)
		}
	}
	for _, a := range w.votes {
		i := slices.IndexFunc(w.asked, func(q sentVote) bool { return q.round == a.seq })
		if a.from == v && i >= 0 && slices.Contains(w.rounds, a.seq) {
			s = max(s, w.asked[i].at)
		}
	}
	return s
}

// good reports whether a voter answers, and would stand by its latest ack.
func (w *twin) good(v protocol.Voter, now protocol.Instant) bool {
	idle := false
	for _, a := range w.acks {
		if a.from == v {
			idle = a.idle
		}
	}
	return !idle && w.answered(v) >= now.Add(-w.cfg.Promise/2)
}

// order compares positions as far as they count.
func (w *twin) order(a, b string) int {
	if w.cfg.Position == IgnorePosition {
		return 0
	}
	return w.cfg.Compare(a, b)
}

func (w *twin) priority(v protocol.Voter) int {
	if k, ok := w.known[v]; ok {
		return k.priority
	}
	return protocol.DefaultPriority
}

// successors ranks the others: by name, by being fit, by position, priority, id.
func (w *twin) successors(self protocol.Voter, now protocol.Instant) []protocol.NodeID {
	all := slices.DeleteFunc(slices.Clone(w.ms.Voters), func(v protocol.Voter) bool { return v == self })
	slices.SortStableFunc(all, func(a, b protocol.Voter) int {
		for _, before := range []func(a, b protocol.Voter) bool{
			func(a, b protocol.Voter) bool { return a.ID == w.target && b.ID != w.target },
			func(a, b protocol.Voter) bool { return w.good(a, now) && !w.good(b, now) },
			func(a, b protocol.Voter) bool { return w.order(w.known[a].position, w.known[b].position) > 0 },
			func(a, b protocol.Voter) bool { return w.priority(a) > w.priority(b) },
			func(a, b protocol.Voter) bool { return a.ID.Compare(b.ID) < 0 },
		} {
			if before(a, b) {
				return -1
			} else if before(b, a) {
				return 1
			}
		}
		return 0
	})
	var ids []protocol.NodeID
	for _, v := range all {
		ids = append(ids, v.ID)
	}
	return ids
}

// lead follows what a leader tells about its successors.
func (w *twin) lead(n *node, in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	if len(w.ms.Voters) == 1 {
		w.ranking = nil
	}
	for _, s := range fx.Sends {
		if s.Message.Type == Heartbeat {
			w.ranks(n, s.Message.Ranking, now)
		}
	}
	c := in.Command
	if in.Kind == protocol.Do && c.Verb == protocol.Transfer && c.Target != n.cfg.Self.ID && (c.Target == "" || w.ms.Index(c.Target) >= 0) {
		w.target = c.Target
	}
	w.yields(n, in, fx)
}

// yields derives when a leader hands over, and to which voter: to the best that outranks it, if
// that one has done so at each beat for Steady and the tenure has lasted for MinTenure, which
// doubles each time the same voter has not led after a handover.
func (w *twin) yields(n *node, in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	beats := in.Kind == protocol.Fire && slices.ContainsFunc(fx.Sends, func(s protocol.Send) bool { return s.Message.Type == Heartbeat })
	i := slices.IndexFunc(fx.Orders, func(o protocol.Order) bool { return o.Kind == protocol.Stop && o.Reason == Outranked })
	led := n.m.role == protocol.Leader || i >= 0
	if !beats || !led {
		if i >= 0 {
			w.wrong = "it hands over between two beats"
		}
		return
	}
	best := protocol.NodeID("")
	for _, id := range w.successors(n.cfg.Self, now) {
		v := w.ms.Voters[w.ms.Index(id)]
		if w.good(v, now) && w.priority(v) > n.told.priority && w.order(w.known[v].position, n.told.position) >= 0 {
			best = id
			break
		}
	}
	if best != w.better {
		w.better, w.betterAt = best, now
	}
	least := w.cfg.MinTenure
	if best == w.yielded {
		least <<= min(w.times, 6)
	}
	due := best != "" && w.led != protocol.Always && now >= w.betterAt.Add(w.cfg.Steady) && now >= w.led.Add(least)
	if due != (i >= 0) {
		w.wrong = fmt.Sprintf("it hands over is %v; the twin, to %q, %v", i >= 0, best, due)
	}
	if due {
		if best != w.yielded {
			w.yielded, w.times = best, 0
		}
		w.times++
		w.target = best
	}
}

func (w *twin) ranks(n *node, ranking []protocol.NodeID, now protocol.Instant) {
	w.ranking = w.successors(n.cfg.Self, now)
	if !slices.Equal(ranking, w.ranking) {
		w.wrong = fmt.Sprintf("it ranks its successors %v; the twin says %v", ranking, w.ranking)
	}
}

// rank is this participant's place among the candidates.
func (w *twin) rank(n *node) int {
	self := n.cfg.Self
	if len(w.ranking) > 0 {
		if i := slices.Index(w.ranking, self.ID); i >= 0 {
			return i
		}
		return len(w.ranking)
	}
	rank := 0
	for _, v := range w.ms.Voters {
		if p := w.priority(v); v != self && (p > n.told.priority || p == n.told.priority && v.ID.Compare(self.ID) < 0) {
			rank++
		}
	}
	return rank
}

// judge derives the answer to a vote request, and from when on it may be another.
func (w *twin) judge(n *node, in *protocol.Input, fx *protocol.Effects) {
	now, m, msg := in.Now.Boot, n.m, &in.Message
	i := slices.IndexFunc(fx.Sends, func(s protocol.Send) bool {
		return s.To == in.From && (s.Message.Type == VoteReply && msg.Type == Vote || s.Message.Type == PreVoteReply && msg.Type == PreVote)
	})
	candidate := protocol.Voter{ID: in.From, Dir: msg.Dir}
	reason, wait := w.objection(n, candidate, msg, now)
	b := &w.ballot
	switch {
	case reason != "":
	case msg.Type == PreVote && now < w.start.Add(3*w.cfg.Heartbeat):
		reason, wait = Restarted, w.start.Add(3*w.cfg.Heartbeat).Sub(now)
	case msg.Type == PreVote && msg.Term <= b.Term, msg.Term < b.Term:
		reason = OldTerm
	case msg.Type == Vote && msg.Term == b.Term && b.VotedFor != (protocol.Voter{}) && b.VotedFor != candidate:
		reason = Voted
	}
	if i < 0 {
		// A message that would wait for a failed save is not sent.
		if !m.badDisk {
			w.wrong = fmt.Sprintf("it does not answer; the twin answers %q", reason)
		}
		return
	}
	if got := &fx.Sends[i].Message; got.Reason != reason || got.Granted != (reason == "") || got.RetryAfter != wait {
		w.wrong = fmt.Sprintf("it answers %v %q, to try again after %v; the twin %q, %v", got.Granted, got.Reason, got.RetryAfter, reason, wait)
	}
}

func (w *twin) objection(n *node, candidate protocol.Voter, msg *protocol.Message, now protocol.Instant) (protocol.Reason, time.Duration) {
	m, t := n.m, &n.told
	switch {
	case m.inTenure():
		return Working, w.cfg.Promise
	case m.role == protocol.Leader || m.role == protocol.Fencing:
		return Working, 0
	case !w.ms.Has(n.cfg.Self) || !w.ms.Has(candidate):
		return NotVoter, 0
	case msg.Membership.ID().Compare(w.ms.ID()) < 0:
		return OldConfig, 0
	case msg.Term <= msg.Membership.ConfigTerm:
		return OldTerm, 0
	case m.badDisk:
		return BadDisk, 0
	case msg.Priority == protocol.NeverLead:
		return NeverLeads, 0
	}
	if d := w.sticky(candidate, now); d > 0 {
		return Sticky, d
	}
	if w.order(msg.Position, t.position) >= 0 {
		return "", 0
	}
	if w.cfg.Position == RequirePosition {
		return BehindPosition, 0
	}
	if !t.candidate || t.sick || t.paused || t.priority == protocol.NeverLead {
		return "", 0
	}
	if w.refused == protocol.Always {
		w.refused = now
	}
	if d := left(w.refused.Add(w.cfg.Grace), now); d > 0 {
		return BehindPosition, d
	}
	return "", 0
}

// settled reports whether a majority has said that the membership is on its disk.
func (w *twin) settled(m *Machine) bool {
	if m.role != protocol.Leader || w.ms.ConfigTerm != w.term {
		return false
	}
	k := 0
	for _, v := range w.ms.Voters {
		has := func(a gotAck) bool { return a.from == v && a.held.Compare(w.ms.ID()) >= 0 }
		if v == m.cfg.Self && w.held == w.ms.ID() || v != m.cfg.Self && slices.ContainsFunc(w.acks, has) {
			k++
		}
	}
	return k >= w.ms.Quorum()
}

// objections compares which changes of the membership are refused.
func (w *twin) objections(m *Machine, now, covered protocol.Instant) string {
	stranger := protocol.Voter{ID: "n15", Dir: protocol.DirID{15}}
	voters := w.ms.Voters
	var all [][]protocol.Voter
	for i := range voters {
		all = append(all, slices.Delete(slices.Clone(voters), i, i+1))
	}
	if len(voters) > 2 {
		all = append(all, voters[2:])
	}
	if len(voters) < protocol.MaxVoters {
		all = append(all, append(slices.Clone(voters), stranger))
	}
	for _, next := range all {
		if len(next) == 0 {
			continue
		}
		answer := 0
		for _, v := range next {
			if v == m.cfg.Self || len(voters) == 1 || w.ms.Has(v) && w.answered(v) >= now.Add(-w.cfg.Promise/2) {
				answer++
			}
		}
		// With one voter more or less, majorities of both share one. Two may leave if their number
		// is even: a majority is one more than half.
		overlap := len(next) >= len(voters)-1 || len(voters)%2 == 0
		want := m.role == protocol.Leader && m.tenure.active && m.next == nil && !m.badDisk && m.round.kind == idle && w.settled(m) &&
			slices.Contains(next, m.cfg.Self) && overlap && w.end <= covered && answer > len(next)/2
		ms := &protocol.Membership{Voters: next, Observers: slices.DeleteFunc(slices.Clone(w.ms.Observers), func(id protocol.NodeID) bool { return id == stranger.ID })}
		if err := m.Objection(ms); (err == nil) != want {
			return fmt.Sprintf("a change of %s to %s: %v; the twin would allow it: %v", show(w.ms), show(ms), err, want)
		}
	}
	return ""
}
