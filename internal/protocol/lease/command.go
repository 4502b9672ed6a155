package lease

import "github.com/electd/elect/internal/protocol"

// do carries out a command.
func (m *Machine) do(in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	switch in.Command.Verb {
	case protocol.Campaign:
		m.candidate = true
		m.reconsider(in)
	case protocol.Recover:
		m.sick = false
		m.reconsider(in)
	case protocol.Withdraw:
		m.candidate = false
		m.giveUp(Withdrawn, in, fx)
	case protocol.Sicken:
		m.sick = true
		m.giveUp(Unhealthy, in, fx)
	case protocol.Resign:
		if m.stage == holding {
			m.stop(Resigned, fx)
			m.freeEarly(now)
		}
	case protocol.Joined:
		m.joined(in.Command.Token, in)
	case protocol.Confirm:
		m.wanted++
		if m.stage == holding {
			m.writeAt = now
		}
	}
}

// reconsider acts when this participant may have become eligible.
func (m *Machine) reconsider(in *protocol.Input) {
	if m.stage == watching && m.eligible() && m.seen.any {
		read := m.readAt
		m.assess(in.Now.Boot, in.Rand)
		m.readAt = min(m.readAt, read)
	}
}

// giveUp acts when this participant must not lead any more.
func (m *Machine) giveUp(why protocol.Reason, in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	switch m.stage {
	case watching:
		m.writeAt = protocol.Never
		if m.readAt == protocol.Never && m.flight.number == 0 {
			m.poll(now, in.Rand)
		}
	case acquiring:
		if m.own.landed || m.tried.n > 0 {
			m.release(now)
		} else {
			m.abandon(now, in.Rand) // nothing was written
		}
	case holding:
		m.stop(why, fx)
		m.freeEarly(now)
	}
}

// freeEarly is a mutant: it does not wait for the work.
func (m *Machine) freeEarly(now protocol.Instant) {
	if m.c.mutants.Has("release-before-join") {
		m.release(now)
	}
}
