package lease

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// follow begins to wait, or to observe.
func (m *Machine) follow(now protocol.Instant, rand uint64) {
	m.stage, m.own, m.tried = watching, tenure{}, attempts{}
	m.claimEnd = protocol.Always
	if m.watch.number == 0 {
		m.watch.at, m.watch.pause = now, 0
	}
	m.assess(now, rand)
	if m.doubt || !m.seen.any {
		m.readAt = now
	}
}

// enter writes what the wait was for: the new record, or an acquisition.
func (m *Machine) enter(in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	switch {
	case !m.eligible():
		m.assess(now, in.Rand)
	case m.absent():
		m.create(in, fx)
	case !m.entitled(now):
		m.assess(now, in.Rand)
	default:
		m.acquire(in, fx)
	}
}

// nonce is 128 bits that no other attempt at a tenure has: half from the boot, half from this
// input. Within an incarnation nonces differ even if the inputs' random words do not.
func (m *Machine) nonce(in *protocol.Input) protocol.Nonce {
	return protocol.Nonce{m.seed + m.attempt, in.Rand}
}

// create is L5 for an absent record: it is made free and without a mark, so that no candidate takes
// it, its maker included, before the longest lease that may be left has passed. If it were made
// held, a request that was delayed beyond a deletion would lead beside the leader of that time.
func (m *Machine) create(in *protocol.Input, fx *protocol.Effects) {
	nonce := m.nonce(in)
	m.attempt++
	m.put(fx, create, 0, protocol.Record{
		Nonce: nonce, Count: m.top, Attempt: m.attempt, Duration: m.unknown(), Store: m.seen.store,
	})
}

// acquire tries for a tenure on the version that was seen.
func (m *Machine) acquire(in *protocol.Input, fx *protocol.Effects) {
	// L6. The mapping of a back end has already raised the record's count to the store's native
	// count (Kubernetes' transitions).
	count := max(m.top, m.seen.record.Count)
	if m.c.GlobalVersions {
		count = max(count, m.newest)
	}
	if count >= protocol.MaxCount {
		m.stage = halted
		m.fault = fmt.Sprintf("the record's count is %d, which leaves none for a token (at most %d): restore the record, or delete it and raise the era", count, uint64(protocol.MaxCount))
		return
	}
	again := m.isEnded() && m.c.mutants.Has("retake-without-count")
	if !again && !m.c.mutants.Has("count-reuse") {
		count++
	}
	m.own = tenure{
		nonce: m.nonce(in), count: count,
		version: m.seen.version, base: m.seen.record, store: m.seen.store,
	}
	m.tried = attempts{}
	m.stage, m.readAt = acquiring, protocol.Never
	m.renew(in.Now.Boot, fx)
}

// win is L7: the sending of the attempt that is known to have landed opens the term, if its claim
// has not passed. Otherwise the tenure is renewed under the same count, and that sending opens the
// term.
func (m *Machine) win(now, end protocol.Instant, fx *protocol.Effects) bool {
	if now >= end {
		if !m.c.mutants.Has("token-without-renewal") {
			return false
		}
		end = after(now, m.c.claim())
	}
	m.stage, m.claimEnd = holding, end
	m.yield = false
	m.ended = protocol.FreeMark{}
	fx.Orders = append(fx.Orders,
		protocol.Order{Kind: protocol.Elected, Token: m.own.count, Reason: Acquired},
		protocol.Order{Kind: protocol.Lead, Token: m.own.count, Reason: Acquired})
	return true
}

// abandon gives up an attempt at a tenure that failed. The record cannot show an attempt that was
// never written; it may show the one before.
func (m *Machine) abandon(now protocol.Instant, rand uint64) {
	if m.own.landed || m.tried.n > 0 {
		m.ended = protocol.FreeMark{Holder: m.c.Self, Nonce: m.own.nonce, Count: m.own.count}
	}
	m.follow(now, rand)
}
