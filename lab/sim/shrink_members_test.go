package sim_test

import (
	"maps"
	"testing"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// careless is a quorum machine whose leader makes every membership that it is asked for.
func careless(t *testing.T) *sim.Protocol {
	t.Helper()
	p := *byName(t, "quorum")
	p.Expect = maps.Clone(p.Expect)
	make_ := p.New
	p.New = func(q sim.Participant) (protocol.Machine, error) {
		m, err := make_(q)
		return &overbold{Machine: m}, err
	}
	return &p
}

// overbold shows the membership that it was last asked for, whatever its outcome.
type overbold struct {
	protocol.Machine
	asked *protocol.Membership
}

func (m *overbold) Step(in *protocol.Input, fx *protocol.Effects) {
	m.Machine.Step(in, fx)
	if in.Kind != protocol.Do || in.Command.Verb != protocol.Reconfigure {
		return
	}
	now, _ := m.inner().Membership()
	next := *in.Command.Membership
	next.ConfigTerm, next.Version = now.ConfigTerm, now.Version+1
	m.asked = &next
}

func (m *overbold) inner() protocol.Reconfigurable {
	r, _ := m.Machine.(protocol.Reconfigurable)
	return r
}

func (m *overbold) Membership() (*protocol.Membership, bool) {
	if m.asked != nil {
		return m.asked, false
	}
	return m.inner().Membership()
}

func (m *overbold) Objection(next *protocol.Membership) error { return m.inner().Objection(next) }

func (m *overbold) Members(dst []protocol.Member) []protocol.Member { return m.inner().Members(dst) }

// A forbidden reconfiguration is shrunk to itself: the spares that it does not name are removed,
// and so are the log, the priorities, and the other participants that were asked.
func TestShrinkMembers(t *testing.T) {
	p := careless(t)
	for seed := range uint64(20) {
		s, err := sim.Generate(p, seed+1, sim.Options{Profile: "members", Spares: 3})
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, p, s)
		if r.Violation == nil {
			continue
		}
		small, got, err := sim.Shrink(t.Context(), p, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Violation == nil || got.Violation.Invariant != r.Violation.Invariant || len(small.Ops) > 2 || small.Log != (sim.Log{}) || len(small.Config) > 0 {
			t.Errorf("seed %d: shrunk to %v\n%s", s.Seed, got.Violation, text(t, small))
		}
		if err := small.Validate(p); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("no seed violates anything")
}
