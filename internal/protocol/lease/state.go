package lease

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
	n := Machine{c: m.c}
	n.state(&c)
	if err := c.Done("lease: state"); err != nil {
		return err
	}
	*m = n
	return nil
}

// state codes the machine.
func (m *Machine) state(c *protocol.Coder) {
	protocol.Small(c, &m.stage, "stage", 0, halted)
	protocol.Strings(c, &m.fault)
	c.Reading(&m.clock)
	c.Uints(&m.seed)
	c.Bools(&m.candidate, &m.sick)
	c.Uints(&m.asked, &m.attempt)

	c.Uints(&m.flight.number)
	protocol.Small(c, &m.flight.kind, "an ask of kind", 0, free)
	codeRecord(c, &m.flight.record)
	m.flight.floor.state(c)
	c.Uints(&m.watch.number)
	c.Instants(&m.watch.at)
	c.Durations(&m.watch.pause)

	s := &m.seen
	c.Bools(&s.any)
	c.Uints(&s.version)
	codeRecord(c, &s.record)
	protocol.Strings(c, &s.store)
	c.Instants(&s.at)
	protocol.Strings(c, &m.store)
	c.Uints(&m.top, &m.newest)
	m.floor.state(c)
	c.Durations(&m.longest)
	codeMark(c, &m.held)
	c.Bools(&m.lapsed)

	o := &m.own
	c.Nonce(&o.nonce)
	c.Uints(&o.count)
	c.Bools(&o.landed, &o.gone, &o.passed)
	c.Uints(&o.version)
	codeRecord(c, &o.base)
	protocol.Strings(c, &o.store)
	protocol.Strings(c, &o.stop)
	if m.tried.n = c.Len(m.tried.n, 24); m.tried.n > kept {
		c.Fail(fmt.Errorf("%d attempts; want at most %d", m.tried.n, kept))
		m.tried.n = 0
	}
	for i := range m.tried.n {
		a := &m.tried.all[i]
		c.Uints(&a.number)
		c.Instants(&a.sent)
		c.Uints(&a.wanted)
	}
	codeMark(c, &m.ended)
	c.Bools(&m.yield, &m.doubt)

	c.Instants(&m.readAt, &m.writeAt, &m.claimEnd)
	c.Uints(&m.wanted, &m.confirmed)
}

func (f *floor) state(c *protocol.Coder) {
	protocol.Strings(c, &f.store)
	c.Uints(&f.count, &f.version)
	c.Nonce(&f.nonce)
	c.Uints(&f.attempt)
}

func codeMark(c *protocol.Coder, f *protocol.FreeMark) {
	protocol.Strings(c, &f.Holder)
	c.Nonce(&f.Nonce)
	c.Uints(&f.Count)
}

func codeRecord(c *protocol.Coder, r *protocol.Record) {
	protocol.Strings(c, &r.Holder)
	c.Nonce(&r.Nonce)
	c.Uints(&r.Count, &r.Attempt)
	c.Durations(&r.Duration)
	codeMark(c, &r.Free)
	protocol.Strings(c, &r.Store)
}
