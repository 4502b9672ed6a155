package blazingmq

import "github.com/electd/elect/internal/protocol"

// stand begins a try: it scouts, or proposes at once.
func (m *Machine) stand(fx *protocol.Effects) {
	m.ends = m.now.Add(m.cfg.Result)
	m.asked = min(max(m.term, m.seen)+1, protocol.MaxCount)
	if m.asked <= m.term {
		m.wait() // the terms are used up
		return
	}
	if m.cfg.Mode != Scouting {
		m.propose(fx)
		return
	}
	m.role = protocol.PreCandidate
	m.yes.Clear()
	m.heeds.Clear()
	m.yes.Add(m.self)
	m.heeds.Add(m.self)
	msg := m.message(ScoutingRequest, m.asked)
	m.toAll(&msg, fx)
	m.scouted(fx)
}

// onScoutingRequest always answers. Yes is not binding: it says that no leader is seen, and that
// the term would be a new one.
func (m *Machine) onScoutingRequest(from int, msg *protocol.Message, fx *protocol.Effects) {
	m.answer(from, ScoutingResponse, m.leader == noMember && msg.Term > m.term, msg, fx)
}

func (m *Machine) onScoutingResponse(from int, msg *protocol.Message, fx *protocol.Effects) {
	if msg.Echo != m.ballot.Incarnation {
		return
	}
	m.seen = max(m.seen, msg.Term)
	if m.role != protocol.PreCandidate {
		return
	}
	m.heeds.Add(from)
	if msg.Granted {
		m.yes.Add(from)
	}
	m.scouted(fx)
}

// scouted proposes once a majority would support it, and waits again once it is clear that none
// will.
func (m *Machine) scouted(fx *protocol.Effects) {
	switch {
	case m.yes.Len() >= m.quorum():
		m.ends = m.now.Add(m.cfg.Result)
		m.propose(fx)
	case m.heeds.Len() == len(m.cfg.Members):
		m.rest()
	}
}

// propose raises its term and asks all others for support in it.
func (m *Machine) propose(fx *protocol.Effects) {
	m.role = protocol.Candidate
	m.raise(m.asked)
	m.yes.Clear()
	m.yes.Add(m.self)
	msg := m.message(ElectionProposal, m.term)
	m.toAll(&msg, fx)
	m.count(fx)
}

// onProposal supports a proposal with a higher term than its own. A participant that sees a leader,
// perhaps itself, ignores the proposal; the naive elector always accepts it.
func (m *Machine) onProposal(from int, msg *protocol.Message, fx *protocol.Effects) {
	naive := m.cfg.Mode == Naive
	switch {
	case msg.Term <= m.term:
		if naive {
			m.answer(from, ElectionResponse, false, msg, fx)
		}
		return
	case m.leader != noMember && !naive:
		return
	}
	if m.role == protocol.Leader {
		m.stop(Superseded, fx)
	}
	m.role = protocol.Follower
	m.raise(msg.Term)
	m.leader, m.tentative, m.life, m.heard = noMember, from, msg.Incarnation, m.now
	m.answer(from, ElectionResponse, true, msg, fx)
}

func (m *Machine) onElectionResponse(from int, msg *protocol.Message, fx *protocol.Effects) {
	if msg.Echo != m.ballot.Incarnation {
		return
	}
	if !msg.Granted {
		m.seen = max(m.seen, msg.Term)
		return
	}
	switch {
	case m.role == protocol.Leader && msg.Term > m.term:
		m.cede(Superseded, msg.Term, fx)
	case msg.Term != m.term || m.role != protocol.Leader && m.role != protocol.Candidate:
	default:
		m.yes.Add(from)
		m.count(fx)
	}
}

// count makes a candidate with a majority the leader.
func (m *Machine) count(fx *protocol.Effects) {
	if m.role != protocol.Candidate || m.yes.Len() < m.quorum() || m.cfg.Durable && m.termSave > m.saved {
		return
	}
	m.role, m.leader, m.tentative, m.life = protocol.Leader, m.self, noMember, 0
	m.token, m.lsn = m.term, LSN{m.term, 0}
	m.record()
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: m.token})
	m.beat(fx)
}
