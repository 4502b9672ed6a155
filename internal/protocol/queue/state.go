package queue

import (
	"fmt"

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
	m.state(&c)
	return c.Done("queue: state")
}

// state codes the machine.
func (m *Machine) state(c *protocol.Coder) {
	if c.Byte((*byte)(&m.phase)); m.phase > halted {
		c.Fail(fmt.Errorf("phase %d; want at most %d", m.phase, halted))
		return
	}
	c.Bools(&m.wanted, &m.sick, &m.marking, &m.marked, &m.active, &m.led, &m.over, &m.ahead)
	protocol.Strings(c, &m.fault)
	c.Reading(&m.base)
	c.Uints(&m.asked, &m.fails, &m.losses, &m.watch, &m.ownWatch, &m.watched, &m.revision, &m.asksConfirm, &m.covers, &m.done, &m.stray, &m.touches)
	c.Uints(&m.session)
	c.Nonce(&m.nonce)
	for _, p := range [...]*pending{&m.main, &m.renew, &m.probe} {
		c.Uints(&p.number)
		protocol.Small(c, &p.op, "operation", 0, 255)
		c.Uints(&p.session)
		c.Instants(&p.sent)
	}
	c.Instants(&m.retryAt, &m.renewAt, &m.pollAt, &m.leaseEnd, &m.holdEnd, &m.firstView, &m.notBefore, &m.deaf, &m.touchAt, &m.seenAt)
	c.Durations(&m.granted)
	c.Uints(&m.own.Order, &m.own.Session)
	protocol.Strings(c, &m.own.Holder)
	c.Nonce(&m.own.Nonce)
	c.Uints(&m.mark.Order, &m.mark.Touched, &m.seen.Order, &m.seen.Touched)
	c.Bools(&m.mark.Held)
	c.Durations(&m.mark.Hold)
	protocol.Strings(c, &m.leader.ID)
	c.Uints(&m.leader.Incarnation, &m.leader.Term)
}
