package bully

import "github.com/electd/elect/internal/protocol"

// receive handles a message, unless it is invalid.
func (m *Machine) receive(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	if from == m.cfg.Self || msg.Term > protocol.MaxCount {
		return
	}
	switch msg.Type {
	case Election:
		m.onElection(from, msg, fx)
	case OK:
		m.onOK(from, msg)
	case Coordinator, Alive:
		m.onTenure(from, msg, fx)
	}
}

// begin asks all participants with a higher id. If there is none it has won.
func (m *Machine) begin(fx *protocol.Effects) {
	m.round++
	m.leader = protocol.Leadership{}
	if m.place == len(m.cfg.Members)-1 {
		m.take()
		return
	}
	m.phase, m.role, m.at = asking, protocol.Candidate, m.now.Add(m.cfg.Answer)
	msg := m.message(Election, m.ballot.Epoch)
	msg.Round = m.round
	for _, id := range m.cfg.Members[m.place+1:] {
		m.send(fx, id, &msg)
	}
}

// onElection answers a lower participant, and begins an election unless one is in progress.
func (m *Machine) onElection(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	m.ballot.Note(msg.Term)
	if from.Compare(m.cfg.Self) > 0 || !m.stands() {
		return
	}
	ok := m.message(OK, m.ballot.Epoch)
	ok.Round, ok.Echo = msg.Round, msg.Incarnation
	m.send(fx, from, &ok)
	switch {
	case m.role == protocol.Leader && msg.Term > m.tenure:
		m.stop(Outdated, fx)
	case m.role == protocol.Leader:
		c := m.message(Coordinator, m.tenure)
		m.send(fx, from, &c)
	case m.phase == calm:
		m.begin(fx)
	}
}

// onOK handles an answer: the asker cannot win.
func (m *Machine) onOK(from protocol.NodeID, msg *protocol.Message) {
	m.ballot.Note(msg.Term)
	if m.phase == asking && msg.Round == m.round && msg.Echo == m.ballot.Incarnation && from.Compare(m.cfg.Self) > 0 {
		m.phase, m.role, m.at = bullied, protocol.Follower, m.now.Add(m.cfg.Silence)
	}
}

// onTenure learns that another leads.
func (m *Machine) onTenure(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	if msg.Type == Alive && m.leader.ID != "" && from.Compare(m.leader.ID) < 0 {
		return // of two that claim to lead, the one with the higher id leads
	}
	known := m.ballot.Epoch
	m.ballot.Note(msg.Term)
	lower := from.Compare(m.cfg.Self) < 0
	switch {
	case !m.stands() || !lower && msg.Term >= known:
		m.follow(from, msg, fx)
	case m.role == protocol.Leader && lower && msg.Term < m.tenure:
		// The other learns of this leader by its next Alive.
	case m.role == protocol.Leader:
		m.stop(Outdated, fx)
	case m.phase == calm:
		m.begin(fx)
	}
}

// follow follows another as the coordinator.
func (m *Machine) follow(id protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	m.stop(Bullied, fx)
	m.rest()
	m.leader = protocol.Leadership{ID: id, Incarnation: msg.Incarnation, Term: msg.Term}
	m.at = m.now.Add(m.cfg.Silence)
}

// rest ends the participant's part in an election, if it has any.
func (m *Machine) rest() {
	if m.phase != calm {
		m.phase, m.role = calm, protocol.Follower
		m.tenure, m.takeSave = 0, 0
	}
}

// take raises the epoch above all known epochs. The epoch is used once it is durable.
func (m *Machine) take() {
	if m.ballot.Epoch >= protocol.MaxCount {
		m.rest()
		return
	}
	m.ballot.Epoch++
	m.phase, m.role, m.at = taking, protocol.Candidate, protocol.Never
	m.tenure, m.takeSave = m.ballot.Epoch, m.ballot.Touch()
}

// win begins a tenure.
func (m *Machine) win(fx *protocol.Effects) {
	m.phase, m.role, m.takeSave = calm, protocol.Leader, 0
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: m.tenure})
	msg := m.message(Coordinator, m.tenure)
	for _, id := range m.cfg.Members[:m.place] {
		m.send(fx, id, &msg)
	}
	m.beatAt = m.now.Add(m.cfg.Heartbeat)
}

// beat sends Alive to all others.
func (m *Machine) beat(fx *protocol.Effects) {
	msg := m.message(Alive, m.tenure)
	for i, id := range m.cfg.Members {
		if i != m.place {
			m.send(fx, id, &msg)
		}
	}
	m.beatAt = m.now.Add(m.cfg.Heartbeat)
}

// stop ends a tenure. Until its work has returned it begins nothing else; then it stands at once,
// unless it follows another by then.
func (m *Machine) stop(reason protocol.Reason, fx *protocol.Effects) {
	if m.role != protocol.Leader {
		return
	}
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.tenure, Reason: reason})
	m.role, m.at, m.beatAt = protocol.Fencing, m.now, protocol.Never
}

// do carries out a command.
func (m *Machine) do(c protocol.Command, fx *protocol.Effects) {
	switch c.Verb {
	case protocol.Campaign:
		m.back(&m.candidate, true)
	case protocol.Recover:
		m.back(&m.sick, false)
	case protocol.Resume:
		m.back(&m.paused, false)
	case protocol.Withdraw:
		m.candidate = false
		m.quit(Withdrawn, fx)
	case protocol.Sicken:
		m.sick = true
		m.quit(Unhealthy, fx)
	case protocol.Pause:
		m.paused = true
		m.quit(Paused, fx)
	case protocol.Resign:
		if m.role == protocol.Leader {
			m.quit(Resigned, fx)
			m.restUntil = m.now.Add(m.cfg.WorstTakeover()) // until another has won
		}
	case protocol.Joined:
		if m.role == protocol.Fencing && c.Token == m.tenure {
			m.role, m.tenure = protocol.Follower, 0
		}
	}
}

// back makes it a candidate again, which begins an election at once.
func (m *Machine) back(what *bool, to bool) {
	if *what != to {
		*what = to
		if m.phase == calm && m.role == protocol.Follower {
			m.at = m.now
		}
	}
}

// quit ends a tenure, or the participant's part in an election.
func (m *Machine) quit(reason protocol.Reason, fx *protocol.Effects) {
	m.stop(reason, fx)
	m.rest()
}

// onSaved records a save. After a failure it neither wins nor answers until a save succeeds; it
// tries again a heartbeat later.
func (m *Machine) onSaved(number uint64, failed bool, fx *protocol.Effects) {
	news := m.ballot.Saved(number, failed, m.now.Add(m.cfg.Heartbeat))
	switch {
	case !news || m.phase != taking || number < m.takeSave:
	case failed:
		m.rest()
		m.at = m.now.Add(m.cfg.Silence)
	case m.ballot.Epoch != m.tenure:
		m.take() // more was heard of meanwhile
	default:
		m.win(fx)
	}
}
