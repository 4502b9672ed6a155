package ring

import (
	"errors"
	"fmt"
	"math/bits"

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
	w := &m.watch
	dst = m.ballot.AppendState(dst)
	for _, v := range [...]uint64{
		uint64(w.next), uint64(w.found), uint64(w.turn),
		m.leader.Incarnation, m.leader.Term, m.floor, uint64(m.phase), m.round, m.tenure, m.takeSave,
	} {
		dst = protocol.AppendUint(dst, v)
	}
	for _, i := range [...]protocol.Instant{m.restUntil, m.at, w.until, w.beatAt} {
		dst = protocol.AppendInstant(dst, i)
	}
	for _, b := range [...]bool{m.candidate, m.sick, m.paused, w.seeking, m.mine, m.closed} {
		dst = protocol.AppendBool(dst, b)
	}
	return protocol.AppendString(dst, m.leader.ID)
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	if len(src) == 0 {
		return errors.New("ring: no state")
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
		return fmt.Errorf("ring: a state with the role %v, which this protocol does not have", m.role)
	}
	if err := d.Done(); err != nil {
		return fmt.Errorf("ring: state: %w", err)
	}
	return nil
}

func (m *Machine) load(d *protocol.Decoder) {
	small := func(what string, least, most int) int {
		v := d.Uint()
		if v < uint64(least) || v > uint64(most) {
			d.Fail(fmt.Errorf("%s %d; want %d to %d", what, v, least, most))
			return least
		}
		return int(v)
	}
	n, w := len(m.cfg.Ring), &m.watch
	m.ballot.LoadState(d)
	w.next = small("a successor at the distance", 1, n)
	w.found = uint8(small("answers", 0, 255))
	w.turn = small("a turn", 0, n)
	m.leader.Incarnation, m.leader.Term, m.floor = d.Uint(), d.Uint(), d.Uint()
	m.phase = phase(small("phase", 0, int(taking)))
	m.round, m.tenure, m.takeSave = d.Uint(), d.Uint(), d.Uint()
	m.restUntil, m.at, w.until, w.beatAt = d.Instant(), d.Instant(), d.Instant(), d.Instant()
	m.candidate, m.sick, m.paused = d.Bool(), d.Bool(), d.Bool()
	w.seeking, m.mine, m.closed = d.Bool(), d.Bool(), d.Bool()
	m.leader.ID = protocol.NodeID(d.String())
	switch {
	case (m.mine || m.phase == taking) != (m.role == protocol.Candidate), m.mine && m.phase == calm, m.closed && !m.mine,
		m.role == protocol.Leader && m.phase != calm:
		d.Fail(fmt.Errorf("the role %v does not go with the phase %d", m.role, m.phase))
	case w.seeking && w.next == n, w.found != 0 && (!w.seeking || w.found&1 != 0 || w.next+bits.Len8(w.found) > n):
		d.Fail(fmt.Errorf("answers %#x do not go with a successor at the distance %d", w.found, w.next))
	}
}
