package ring

import (
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// receive handles a message, unless it is invalid.
func (m *Machine) receive(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	if from == m.cfg.Self || msg.Term > protocol.MaxCount {
		return
	}
	switch msg.Type {
	case Alive:
		m.onAlive(from, msg, fx)
	case Ack:
		m.onAck(from, msg, fx)
	case Election, Coordinator:
		token := *msg
		m.arrive(&token, fx)
	}
}

// arrive handles a token from a predecessor.
func (m *Machine) arrive(token *protocol.Message, fx *protocol.Effects) {
	m.note(token.Term, fx)
	if token.Seq > uint64(2*len(m.cfg.Ring)) {
		return // the participant that began is gone
	}
	switch {
	case token.Type == Coordinator:
		m.onCoordinator(token, fx)
	case m.cfg.ChangRoberts:
		m.onID(token, fx)
	default:
		m.onList(token, fx)
	}
}

// pass sends a token to the successor; a participant that is alone is its own successor.
func (m *Machine) pass(token *protocol.Message, after uint64, fx *protocol.Effects) {
	token.Incarnation, token.Term = m.ballot.Incarnation, max(token.Term, m.ballot.Epoch)
	token.Seq++
	if m.alone() {
		m.arrive(token, fx)
		return
	}
	m.send(fx, m.far(m.watch.next), after, token)
}

// begin sends a token of its own. It keeps a leader that it knows when a lower id has passed (Chang
// and Roberts): otherwise others would tell it of that leader again, and the token would return to
// a participant that awaits nothing.
func (m *Machine) begin(fx *protocol.Effects) {
	m.round++
	m.mine, m.closed = true, false
	m.wait()
	m.role = protocol.Candidate
	if m.leader.Term == 0 {
		m.leader = protocol.Leadership{}
	}
	token := protocol.Message{Type: Election, Echo: m.ballot.Incarnation, Round: m.round}
	if m.cfg.ChangRoberts {
		token.Leader = protocol.Leadership{ID: m.cfg.Self, Incarnation: m.ballot.Incarnation}
	} else {
		token.Body = string(m.cfg.Self)
	}
	m.pass(&token, 0, fx)
}

// overAt is when a participant that does not doubt its leader, or cannot stand, stops waiting for
// an outcome.
func (m *Machine) overAt() protocol.Instant {
	if m.phase == waiting && (m.leader.Term > 0 || !m.able() || m.role == protocol.Fencing) {
		return m.at
	}
	return protocol.Never
}

// over ends the wait.
func (m *Machine) over() {
	m.rest()
	if m.leader.Term == 0 {
		m.leader = protocol.Leadership{}
	}
}

// wait awaits the outcome of an election.
func (m *Machine) wait() {
	m.phase, m.at = waiting, m.now.Add(m.cfg.Silence)
}

// its reports whether a token is that of the present election of its own.
func (m *Machine) its(token *protocol.Message) bool {
	return m.mine && token.Echo == m.ballot.Incarnation && token.Round == m.round
}

// onList adds its own id to a list, or ends the round.
func (m *Machine) onList(token *protocol.Message, fx *protocol.Effects) {
	i := find(token.Body, m.cfg.Self)
	switch {
	case i < 0:
		if m.stands() {
			token.Body += " " + string(m.cfg.Self)
		}
		if m.phase == calm && m.role != protocol.Leader {
			m.wait()
		}
		m.pass(token, 0, fx)
	case i > 0 || m.its(token) && !m.closed:
		// The list has come round. If another participant began it, that one is out of reach, with
		// all ids that it collected before.
		list := token.Body[i:]
		m.closed = m.closed || i == 0
		if m.role != protocol.Leader {
			m.wait()
		}
		c := protocol.Message{Type: Coordinator, Echo: token.Echo, Round: token.Round, Term: m.ballot.Epoch, Body: list}
		c.Leader.ID = highest(list)
		m.onWinner(&c, fx)
	}
}

// onID passes on a higher id (Chang and Roberts).
func (m *Machine) onID(token *protocol.Message, fx *protocol.Effects) {
	order := token.Leader.ID.Compare(m.cfg.Self)
	switch {
	case order == 0 && m.its(token) && !m.closed:
		m.closed = true
		m.announce(fx)
	case order == 0:
	case order > 0 || !m.stands():
		if m.phase == calm && m.role != protocol.Leader {
			m.wait()
		}
		m.pass(token, 0, fx)
	case m.role == protocol.Leader:
		m.announce(fx) // otherwise its own id would come round again
	case m.phase == calm:
		m.begin(fx)
	}
}

// announce sends its own win around the ring (Chang and Roberts).
func (m *Machine) announce(fx *protocol.Effects) {
	c := protocol.Message{Type: Coordinator, Echo: m.ballot.Incarnation, Round: m.round, Term: m.ballot.Epoch}
	c.Leader.ID = m.cfg.Self
	m.onWinner(&c, fx)
}

// onCoordinator learns the winner, and takes the message off the ring if it has come round.
func (m *Machine) onCoordinator(token *protocol.Message, fx *protocol.Effects) {
	home := find(token.Body, m.cfg.Self) == 0
	if m.cfg.ChangRoberts {
		home = token.Leader.ID == m.cfg.Self
	}
	if !home {
		m.onWinner(token, fx)
		return
	}
	switch {
	case token.Leader.ID == m.cfg.Self:
	case token.Leader.Term > 0:
		m.elect(token.Leader, fx)
	case m.its(token) && m.phase == waiting:
		m.at = m.now // the winner did not take the lead
	}
}

// onWinner leads or follows, and passes the message on.
func (m *Machine) onWinner(token *protocol.Message, fx *protocol.Effects) {
	after := uint64(0)
	switch {
	case token.Leader.ID == m.cfg.Self:
		token.Leader, after = m.becomeLeader(token.Term)
	case token.Leader.Term > 0:
		m.elect(token.Leader, fx)
	case token.Term >= m.ballot.Epoch && m.role != protocol.Leader && m.leader.ID != token.Leader.ID:
		// The winner's epoch is not known yet.
		m.floor = max(m.floor, m.leader.Term)
		m.leader = protocol.Leadership{ID: token.Leader.ID}
		if m.phase == calm {
			m.wait()
		}
	}
	m.pass(token, after, fx)
}

// elect follows the winner. A leader that counted as lost may have won again.
func (m *Machine) elect(l protocol.Leadership, fx *protocol.Effects) {
	if l.Term >= m.ballot.Epoch && m.leader.Term == 0 && m.role != protocol.Leader {
		m.leader = protocol.Leadership{ID: l.ID}
	}
	m.believe(l, fx)
}

// becomeLeader makes this participant the leader, if it still can be: the epoch in which it leads must be
// above all that were known in the election. It returns the leadership, without a term if there is
// none, and the save that it waits for.
func (m *Machine) becomeLeader(heard uint64) (protocol.Leadership, uint64) {
	switch {
	case m.role == protocol.Leader:
		return m.own(), 0
	case m.phase == taking:
		return m.own(), m.takeSave
	case m.stands() && heard >= m.ballot.Epoch:
		m.take()
		return m.own(), m.takeSave
	}
	return protocol.Leadership{ID: m.cfg.Self}, 0
}

// take raises the epoch above all known epochs. The epoch is used once it is durable.
func (m *Machine) take() {
	m.floor = max(m.floor, m.ballot.Epoch)
	m.ballot.Epoch++
	m.phase, m.role, m.at = taking, protocol.Candidate, protocol.Never
	m.tenure, m.takeSave = m.ballot.Epoch, m.ballot.Touch()
	m.leader = protocol.Leadership{}
}

// win begins a tenure.
func (m *Machine) win(fx *protocol.Effects) {
	m.rest()
	m.role, m.tenure = protocol.Leader, m.ballot.Epoch
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: m.tenure})
}

// rest ends the participant's part in an election, if it has any.
func (m *Machine) rest() {
	if m.phase == taking {
		m.tenure, m.takeSave = 0, 0
	}
	if m.role == protocol.Candidate {
		m.role = protocol.Follower
	}
	m.phase, m.mine, m.closed = calm, false, false
}

// find is where an id begins in a list, or -1.
func find(list string, id protocol.NodeID) int {
	at := 0
	for s := range strings.SplitSeq(list, " ") {
		if s == string(id) {
			return at
		}
		at += len(s) + 1
	}
	return -1
}

// highest is the highest id of a list.
func highest(list string) protocol.NodeID {
	var best protocol.NodeID
	for s := range strings.SplitSeq(list, " ") {
		if id := protocol.NodeID(s); id.Compare(best) > 0 {
			best = id
		}
	}
	return best
}
