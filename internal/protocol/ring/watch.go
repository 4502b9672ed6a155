package ring

import "github.com/electd/elect/internal/protocol"

// fan is how many participants are asked at a time in the search for a successor, and how many
// skipped ones are asked again with each heartbeat.
const fan = 8

// watch is what a participant knows of those after it around the ring.
type watch struct {
	next    int              // the distance to the successor; the distance to itself if no other is alive
	seeking bool             // that is a guess: it and the next ones have been asked
	found   uint8            // seeking: which of them have answered, by the distance from next
	until   protocol.Instant // the deadline for answers; otherwise for the successor's
	turn    int              // which skipped participants are asked next
	beatAt  protocol.Instant
}

// far is the participant at a distance.
func (m *Machine) far(distance int) protocol.NodeID {
	return m.cfg.Ring[(m.place+distance)%len(m.cfg.Ring)]
}

func (m *Machine) alone() bool { return m.watch.next == len(m.cfg.Ring) }

// skips reports whether id counts as dead.
func (m *Machine) skips(id protocol.NodeID) bool {
	for d := 1; d < m.watch.next; d++ {
		if m.far(d) == id {
			return true
		}
	}
	return false
}

// seek takes the participant at that distance as the successor, because no nearer one is left, and
// asks it and those behind it.
func (m *Machine) seek(distance int, fx *protocol.Effects) {
	w := &m.watch
	w.next, w.found = distance, 0
	w.seeking = !m.alone()
	w.until = m.now.Add(m.cfg.Answer)
	if m.alone() {
		w.until = protocol.Never
	}
	for d := distance; d < min(distance+fan, len(m.cfg.Ring)); d++ {
		m.ask(d, fx)
	}
	if m.leader.Term > 0 && m.skips(m.leader.ID) {
		m.lose()
	}
}

// settle has found the successor.
func (m *Machine) settle(distance int) {
	w := &m.watch
	w.next, w.seeking, w.found = distance, false, 0
	w.until = m.now.Add(m.cfg.Silence)
}

func (m *Machine) ask(distance int, fx *protocol.Effects) {
	msg := protocol.Message{Type: Alive, Incarnation: m.ballot.Incarnation, Term: m.epoch(), Leader: m.claim()}
	m.send(fx, m.far(distance), 0, &msg)
}

// look acts on the timers of the watch. A successor that has not been asked is not skipped: a
// participant that was frozen for a heartbeat or longer asks it once more and awaits the answer.
func (m *Machine) look(fx *protocol.Effects) {
	w := &m.watch
	if !w.seeking && m.now >= w.until && m.now >= w.beatAt.Add(m.cfg.Heartbeat) {
		w.until = m.now.Add(m.cfg.Answer)
	}
	switch {
	case m.now < w.until:
	case w.found != 0: // nearer ones have not answered
		d := w.next
		for w.found&1 == 0 {
			w.found >>= 1
			d++
		}
		m.settle(d)
		if m.leader.Term > 0 && m.skips(m.leader.ID) {
			m.lose()
		}
	case w.seeking:
		m.seek(min(w.next+fan, len(m.cfg.Ring)), fx)
	default:
		m.seek(w.next+1, fx)
	}
	if m.now < w.beatAt {
		return
	}
	w.beatAt = m.now.Add(m.cfg.Heartbeat)
	if !m.alone() {
		m.ask(w.next, fx)
	}
	if skipped := w.next - 1; skipped > 0 {
		for i := range min(fan, skipped) {
			m.ask(1+(w.turn+i)%skipped, fx)
		}
		w.turn = (w.turn + fan) % skipped
	} else {
		w.turn = 0
	}
}

// lookAt is when the watch needs a Fire.
func (m *Machine) lookAt() protocol.Instant {
	if len(m.cfg.Ring) == 1 {
		return protocol.Never
	}
	return min(m.watch.beatAt, m.watch.until)
}

// onAlive answers an Alive.
func (m *Machine) onAlive(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	m.hear(from, msg, fx)
	ack := protocol.Message{Type: Ack, Incarnation: m.ballot.Incarnation, Echo: msg.Incarnation, Term: m.epoch(), Leader: m.word()}
	m.send(fx, from, 0, &ack)
}

// onAck records that a participant is alive.
func (m *Machine) onAck(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	if msg.Echo != m.ballot.Incarnation {
		return
	}
	w := &m.watch
	last := w.next
	if w.seeking {
		last += fan - 1
	}
	for d := 1; d <= min(last, len(m.cfg.Ring)-1); d++ {
		if m.far(d) != from {
			continue
		}
		if d <= w.next {
			m.settle(d)
		} else {
			w.found |= 1 << (d - w.next)
		}
		break
	}
	m.hear(from, msg, fx)
}

// hear adopts the leader that another names. The later tenure counts, and of two with one epoch
// that of the higher id. A participant that cannot stand, and so begins no election, follows a
// leader again that it believed gone and that itself says that it leads.
func (m *Machine) hear(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	m.note(msg.Term, fx)
	said := msg.Leader
	switch {
	case m.leader.Term == 0:
	case from == m.leader.ID && said.ID != from && msg.Term >= m.leader.Term:
		m.lose() // it has stopped leading; a message older than its tenure does not count
	case said.ID == "" && said.Term >= m.leader.Term:
		m.lose() // the sender cannot begin an election
	}
	if said.ID == from && !m.able() && !m.skips(from) {
		m.elect(said, fx)
	} else {
		m.believe(said, fx)
	}
}

// believe adopts a leadership if it is later than the known one.
func (m *Machine) believe(said protocol.Leadership, fx *protocol.Effects) {
	if said.Term == 0 || said.Term > protocol.MaxCount || said.ID == "" {
		return
	}
	m.note(said.Term, fx)
	if said.ID == m.cfg.Self {
		if m.role != protocol.Leader && m.phase != taking {
			m.floor = max(m.floor, said.Term) // it is over
		}
		return
	}
	known := m.claim()
	if said.Term <= m.floor && said.ID != m.leader.ID || said.Term < known.Term || said.Term == known.Term && said.ID.Compare(known.ID) <= 0 {
		return
	}
	m.stop(Superseded, fx)
	m.rest()
	m.leader = said
	if m.skips(said.ID) {
		m.lose()
	}
}

// lose drops the leader as gone. A candidate begins an election, unless one is in progress.
func (m *Machine) lose() {
	m.floor = max(m.floor, m.leader.Term)
	m.leader = protocol.Leadership{}
	if m.phase == calm {
		m.at = m.now
	}
}
