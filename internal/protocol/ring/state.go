package ring

import (
	"fmt"
	"math/bits"

	"github.com/electd/elect/internal/protocol"
)

// AppendState implements [protocol.Machine].
func (m *Machine) AppendState(dst []byte) []byte {
	c := protocol.Appending(dst)
	m.state(&c)
	return c.Appended()
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	c := protocol.Loading(src)
	*m = Machine{cfg: m.cfg, place: m.place}
	m.state(&c)
	return c.Done("ring: state")
}

// state codes the machine.
func (m *Machine) state(c *protocol.Coder) {
	if !c.Role(&m.role, &m.fault, protocol.Follower, protocol.Candidate, protocol.Leader, protocol.Fencing) {
		return
	}
	n, w := len(m.cfg.Ring), &m.watch
	m.ballot.State(c)
	protocol.Small(c, &w.next, "a successor at the distance", 1, n)
	protocol.Small(c, &w.found, "answers", 0, 255)
	protocol.Small(c, &w.turn, "turn", 0, n)
	c.Uints(&m.leader.Incarnation, &m.leader.Term, &m.floor)
	protocol.Small(c, &m.phase, "phase", 0, taking)
	c.Uints(&m.round, &m.tenure, &m.takeSave)
	c.Instants(&m.restUntil, &m.at, &w.until, &w.beatAt)
	c.Bools(&m.candidate, &m.sick, &m.paused, &w.seeking, &m.mine, &m.closed)
	protocol.Strings(c, &m.leader.ID)
	switch {
	case (m.mine || m.phase == taking) != (m.role == protocol.Candidate), m.mine && m.phase == calm, m.closed && !m.mine,
		m.role == protocol.Leader && m.phase != calm:
		c.Fail(fmt.Errorf("the role %v does not go with the phase %d", m.role, m.phase))
	case w.seeking && w.next == n, w.found != 0 && (!w.seeking || w.found&1 != 0 || w.next+bits.Len8(w.found) > n):
		c.Fail(fmt.Errorf("answers %#x do not go with a successor at the distance %d", w.found, w.next))
	}
}
