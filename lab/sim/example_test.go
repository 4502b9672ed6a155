package sim_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// hasty is a broken election: a participant that has not heard of a leader for a while declares
// itself the leader, and tells all others.
type hasty struct {
	self   protocol.NodeID
	peers  []protocol.Voter
	term   uint64
	leader protocol.NodeID
	next   protocol.Instant
}

const (
	hastyBeat    = 100 * time.Millisecond
	hastyTimeout = 300 * time.Millisecond
)

func (m *hasty) Step(in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	switch in.Kind {
	case protocol.Boot:
		m.next = now.Add(hastyTimeout + time.Duration(in.Rand%uint64(hastyTimeout)))
	case protocol.Receive:
		if in.Message.Term < m.term {
			break
		}
		if m.leader == m.self {
			fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.term})
		}
		m.term, m.leader = in.Message.Term, in.From
		m.next = now.Add(hastyTimeout)
	case protocol.Fire:
		if now < m.next {
			break
		}
		if m.leader != m.self {
			m.term, m.leader = m.term+1, m.self
			fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: m.term})
		}
		for _, p := range m.peers {
			if p.ID != m.self {
				fx.Sends = append(fx.Sends, protocol.Send{To: p.ID, Message: protocol.Message{Type: "i-lead", Term: m.term}})
			}
		}
		m.next = now.Add(hastyBeat)
	}
}

func (m *hasty) NextFire() protocol.Instant { return m.next }

func (m *hasty) View() protocol.View {
	v := protocol.View{Role: protocol.Follower, Term: m.term, Leader: protocol.Leadership{ID: m.leader, Term: m.term}}
	if m.leader == m.self {
		v.Role, v.Token, v.Elected = protocol.Leader, m.term, true
	}
	return v
}

func (m *hasty) AppendState(dst []byte) []byte {
	return protocol.AppendInstant(protocol.AppendString(protocol.AppendUint(dst, m.term), m.leader), m.next)
}

func (m *hasty) LoadState(src []byte) error {
	d := protocol.NewDecoder(src)
	m.term, m.leader, m.next = d.Uint(), protocol.NodeID(d.String()), d.Instant()
	return d.Done()
}

// A machine of your own needs a Protocol that makes it and states its patience. Then the world can
// search for a seed that breaks it.
func Example() {
	p := &sim.Protocol{
		Name: "hasty",
		New: func(p sim.Participant) (protocol.Machine, error) {
			return &hasty{self: p.Self.ID, peers: p.Membership.Voters}, nil
		},
		Patience:  func(json.RawMessage) (time.Duration, error) { return time.Second, nil },
		Drift:     func(json.RawMessage) (protocol.Drift, error) { return protocol.DefaultDrift(), nil },
		Leaseless: true,                                                          // it elects, and proves nothing
		Expect:    map[sim.Invariant]sim.Expectation{sim.Exclusive: sim.MayFail}, // with two terms two may lead
	}
	for seed := range uint64(100) {
		s, err := sim.Generate(p, seed, sim.Options{Nodes: 3, Profile: "partitions"})
		if err != nil {
			fmt.Println(err)
			return
		}
		w, err := sim.New(p, s)
		if err != nil {
			fmt.Println(err)
			return
		}
		w.Run()
		if v := w.Result().Violation; v != nil {
			fmt.Println("two were elected in one term:", v.Invariant == sim.OneLeader)
			return
		}
	}
	fmt.Println("it holds")
	// Output: two were elected in one term: true
}
