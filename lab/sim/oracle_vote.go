package sim

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// voteLog is every vote that the owner of one disk ever gave.
type voteLog struct {
	voter   protocol.Voter
	durable []Vote // by rising term: what became durable
	granted []Vote // by rising term: what was sent (without For.Dir)
}

func (l *voteLog) clone() voteLog {
	return voteLog{l.voter, slices.Clone(l.durable), slices.Clone(l.granted)}
}

// findVotes finds the votes of n's disk. A wiped disk is another voter's; a twin has a copy, and votes
// under the same name.
func (o *oracle) findVotes(w *World, n *node, s *processState) {
	if s.votes >= 0 && o.votes[s.votes].voter == n.self {
		return
	}
	if s.votes >= 0 {
		w.seen.add(SawWipedReturns)
	}
	s.durable, s.held = Vote{}, protocol.ConfigID{}
	for i := range o.votes {
		if o.votes[i].voter == n.self {
			s.votes = int32(i)
			return
		}
	}
	s.votes = int32(len(o.votes))
	o.votes = append(o.votes, voteLog{voter: n.self})
}

// durable is called when a save became durable, and when a restart reads one.
func (o *oracle) durable(w *World, n *node, data []byte) {
	if w.protocol.Members != nil && len(data) > 0 {
		o.membershipSaved(w, n, data)
	}
	if w.protocol.Vote == nil || len(data) == 0 {
		return
	}
	v, err := w.protocol.Vote(data)
	if err != nil {
		w.fail(OneVote, n, "what it saved cannot be read: %v", err)
		return
	}
	s := o.process(n)
	o.findVotes(w, n, s)
	s.durable = v
	if v.For == (protocol.Voter{}) {
		return
	}
	if was, ok := addVote(&o.votes[s.votes].durable, v); !ok {
		w.fail(OneVote, n, "its disk says a vote for %s in term %d, and has said one for %s", v.For, v.Term, was.For)
	}
}

// granted checks a message that may grant a vote.
func (o *oracle) granted(w *World, n *node, m *protocol.Send) {
	term, ok := w.protocol.Grants(&m.Message)
	if !ok {
		return
	}
	s := o.process(n)
	o.findVotes(w, n, s)
	if n.observer {
		w.seen.add(SawPromotedVotes)
	}
	if s.durable.Term < term || s.durable.Term == term && s.durable.For.ID != m.To {
		w.fail(VoteSaved, n, "grants %s its vote in term %d while its disk says %s in term %d", m.To, term, s.durable.For, s.durable.Term)
	}
	if was, ok := addVote(&o.votes[s.votes].granted, Vote{term, protocol.Voter{ID: m.To}}); !ok {
		w.fail(OneVote, n, "grants %s its vote in term %d, and has granted it to %s", m.To, term, was.For.ID)
	}
}

// committedTo reports whether s's disk keeps it from voting for any candidate but v in that term: by
// that vote, or by a higher term. In protocols without directories a vote is for an id.
func (s *processState) committedTo(term uint64, v protocol.Voter) bool {
	return s.durable.Term > term || s.durable.Term == term && (s.durable.For == v || s.durable.For == protocol.Voter{ID: v.ID})
}

// addVote adds v, or returns false and the present entry if that is another vote.
func addVote(votes *[]Vote, v Vote) (Vote, bool) {
	i := len(*votes)
	for i > 0 && (*votes)[i-1].Term > v.Term {
		i-- // terms rise, so this is needed for old data only
	}
	if i > 0 && (*votes)[i-1].Term == v.Term {
		was := (*votes)[i-1]
		return was, was.For == v.For
	}
	*votes = slices.Insert(*votes, i, v)
	return v, true
}
