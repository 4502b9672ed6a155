package naive

import (
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The messages of Redlock. All carry the nonce of the lock as Round, and a Seq that the answer repeats.
const (
	Set    protocol.MessageType = "redlock-set"    // SET lock NONCE NX PX Promise
	Extend protocol.MessageType = "redlock-extend" // PEXPIRE if the lock has that nonce
	Del    protocol.MessageType = "redlock-del"    // DEL if it has; not answered
	Reply  protocol.MessageType = "redlock-reply"  // Granted, or not
)

// Redlock is the algorithm of Redis's documentation ("Distributed Locks with Redis") over independent servers, one
// beside each client. A participant is both. The server's key is in the participant's memory, like that of a Redis
// server that syncs nothing, and expires by the participant's clock. The client asks all servers, its own included, and
// has the lock if a majority grants it in time. It counts from before it asked, and subtracts a drift: that is right.
// The lock breaks because servers may forget, a key ends when a clock is set, and there is no token.
type Redlock struct {
	place   int // -1: an observer, which has no server and asks none
	members []protocol.NodeID
	c       Config
	belief

	key struct { // of the server
		holder protocol.NodeID
		nonce  uint64 // 0: there is none
		until  protocol.Instant
	}
	trying bool
	nonce  uint64
	seq    uint64
	sent   protocol.Instant // when the last question was sent
	grants uint64           // a bit for each place
}

// NewRedlock returns a participant among members, or an error if c has a field that Redlock does not.
func NewRedlock(self protocol.NodeID, members []protocol.NodeID, c Config) (*Redlock, error) {
	c, err := c.WithDefaults()
	if err == nil && (c.Token || c.ClientClock) {
		err = errors.New("token and client_clock: Redlock has neither; leave them out")
	}
	return &Redlock{place: slices.Index(members, self), members: members, c: c}, err
}

// Drift is the drift of clocks that the algorithm assumes and subtracts.
func Drift() protocol.Drift { return protocol.Drift{PPM: 10_000, Guard: 2 * time.Millisecond} }

// Step implements [protocol.Machine].
func (m *Redlock) Step(in *protocol.Input, fx *protocol.Effects) {
	m.begin(in, fx)
	switch in.Kind {
	case protocol.Do:
		if m.do(&in.Command, fx) {
			m.release(fx)
		}
		if !m.held && !m.trying {
			m.due = m.now.Boot
		}
	case protocol.Receive:
		m.received(in.From, &in.Message, fx)
	}
	if m.due > m.now.Boot {
		return
	}
	m.due = protocol.Never
	switch {
	case m.held:
		m.ask(Extend, fx)
		m.due = m.now.Boot.Add(m.c.TTL / 3)
	case m.trying: // no majority in time
		m.release(fx)
		m.due = m.now.Boot.Add(m.c.retry() + time.Duration(in.Rand%uint64(2*m.c.retry())))
	case m.stands() && m.place >= 0:
		m.trying, m.nonce = true, in.Rand|1
		m.ask(Set, fx)
		m.due = m.now.Boot.Add(m.c.retry())
	}
}

// ask sends a request to all servers, and carries it out at its own.
func (m *Redlock) ask(what protocol.MessageType, fx *protocol.Effects) {
	m.seq++
	m.sent, m.grants = m.now.Boot, 0
	m.broadcast(protocol.Message{Type: what, Round: m.nonce, Seq: m.seq, Promise: m.c.TTL}, fx)
	m.count(m.place, m.serve(what, m.members[m.place], m.nonce, m.c.TTL), fx)
}

// release deletes the client's key at all servers.
func (m *Redlock) release(fx *protocol.Effects) {
	m.broadcast(protocol.Message{Type: Del, Round: m.nonce}, fx)
	m.serve(Del, m.members[m.place], m.nonce, 0)
	m.trying, m.nonce = false, 0
}

func (m *Redlock) broadcast(msg protocol.Message, fx *protocol.Effects) {
	for i, id := range m.members {
		if i != m.place {
			fx.Sends = append(fx.Sends, protocol.Send{To: id, Message: msg})
		}
	}
}

func (m *Redlock) received(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	if msg.Type == Reply {
		if msg.Round == m.nonce && msg.Seq == m.seq {
			m.count(slices.Index(m.members, from), msg.Granted, fx)
		}
		return
	}
	granted := m.serve(msg.Type, from, msg.Round, msg.Promise)
	if msg.Type != Del {
		fx.Sends = append(fx.Sends, protocol.Send{To: from, Message: protocol.Message{Type: Reply, Round: msg.Round, Seq: msg.Seq, Granted: granted}})
	}
}

// serve carries out a request at the server, and reports whether it granted the lock or its extension.
func (m *Redlock) serve(what protocol.MessageType, from protocol.NodeID, nonce uint64, ttl time.Duration) bool {
	k := &m.key
	if k.nonce != 0 && m.now.Boot >= k.until {
		k.nonce = 0
	}
	mine := k.nonce == nonce && k.holder == from
	switch {
	case what == Set && k.nonce == 0, what == Extend && k.nonce != 0 && mine:
		k.holder, k.nonce, k.until = from, nonce, m.now.Boot.Add(ttl)
		return true
	case what == Del && mine:
		k.nonce = 0
	}
	return false
}

// count counts a grant of the server at place, and leads at a majority.
func (m *Redlock) count(place int, granted bool, fx *protocol.Effects) {
	if !granted || place < 0 || !m.held && !(m.trying && m.stands()) {
		return
	}
	m.grants |= 1 << place
	if bits.OnesCount64(m.grants) != len(m.members)/2+1 {
		return
	}
	drift := Drift()
	m.lead(m.sent.Add(m.c.TTL-m.c.TTL/1_000_000*time.Duration(drift.PPM)-drift.Guard), 1, fx)
	if m.held {
		m.trying = false
		m.due = m.now.Boot.Add(m.c.TTL / 3)
	}
}

// AppendState implements [protocol.Machine].
func (m *Redlock) AppendState(dst []byte) []byte {
	c := protocol.Appending(dst)
	m.state(&c)
	return c.Appended()
}

// LoadState implements [protocol.Machine].
func (m *Redlock) LoadState(src []byte) error {
	c := protocol.Loading(src)
	m.state(&c)
	return c.Done("redlock: state")
}

func (m *Redlock) state(c *protocol.Coder) {
	m.belief.state(c)
	protocol.Strings(c, &m.key.holder)
	c.Uints(&m.key.nonce, &m.nonce, &m.seq, &m.grants)
	c.Instants(&m.key.until, &m.sent)
	c.Bools(&m.trying)
}
