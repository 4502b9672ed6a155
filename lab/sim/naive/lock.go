package naive

import (
	"fmt"
	"math"

	"github.com/electd/elect/internal/protocol"
)

// Form is a lock in one store.
type Form uint8

// The forms.
const (
	// SetNX is a key of Redis: SET lock NONCE NX PX ttl. Scripts that compare the nonce renew it by PEXPIRE, and delete
	// it.
	SetNX Form = iota
	// Update is a row: UPDATE leader SET holder = me, expires_at = now() + ttl WHERE expires_at < now(), and the same
	// WHERE holder = me to renew it.
	Update
	// Advisory is pg_try_advisory_lock(1), by a pool of connections. The lock belongs to the session that asked. From
	// time to time a SELECT on any connection of the pool shows that the database answers.
	Advisory
)

// Lock is one client of a lock.
type Lock struct {
	form Form
	self protocol.NodeID
	c    Config
	belief

	asked   uint64 // the number of the last request
	doing   step   // what the request that is not answered is for
	nonce   protocol.Nonce
	attempt uint64 // distinguishes the writes with one nonce
	leaving bool   // the lock is to be released
}

type step uint8

const (
	idle step = iota
	looking
	taking
	renewing
	releasing
)

// New returns a client, or an error if a field of c is out of range or does not fit form.
func New(form Form, self protocol.NodeID, c Config) (*Lock, error) {
	c, err := c.WithDefaults()
	if err == nil && c.Token && form == Advisory {
		err = fmt.Errorf("token: an advisory lock has no place for one; leave it out")
	}
	if err == nil && c.ClientClock && form != Update {
		err = fmt.Errorf("client_clock: only the row is compared with the time of a client; leave it out")
	}
	return &Lock{form: form, self: self, c: c}, err
}

// Step implements [protocol.Machine].
func (m *Lock) Step(in *protocol.Input, fx *protocol.Effects) {
	m.begin(in, fx)
	switch in.Kind {
	case protocol.Do:
		if m.do(&in.Command, fx) {
			m.leaving, m.doing = true, idle
		}
		if m.doing == idle {
			m.due = m.now.Boot
		}
	case protocol.Replied:
		if in.Answer.Number == m.asked && m.doing != idle {
			m.answered(&in.Answer, fx)
		}
	}
	if m.due <= m.now.Boot {
		m.due = protocol.Never
		m.request(in.Rand, fx)
	}
}

// request sends the next request, if there is one.
func (m *Lock) request(chance uint64, fx *protocol.Effects) {
	switch {
	case m.held && m.form == Advisory:
		m.ask(renewing, protocol.Ask{Op: protocol.Read}, fx)
	case m.held:
		m.write(renewing, own, fx)
	case m.leaving:
		m.ask(releasing, protocol.Ask{Op: protocol.Delete, Version: own, Record: protocol.Record{Nonce: m.nonce}}, fx)
	case m.stands():
		m.nonce = protocol.Nonce{chance, m.asked}
		if m.c.ClientClock {
			m.ask(looking, protocol.Ask{Op: protocol.Read}, fx)
		} else {
			m.write(taking, 0, fx)
		}
	}
}

// own is a version that no record has: a request with it is for the record with its nonce.
const own = math.MaxUint64

// write writes the record if there is none (version 0), if it has that version, or if it has its nonce.
func (m *Lock) write(what step, version uint64, fx *protocol.Effects) {
	m.attempt++
	r := protocol.Record{Holder: m.self, Nonce: m.nonce, Attempt: m.attempt, Duration: m.c.TTL}
	if m.c.ClientClock {
		r.Attempt, r.Duration = uint64(m.now.Boot.Add(m.c.TTL)), 0 // expires_at
	}
	m.ask(what, protocol.Ask{Op: protocol.Write, Version: version, Record: r}, fx)
}

func (m *Lock) ask(what step, a protocol.Ask, fx *protocol.Effects) {
	m.asked++
	m.doing, a.Number = what, m.asked
	fx.Asks = append(fx.Asks, a)
}

// answered takes the answer to the last request, and believes it as the lock's users do.
func (m *Lock) answered(a *protocol.Answer, fx *protocol.Effects) {
	what, done, now := m.doing, a.Status == protocol.StatusDone, m.now.Boot
	m.doing, m.due = idle, now.Add(m.c.retry())
	switch {
	case what == looking:
		if done && (a.Version == 0 || protocol.Instant(a.Record.Attempt) < now) {
			m.write(taking, a.Version, fx)
			m.due = protocol.Never
		}
	case what == taking && done && m.stands(), what == renewing && done && m.held:
		end, token := now.Add(m.c.TTL), uint64(1) // the mistake: the time to live began when the store wrote, or before
		if m.form == Advisory {
			end = protocol.Never // the mistake: the pool has answered, and not the session with the lock
		}
		if m.c.Token {
			token = a.Version
		}
		m.lead(end, token, fx)
		m.due = now.Add(m.c.TTL / 3)
	case what == taking:
		m.leaving = done || a.Status == protocol.StatusUnknown
	case what == renewing && (a.Status == protocol.StatusConflict || m.form == Advisory):
		m.stop(protocol.Lapsed, fx)
	case what == releasing:
		m.leaving = !done && a.Status != protocol.StatusConflict
	}
}

// AppendState implements [protocol.Machine].
func (m *Lock) AppendState(dst []byte) []byte {
	c := protocol.Appending(dst)
	m.state(&c)
	return c.Appended()
}

// LoadState implements [protocol.Machine].
func (m *Lock) LoadState(src []byte) error {
	c := protocol.Loading(src)
	m.state(&c)
	return c.Done("naive: state")
}

func (m *Lock) state(c *protocol.Coder) {
	m.belief.state(c)
	c.Uints(&m.asked, &m.attempt)
	protocol.Small(c, &m.doing, "step", idle, releasing)
	c.Nonce(&m.nonce)
	c.Bools(&m.leaving)
}
