package queue

import (
	"errors"
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// AppendState implements protocol.Machine.
func (m *Machine) AppendState(dst []byte) []byte {
	dst = append(dst, byte(m.phase))
	for _, b := range [...]bool{m.wanted, m.sick, m.marking, m.marked, m.active, m.led, m.over, m.ahead} {
		dst = protocol.AppendBool(dst, b)
	}
	dst = protocol.AppendString(dst, m.fault)
	dst = protocol.AppendReading(dst, m.base)
	for _, v := range [...]uint64{
		m.asked, m.fails, m.losses, m.watch, m.ownWatch, m.watched, m.revision, m.asksConfirm, m.covers, m.done, m.stray,
		m.session, m.nonce[0], m.nonce[1],
	} {
		dst = protocol.AppendUint(dst, v)
	}
	for _, p := range [...]pending{m.main, m.renew, m.probe} {
		dst = protocol.AppendUint(protocol.AppendUint(protocol.AppendUint(dst, p.number), uint64(p.op)), p.session)
		dst = protocol.AppendInstant(dst, p.sent)
	}
	for _, i := range [...]protocol.Instant{m.retryAt, m.renewAt, m.pollAt, m.leaseEnd, m.holdEnd, m.firstView, m.notBefore, m.deaf} {
		dst = protocol.AppendInstant(dst, i)
	}
	dst = protocol.AppendDuration(dst, m.granted)
	dst = appendEntry(dst, &m.own)
	dst = protocol.AppendBool(protocol.AppendUint(dst, m.mark.Order), m.mark.Held)
	dst = protocol.AppendDuration(dst, m.mark.Hold)
	dst = protocol.AppendString(dst, m.leader.ID)
	return protocol.AppendUint(protocol.AppendUint(dst, m.leader.Incarnation), m.leader.Term)
}

func appendEntry(dst []byte, e *protocol.Entry) []byte {
	dst = protocol.AppendUint(protocol.AppendUint(dst, e.Order), e.Session)
	dst = protocol.AppendString(dst, e.Holder)
	return protocol.AppendUint(protocol.AppendUint(dst, e.Nonce[0]), e.Nonce[1])
}

// LoadState implements protocol.Machine.
func (m *Machine) LoadState(src []byte) error {
	if len(src) == 0 {
		return errors.New("queue: state: it is empty")
	}
	if src[0] > byte(halted) {
		return fmt.Errorf("queue: state: phase %d; want at most %d", src[0], halted)
	}
	m.phase = phase(src[0])
	d := protocol.NewDecoder(src[1:])
	for _, b := range [...]*bool{&m.wanted, &m.sick, &m.marking, &m.marked, &m.active, &m.led, &m.over, &m.ahead} {
		*b = d.Bool()
	}
	m.fault = d.String()
	m.base = d.Reading()
	for _, v := range [...]*uint64{
		&m.asked, &m.fails, &m.losses, &m.watch, &m.ownWatch, &m.watched, &m.revision, &m.asksConfirm, &m.covers, &m.done, &m.stray,
		&m.session, &m.nonce[0], &m.nonce[1],
	} {
		*v = d.Uint()
	}
	for _, p := range [...]*pending{&m.main, &m.renew, &m.probe} {
		p.number = d.Uint()
		op := d.Uint()
		if p.op = protocol.Op(op); uint64(p.op) != op {
			d.Fail(fmt.Errorf("operation %d; want at most 255", op))
		}
		p.session = d.Uint()
		p.sent = d.Instant()
	}
	for _, i := range [...]*protocol.Instant{&m.retryAt, &m.renewAt, &m.pollAt, &m.leaseEnd, &m.holdEnd, &m.firstView, &m.notBefore, &m.deaf} {
		*i = d.Instant()
	}
	m.granted = d.Duration()
	m.own = protocol.Entry{Order: d.Uint(), Session: d.Uint(), Holder: protocol.NodeID(d.String()), Nonce: protocol.Nonce{d.Uint(), d.Uint()}}
	m.mark = protocol.QueueMark{Order: d.Uint(), Held: d.Bool(), Hold: d.Duration()}
	m.leader = protocol.Leadership{ID: protocol.NodeID(d.String()), Incarnation: d.Uint(), Term: d.Uint()}
	if err := d.Done(); err != nil {
		return fmt.Errorf("queue: state: %w", err)
	}
	return nil
}
