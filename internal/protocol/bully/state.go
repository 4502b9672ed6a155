package bully

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// AppendState implements [protocol.Machine].
func (m *Machine) AppendState(dst []byte) []byte {
	dst = append(dst, byte(m.role))
	switch m.role {
	case protocol.Down:
		return dst
	case protocol.Halted:
		return protocol.AppendString(dst, m.fault)
	}
	dst = m.ballot.AppendState(dst)
	for _, v := range [...]uint64{uint64(m.phase), m.round, m.leader.Incarnation, m.leader.Term, m.tenure, m.takeSave} {
		dst = protocol.AppendUint(dst, v)
	}
	for _, i := range [...]protocol.Instant{m.restUntil, m.at, m.beatAt} {
		dst = protocol.AppendInstant(dst, i)
	}
	for _, b := range [...]bool{m.candidate, m.sick, m.paused} {
		dst = protocol.AppendBool(dst, b)
	}
	return protocol.AppendString(dst, m.leader.ID)
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	if len(src) == 0 {
		return errors.New("bully: no state")
	}
	*m = Machine{cfg: m.cfg, place: m.place, role: protocol.Role(src[0])}
	d := protocol.NewDecoder(src[1:])
	switch m.role {
	case protocol.Down:
	case protocol.Halted:
		m.fault = d.String()
	case protocol.Follower, protocol.Candidate, protocol.Leader, protocol.Fencing:
		m.load(d)
	default:
		return fmt.Errorf("bully: a state with the role %v, which this protocol does not have", m.role)
	}
	if err := d.Done(); err != nil {
		return fmt.Errorf("bully: state: %w", err)
	}
	return nil
}

func (m *Machine) load(d *protocol.Decoder) {
	m.ballot.LoadState(d)
	p := d.Uint()
	if p > uint64(taking) {
		d.Fail(fmt.Errorf("phase %d; want at most %d", p, taking))
	}
	m.phase = phase(p)
	m.round, m.leader.Incarnation, m.leader.Term, m.tenure, m.takeSave = d.Uint(), d.Uint(), d.Uint(), d.Uint(), d.Uint()
	m.restUntil, m.at, m.beatAt = d.Instant(), d.Instant(), d.Instant()
	m.candidate, m.sick, m.paused = d.Bool(), d.Bool(), d.Bool()
	m.leader.ID = protocol.NodeID(d.String())
	if (m.phase == asking || m.phase == taking) != (m.role == protocol.Candidate) || m.phase == bullied && m.role != protocol.Follower {
		d.Fail(fmt.Errorf("the role %v does not go with the phase %d", m.role, m.phase))
	}
}
