package raft

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
	dst = m.ballot.append(dst)
	for _, v := range [...]uint64{m.saveNo, m.saved, m.termSave} {
		dst = protocol.AppendUint(dst, v)
	}
	dst = protocol.AppendBool(dst, m.badDisk)
	if m.badDisk {
		dst = protocol.AppendInstant(dst, m.saveAt)
	}
	dst = protocol.AppendBool(dst, m.candidate)
	dst = protocol.AppendBool(dst, m.sick)
	dst = protocol.AppendBool(protocol.AppendString(dst, m.position), m.located)
	dst = protocol.AppendUint(dst, m.round)
	if m.role == protocol.Leader {
		dst = protocol.AppendInstant(protocol.AppendUint(dst, m.token), m.beatAt)
		if m.cfg.CheckQuorum {
			dst = m.marks.Append(protocol.AppendInstant(dst, m.checkAt))
		}
		return dst
	}
	dst = protocol.AppendInstant(dst, m.electAt)
	dst = protocol.AppendUint(dst, uint64(m.leader+1))
	if m.leader >= 0 {
		dst = protocol.AppendInstant(dst, m.heardAt)
	}
	switch m.role {
	case protocol.Fencing:
		dst = protocol.AppendUint(dst, m.token)
	case protocol.PreCandidate, protocol.Candidate:
		dst = m.marks.Append(dst)
	}
	return dst
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	if len(src) == 0 {
		return errors.New("raft: no state")
	}
	*m = Machine{cfg: m.cfg, self: m.self, role: protocol.Role(src[0]), marks: m.marks, leader: -1, heardAt: protocol.Always, saveAt: protocol.Never}
	m.marks.Clear()
	d := protocol.NewDecoder(src[1:])
	switch m.role {
	case protocol.Down:
	case protocol.Halted:
		m.fault = d.String()
	case protocol.Follower, protocol.PreCandidate, protocol.Candidate, protocol.Leader, protocol.Fencing:
		m.load(d)
	default:
		return fmt.Errorf("raft: a state with the role %v, which this protocol does not have", m.role)
	}
	if err := d.Done(); err != nil {
		return fmt.Errorf("raft: state: %w", err)
	}
	return nil
}

func (m *Machine) load(d *protocol.Decoder) {
	m.ballot = readBallot(d)
	m.saveNo, m.saved, m.termSave = d.Uint(), d.Uint(), d.Uint()
	if m.badDisk = d.Bool(); m.badDisk {
		m.saveAt = d.Instant()
	}
	m.candidate, m.sick = d.Bool(), d.Bool()
	m.position, m.located = d.String(), d.Bool()
	m.round = d.Uint()
	if m.role == protocol.Leader {
		m.token, m.beatAt = d.Uint(), d.Instant()
		if m.cfg.CheckQuorum {
			m.checkAt = d.Instant()
			m.marks.Load(d)
		}
		return
	}
	m.electAt = d.Instant()
	if at := d.Uint(); at > uint64(len(m.cfg.Members)) {
		d.Fail(fmt.Errorf("a leader at place %d of %d members", at, len(m.cfg.Members)))
	} else if m.leader = int(at) - 1; m.leader >= 0 {
		m.heardAt = d.Instant()
	}
	switch m.role {
	case protocol.Fencing:
		m.token = d.Uint()
	case protocol.PreCandidate, protocol.Candidate:
		m.marks.Load(d)
	}
}
