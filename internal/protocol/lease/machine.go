package lease

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// stage is the stage of a participant in a tenure.
type stage uint8

const (
	down      stage = iota
	watching        // waits, or only observes
	acquiring       // has asked for a tenure; no term yet
	holding         // has a term
	fencing         // the term has ended, its work has not returned yet
	releasing       // the record may be held and is being released
	halted
)

// Machine is one participant. Make it with New; it is owned by one goroutine.
type Machine struct {
	c     Config
	stage stage
	fault string

	clock protocol.Reading // the anchor: the offset of all instants below
	seed  uint64           // drawn at boot: half of each nonce

	candidate bool // Campaign, Withdraw
	sick      bool // Sicken, Recover

	asked   uint64 // the number of the last ask
	attempt uint64 // the number of the last write
	flight  flight // the read or write that has no answer yet
	watch   watch

	seen    sight
	store   string            // the store's incarnation in the latest answer
	top     uint64            // the greatest count ever seen
	newest  uint64            // the greatest version ever seen
	floor   floor             // the latest record seen
	longest time.Duration     // the longest duration ever seen
	held    protocol.FreeMark // the holder with the greatest count ever seen
	lapsed  bool              // the record that was seen is known to have lapsed

	own   tenure            // acquiring to releasing
	tried attempts          // this tenure's writes that may have landed
	ended protocol.FreeMark // the last attempt at a tenure: no work runs under it
	yield bool              // that tenure was resigned: others go first

	doubt    bool // a write's outcome is not known: read before the next one
	readAt   protocol.Instant
	writeAt  protocol.Instant
	claimEnd protocol.Instant // holding, fencing: until when the tenure is proven

	wanted, confirmed uint64 // Confirm commands: given, answered
}

// flight is an ask without an answer. The zero flight is none.
type flight struct {
	number uint64
	kind   kind
	record protocol.Record // of a write
	floor  floor           // when it was sent
}

// kind is the purpose of an ask.
type kind uint8

const (
	_      kind = iota
	look        // a read
	create      // creates the record where there is none
	take        // a write of this tenure: acquires or renews
	free        // a release
)

// watch is the watch of the record; number is 0 when none is open.
type watch struct {
	number uint64
	at     protocol.Instant // when to open it
	pause  time.Duration    // the wait before it was opened the last time
}

// sight is the last version seen, and since when (L3).
type sight struct {
	any     bool
	version uint64 // 0: there is no record
	record  protocol.Record
	store   string // the incarnation of the store that showed it
	at      protocol.Instant
}

// tenure is this participant's attempt at one, and its outcome.
type tenure struct {
	nonce   protocol.Nonce
	count   uint64
	landed  bool            // the record is known to have been held
	gone    bool            // and is known to be held no more
	passed  bool            // before it landed, a count of another that is no less was seen
	version uint64          // what the next write replaces
	base    protocol.Record // until it landed: the record of that version
	store   string          // the store's incarnation that version is of
	stop    protocol.Reason // why the term ended
}

// New returns a machine, or an error if the configuration cannot hold.
func New(c Config) (*Machine, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	return &Machine{c: c, watch: watch{at: protocol.Never}, readAt: protocol.Never, writeAt: protocol.Never, claimEnd: protocol.Always}, nil
}

// Step implements [protocol.Machine].
func (m *Machine) Step(in *protocol.Input, fx *protocol.Effects) {
	switch m.stage {
	case halted:
		return
	case down:
		if in.Kind != protocol.Boot {
			return
		}
		m.boot(in)
	default:
		m.jump(in, fx)
		// Before the input: a late answer must not count (L8).
		late := m.c.mutants.Has("late-answer-revives")
		if !late {
			m.expire(in.Now.Boot, fx)
		}
		switch in.Kind {
		case protocol.Replied:
			m.replied(in, fx)
		case protocol.Do:
			m.do(in, fx)
		}
		if late {
			m.expire(in.Now.Boot, fx)
		}
	}
	m.act(in, fx)
}

// boot begins an incarnation. There is no durable state: a record with this participant's name
// counts as another's, because only the nonces of this incarnation are known (L5).
func (m *Machine) boot(in *protocol.Input) {
	m.stage = watching
	m.clock, m.seed = in.Now, in.Rand
	m.readAt, m.watch.at = in.Now.Boot, in.Now.Boot
}

// eligible reports whether the participant may stand for election.
func (m *Machine) eligible() bool { return m.candidate && !m.sick }

// jump is L8 for a machine that slept or whose clock was set: instants from before have no meaning
// any more.
func (m *Machine) jump(in *protocol.Input, fx *protocol.Effects) {
	if !in.Now.Jumped(m.clock) {
		return
	}
	m.clock = in.Now
	if m.c.mutants.Has("jump-ignored") {
		return
	}
	now := in.Now.Boot
	m.tried.void()
	switch m.stage {
	case holding:
		m.stop(ClockJump, fx)
	case fencing:
		m.claimEnd, m.writeAt = protocol.Always, protocol.Never
	case acquiring, releasing:
		m.retry(now)
	}
	// A wait that a clock jumped over did not take place.
	m.seen.at, m.lapsed = now, false
	if m.watch.number == 0 {
		m.watch.at = now
	}
	if m.stage == watching {
		m.assess(now, in.Rand)
		m.readAt = now
	} else if m.doubt && m.stage != fencing {
		m.readAt = now
	}
}

// retry makes the next write due.
func (m *Machine) retry(now protocol.Instant) {
	m.writeAt = now
	if m.doubt {
		m.readAt = now
	}
}

// act sends what is due. One read or write is in flight at a time (L2).
func (m *Machine) act(in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	if m.stage == watching {
		m.lapsed = m.seen.any && m.seen.record.Holder != "" && now >= m.lapse()
		if m.watch.number == 0 && now >= m.watch.at {
			m.watch.number = m.ask(fx, protocol.Ask{Op: protocol.Watch})
		}
	}
	if m.flight.number != 0 {
		return
	}
	write := !m.doubt && now >= m.writeAt
	switch {
	case now >= m.readAt && !(write && m.stage == watching):
		m.readAt = protocol.Never
		m.flight = flight{number: m.ask(fx, protocol.Ask{Op: protocol.Read}), kind: look, floor: m.floor}
	case write:
		m.writeAt = protocol.Never
		m.write(in, fx)
	}
}

// write sends the write that is due.
func (m *Machine) write(in *protocol.Input, fx *protocol.Effects) {
	switch m.stage {
	case watching:
		m.enter(in, fx)
	case acquiring, holding, fencing:
		m.renew(in.Now.Boot, fx)
	case releasing:
		m.setFree(fx)
	}
}

// ask numbers an ask and appends it.
func (m *Machine) ask(fx *protocol.Effects, a protocol.Ask) uint64 {
	m.asked++
	a.Number = m.asked
	fx.Asks = append(fx.Asks, a)
	return m.asked
}

// put sends a write, on the exact version that it replaces (L2). Each write has an attempt of its
// own, so that no two have the same content (L1).
func (m *Machine) put(fx *protocol.Effects, k kind, version uint64, r protocol.Record) {
	m.flight = flight{kind: k, record: r, floor: m.floor}
	m.flight.number = m.ask(fx, protocol.Ask{Op: protocol.Write, Version: version, Record: r})
}

// NextFire implements [protocol.Machine].
func (m *Machine) NextFire() protocol.Instant {
	next := protocol.Never
	switch m.stage {
	case down, halted:
		return next
	case watching:
		if m.watch.number == 0 {
			next = min(next, m.watch.at)
		}
		if m.seen.any && m.seen.record.Holder != "" && !m.lapsed {
			next = min(next, m.lapse())
		}
	case holding, fencing:
		if m.claimEnd != protocol.Always {
			next = min(next, m.claimEnd)
		}
	}
	if m.flight.number == 0 {
		next = min(next, m.readAt)
		if !m.doubt {
			next = min(next, m.writeAt)
		}
	}
	return next
}
