package blazingmq

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// AppendState implements [protocol.Machine]. It omits what the present role does not read, so that
// equal behaviour has equal bytes.
func (m *Machine) AppendState(dst []byte) []byte {
	dst = append(dst, byte(m.role))
	switch m.role {
	case protocol.Down:
		return dst
	case protocol.Halted:
		return protocol.AppendString(dst, m.fault)
	}
	dst = protocol.AppendInstant(dst, m.now)
	dst = protocol.AppendUint(protocol.AppendUint(dst, m.ballot.Term), m.ballot.Incarnation)
	for _, v := range [...]uint64{m.saveNo, m.saved, m.bootSave, m.termSave, m.term, m.seen, m.lsn.Term, m.lsn.Counter} {
		dst = protocol.AppendUint(dst, v)
	}
	dst = protocol.AppendBool(dst, m.badDisk)
	if m.badDisk {
		dst = protocol.AppendInstant(dst, m.saveAt)
	}
	dst = protocol.AppendBool(protocol.AppendBool(dst, m.candidate), m.sick)
	dst = protocol.AppendBool(dst, m.fencing)
	if m.fencing || m.role == protocol.Leader {
		dst = protocol.AppendUint(dst, m.token)
	}
	switch m.role {
	case protocol.Follower:
		dst = appendPlace(appendPlace(dst, m.leader), m.tentative)
		if m.follows() {
			dst = protocol.AppendInstant(protocol.AppendUint(dst, m.life), m.heard)
		} else {
			dst = protocol.AppendInstant(dst, m.electAt)
		}
	case protocol.PreCandidate:
		dst = protocol.AppendInstant(protocol.AppendUint(dst, m.asked), m.ends)
		dst = m.heeds.Append(m.yes.Append(dst))
	case protocol.Candidate:
		dst = m.yes.Append(protocol.AppendInstant(dst, m.ends))
	case protocol.Leader:
		dst = m.yes.Append(protocol.AppendInstant(dst, m.beatAt))
	}
	return dst
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	if len(src) == 0 {
		return errors.New("blazingmq: no state")
	}
	m.yes.Clear()
	m.heeds.Clear()
	*m = Machine{cfg: m.cfg, self: m.self, role: protocol.Role(src[0]), yes: m.yes, heeds: m.heeds, leader: noMember, tentative: noMember, saveAt: protocol.Never}
	d := protocol.NewDecoder(src[1:])
	switch m.role {
	case protocol.Down:
	case protocol.Halted:
		m.fault = d.String()
	case protocol.Follower, protocol.PreCandidate, protocol.Candidate, protocol.Leader:
		m.load(d)
	default:
		return fmt.Errorf("blazingmq: a state with the role %v, which this protocol does not store", m.role)
	}
	if err := d.Done(); err != nil {
		return fmt.Errorf("blazingmq: state: %w", err)
	}
	return nil
}

func (m *Machine) load(d *protocol.Decoder) {
	m.now = d.Instant()
	m.ballot = readBallot(d)
	for _, v := range [...]*uint64{&m.saveNo, &m.saved, &m.bootSave, &m.termSave, &m.term, &m.seen, &m.lsn.Term, &m.lsn.Counter} {
		*v = d.Uint()
	}
	if m.term > MaxTerm || m.seen > MaxTerm {
		d.Fail(fmt.Errorf("terms %d and %d; want at most %d", m.term, m.seen, uint64(MaxTerm)))
	}
	if m.badDisk = d.Bool(); m.badDisk {
		m.saveAt = d.Instant()
	}
	m.candidate, m.sick = d.Bool(), d.Bool()
	m.fencing = d.Bool()
	if m.fencing || m.role == protocol.Leader {
		m.token = d.Uint()
	}
	if m.fencing && m.role != protocol.Follower {
		d.Fail(fmt.Errorf("the role %v while work of an earlier term runs", m.role))
	}
	switch m.role {
	case protocol.Follower:
		m.leader, m.tentative = m.place(d), m.place(d)
		if m.leader != noMember && m.tentative != noMember {
			d.Fail(fmt.Errorf("a leader, %d, and one to be, %d", m.leader, m.tentative))
		}
		if m.follows() {
			m.life, m.heard = d.Uint(), d.Instant()
		} else {
			m.electAt = d.Instant()
		}
	case protocol.PreCandidate:
		m.asked, m.ends = d.Uint(), d.Instant()
		m.yes.Load(d)
		m.heeds.Load(d)
		if m.asked <= m.term || m.asked > MaxTerm {
			d.Fail(fmt.Errorf("it scouts for term %d in term %d", m.asked, m.term))
		}
	case protocol.Candidate:
		m.ends = d.Instant()
		m.yes.Load(d)
	case protocol.Leader:
		m.leader, m.beatAt = m.self, d.Instant()
		m.yes.Load(d)
	}
}

// appendPlace appends a place; 0 is no member.
func appendPlace(dst []byte, place int) []byte { return protocol.AppendUint(dst, uint64(place+1)) }

// place reads the place of another member, or noMember.
func (m *Machine) place(d *protocol.Decoder) int {
	p := d.Uint()
	if p > uint64(len(m.cfg.Members)) || int(p)-1 == m.self {
		d.Fail(fmt.Errorf("place %d of %d members", p, len(m.cfg.Members)))
		return noMember
	}
	return int(p) - 1
}
