package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// Invariant is a property that must hold in every state.
type Invariant string

// The invariants. Those that package quorum has, too, have its names.
const (
	// OneLeader: each term has at most one winner, which wins it once.
	OneLeader Invariant = quorum.OneLeader
	// OneVote: a voter has one vote a term, and neither reports nor counts it before it is saved.
	OneVote Invariant = quorum.OneVote
	// VoteQuorum: when a candidate wins, a quorum has saved that vote.
	VoteQuorum Invariant = "vote-quorum"
	// SavedFirst: an incarnation, a term that is acked, and the longest promise are saved before
	// others are told.
	SavedFirst Invariant = "saved-first"
	// Once: no node is active twice in one term, nor proven again after a lapse,
	// and the tokens of one node's tenures rise.
	Once Invariant = quorum.Once
	// Anchored: no node has won a term between that of a tenure's token and that of
	// its ballot.
	Anchored Invariant = quorum.Anchored
	// Ordered: each Elected has one Stop, a Lead comes between them, and the next
	// Elected after the work has returned.
	Ordered Invariant = "orders"
	// OneLease: at no true instant are two leases proven. Mode Timed.
	OneLease Invariant = quorum.OneLease
	// OneWork: at no true instant may two works run. Mode Timed.
	OneWork Invariant = quorum.OneWork
	// TokensRise: a leader that becomes active has a greater token than all earlier ones. Mode
	// Timed.
	TokensRise Invariant = "tokens-rise"
	// Adjacent: of two memberships that can still elect, every majority of the one shares a voter
	// with every majority of the other.
	Adjacent Invariant = quorum.Adjacent
	// Durable: a membership is saved before any other node sees it.
	Durable Invariant = quorum.Durable
	// Willing: no node wins that is paused or never leads.
	Willing Invariant = quorum.Willing
	// NoPanic: no machine panics, or reaches a state that it cannot load.
	NoPanic Invariant = "no-panic"
)

// Violation is a violation of an invariant, and its node.
type Violation struct {
	Invariant Invariant       `json:"invariant"`
	Node      protocol.NodeID `json:"node,omitzero"`
	Says      string          `json:"says"`
}

// Error implements error.
func (v *Violation) Error() string {
	if v.Node == "" {
		return fmt.Sprintf("%s: %s", v.Invariant, v.Says)
	}
	return fmt.Sprintf("%s: %s: %s", v.Invariant, v.Node, v.Says)
}

// wrong records the first violation in a step.
func (t *stepping) wrong(inv Invariant, format string, args ...any) {
	if t.out.wrong == nil {
		t.out.wrong = &Violation{inv, id(t.place), fmt.Sprintf(format, args...)}
	}
}

// obey carries out an order, and checks it against the node's earlier orders.
func (t *stepping) obey(o protocol.Order) {
	n := &t.node
	switch o.Kind {
	case protocol.Elected:
		switch {
		case n.token != 0:
			t.wrong(Ordered, "elected with token %d before it was told to stop %d", o.Token, n.token)
		case n.unjoined != 0:
			t.wrong(Ordered, "elected with token %d before the work of %d has returned", o.Token, n.unjoined)
		case o.Token <= n.lastToken:
			t.wrong(Once, "elected with token %d after %d", o.Token, n.lastToken)
		case t.vote(o.Token, t.place) != uint8(t.place+1):
			t.wrong(OneVote, "won term %d, and its own vote in it is not saved", o.Token)
		case n.paused:
			t.wrong(Willing, "won term %d, and is paused", o.Token)
		case t.e.w.Priorities[id(t.place)] == protocol.NeverLead:
			t.wrong(Willing, "won term %d, and is never to lead", o.Token)
		}
		n.token, n.lastToken, n.led, n.lapsed = o.Token, max(o.Token, n.lastToken), false, false
		t.out.elected = uint8(o.Token)
	case protocol.Lead:
		switch {
		case n.token != o.Token:
			t.wrong(Ordered, "told to lead with token %d, and elected with %d", o.Token, n.token)
		case n.led:
			t.wrong(Once, "told to lead twice with token %d", o.Token)
		}
		n.led, n.work = true, true
		t.out.led = uint8(o.Token)
	case protocol.Stop:
		if n.token != o.Token {
			t.wrong(Ordered, "told to stop %d, and elected with %d", o.Token, n.token)
		}
		n.token, n.unjoined = 0, o.Token
	}
}

// leave checks a message against what is saved, and sends it.
func (t *stepping) leave(to int, msg *protocol.Message) {
	n := &t.node
	granted := msg.Granted && msg.Type == quorum.VoteReply
	if granted {
		switch was := t.vote(msg.Term, to); was {
		case uint8(to + 1):
		case 0:
			t.wrong(OneVote, "tells %s of its vote in term %d, which is not saved", id(to), msg.Term)
		default:
			t.wrong(OneVote, "tells %s of its vote in term %d, which went to %s", id(to), msg.Term, id(int(was)-1))
		}
	}
	d := t.e.durable(n.disk)
	switch {
	case msg.Type == quorum.WitnessRelease:
	case d.Incarnation < msg.Incarnation:
		t.wrong(SavedFirst, "a %s of incarnation %d leaves before that is saved", msg.Type, msg.Incarnation)
	case msg.Type == quorum.HeartbeatAck && msg.Granted && d.Term < msg.Term:
		t.wrong(SavedFirst, "acks in term %d, and term %d is saved", msg.Term, d.Term)
	case msg.Type == quorum.Heartbeat && d.Membership != nil && msg.Membership.Version > d.Membership.Version:
		t.wrong(Durable, "sends version %d of the membership, and version %d is saved", msg.Membership.Version, d.Membership.Version)
	case msg.Type == quorum.HeartbeatAck && d.MaxPromise < msg.Promise:
		t.wrong(SavedFirst, "promises for %v, and %v is saved as the longest", msg.Promise, d.MaxPromise)
	}
	if msg.Term > uint64(t.e.w.Terms) {
		t.out.cut = true
	}
	if n := t.e.w.Nodes; to >= 0 && to < n {
		t.out.sends = append(t.out.sends, t.e.message(t.place, to, msg))
	}
}

// vote is 1 + the place of the candidate with this node's durable vote in a term, 0 if there is
// none. A save that a later one replaced was never on the disk: then a higher term forbids every
// other vote as well, and the vote belongs to the first candidate that is told of it.
func (t *stepping) vote(term uint64, to int) uint8 {
	n := &t.node
	if term >= uint64(len(n.votes)) {
		return uint8(to + 1) // beyond the bounds
	}
	if n.votes[term] == 0 && t.e.durable(n.disk).Term > term {
		n.votes[term] = uint8(to + 1)
	}
	return n.votes[term]
}

// saved handles data that has become durable.
func (t *stepping) saved(disk uint32) {
	n := &t.node
	n.disk = disk
	b := t.e.durable(disk)
	if b.VotedFor.ID == "" || b.Term >= uint64(len(n.votes)) {
		return
	}
	who := uint8(1 + placeOf(b.VotedFor.ID))
	if was := n.votes[b.Term]; was != 0 && was != who {
		t.wrong(OneVote, "saves a vote for %s in term %d, and had saved one for %s", b.VotedFor.ID, b.Term, id(int(was)-1))
	}
	n.votes[b.Term] = who
}

// settle ends a step with the visible state of the machine.
func (t *stepping) settle() {
	n := &t.node
	if !n.up {
		return
	}
	v := &n.view
	if v.Term > uint64(t.e.w.Terms) {
		t.out.cut = true
	}
	proven := v.Proven(protocol.Reading{})
	if n.token != 0 && n.led {
		switch {
		case !proven:
			n.lapsed = true
		case n.lapsed:
			t.wrong(Once, "its lease with token %d is proven again after it had lapsed", n.token)
		}
	}
	if v.Role == protocol.Leader || v.Role == protocol.Fencing && v.LeaseEnd != 0 {
		n.until = v.LeaseEnd
	}
	if n.until <= 0 || !n.work {
		n.until = protocol.Always // the driver ends the work at the end of its lease
	}
	if v.Elected != (n.token != 0) || v.Elected && v.Token != n.token || v.Active != (n.token != 0 && n.led) {
		t.wrong(Ordered, "its view says elected %t, token %d, active %t; its orders said token %d, lead %t", v.Elected, v.Token, v.Active, n.token, n.led)
	}
}

// judge checks the invariants that concern more than one node.
func (e *engine) judge(s *state) *Violation {
	for i := range e.w.Nodes {
		n := e.nodes.at(s.node[i])
		if v := &n.view; n.up && v.Elected {
			for t := v.Token + 1; t <= v.Leader.Term; t++ {
				if s.elected&(1<<t) != 0 {
					return &Violation{Anchored, id(i), fmt.Sprintf("goes on with token %d in term %d, and another has won term %d", v.Token, v.Leader.Term, t)}
				}
			}
		}
	}
	if e.w.Changes > 0 {
		if wrong := e.adjacent(s); wrong != nil {
			return wrong
		}
	}
	if e.w.Mode != Timed {
		return nil
	}
	proven, running := -1, -1
	for i := range e.w.Nodes {
		n := e.nodes.at(s.node[i])
		if n.up && n.view.Proven(protocol.Reading{}) {
			if proven >= 0 {
				return &Violation{OneLease, id(i), fmt.Sprintf("its lease is proven (token %d), and so is that of %s (token %d)", n.view.Token, id(proven), e.nodes.at(s.node[proven]).view.Token)}
			}
			proven = i
		}
	}
	for i := range e.w.Nodes {
		n := e.nodes.at(s.node[i])
		for _, until := range [...]protocol.Instant{n.until, n.orphan} {
			if until == protocol.Always {
				continue
			}
			if running >= 0 {
				return &Violation{OneWork, id(i), fmt.Sprintf("its work may run, and so may that of %s", id(running))}
			}
			running = i
		}
	}
	return nil
}

// won checks a win: the term must not have a winner, and a quorum must have saved that vote.
func (e *engine) won(s *state, place int, token uint8) *Violation {
	if token > MaxTerms {
		return nil
	}
	if s.elected&(1<<token) != 0 {
		return &Violation{OneLeader, id(place), fmt.Sprintf("wins term %d, which has been won before", token)}
	}
	ms := e.nodes.at(s.node[place]).membership
	votes := 0
	for i := range e.w.Nodes {
		if ms&(1<<i) != 0 && e.nodes.at(s.node[i]).votes[token] == uint8(place+1) {
			votes++
		}
	}
	if voters := ones(ms); 2*votes <= voters {
		return &Violation{VoteQuorum, id(place), fmt.Sprintf("wins term %d, and of %d voters %d have saved a vote for it", token, voters, votes)}
	}
	return nil
}

// adjacent checks the existing memberships. One can still elect if a majority of its voters has no
// newer one on disk.
func (e *engine) adjacent(s *state) *Violation {
	var live []*protocol.Membership
	for i := range e.w.Nodes {
		n := e.nodes.at(s.node[i])
		for _, ms := range [...]*protocol.Membership{n.ms, n.durable} {
			if slices.ContainsFunc(live, func(o *protocol.Membership) bool { return o.Compare(ms) == 0 }) {
				continue
			}
			able := 0
			for _, v := range ms.Voters {
				if at := placeOf(v.ID); at >= 0 && at < e.w.Nodes && e.nodes.at(s.node[at]).durable.Compare(ms) <= 0 {
					able++
				}
			}
			if able >= ms.Quorum() {
				live = append(live, ms)
			}
		}
	}
	for i, a := range live {
		for _, b := range live[:i] {
			if !a.Overlap(b) {
				return &Violation{Adjacent, "", fmt.Sprintf("%s and %s can both elect, with no voter in common", members(a), members(b))}
			}
		}
	}
	return nil
}

// members names a membership.
func members(ms *protocol.Membership) string {
	var all []string
	for _, v := range ms.Voters {
		all = append(all, string(v.ID))
	}
	return fmt.Sprintf("membership %d.%d {%s}", ms.ConfigTerm, ms.Version, strings.Join(all, ","))
}
