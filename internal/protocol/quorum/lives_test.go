package quorum

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// TestAnswersToTheWiped: an answer on its way to a voter whose disk was wiped does not fit the
// voter that has taken its name. Answers name an incarnation and a round, and both begin anew with
// the directory.
func TestAnswersToTheWiped(t *testing.T) {
	ms := members(3)
	life := func(rand uint64) (m *Machine, incarnation uint64) {
		m, err := New(Config{Self: voter(0), Membership: ms})
		if err != nil {
			t.Fatal(err)
		}
		step(m, &protocol.Input{Kind: protocol.Boot, Now: at(time.Second), Rand: rand})
		step(m, &protocol.Input{Kind: protocol.Saved, Now: at(time.Second), Number: 1})
		step(m, &protocol.Input{Kind: protocol.Do, Now: at(time.Second), Command: protocol.Command{Verb: protocol.Campaign}})
		due := at(time.Duration(m.NextFire()))
		fx := step(m, &protocol.Input{Kind: protocol.Fire, Now: due})
		if m.role != protocol.PreCandidate || len(fx.Sends) == 0 {
			t.Fatalf("it does not ask whether it could win: %+v", fx)
		}
		return m, fx.Sends[0].Message.Incarnation
	}
	_, before := life(1 << 40)
	m, after := life(2 << 40)
	for _, c := range []struct {
		echo uint64
		want protocol.Role
	}{{before, protocol.PreCandidate}, {after, protocol.Candidate}} {
		in := from(1, PreVoteReply, ms, 0)
		in.Now, in.Message.Granted, in.Message.Round, in.Message.Echo = m.now, true, m.round.number, c.echo
		step(m, &in)
		if m.role != c.want {
			t.Errorf("with an answer to incarnation %d, its own being %d, it is a %v; want a %v", c.echo, after, m.role, c.want)
		}
	}
}
