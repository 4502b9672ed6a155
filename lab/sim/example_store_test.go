package sim_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// borrower leads while it renews a record: a machine that has seen one version of it for lending
// may replace it. The point is how long a write lets it lead.
type borrower struct {
	self     protocol.NodeID
	mended   bool
	joining  bool             // its work has not returned
	writing  bool             // the present ask is a write
	asked    uint64           // the number of the present ask
	sent     protocol.Instant // when it was sent
	version  uint64           // of the record that was seen last,
	since    protocol.Instant // and when it was first seen
	count    uint64           // in it, and its writer and tenure
	nonce    uint64
	own      uint64 // nonce; 0: its writes are given up
	token    uint64 // 0: it does not lead
	end, due protocol.Instant
	base     protocol.Reading // differs from the clocks if they jumped
}

const lending = time.Second

func (m *borrower) Step(in *protocol.Input, fx *protocol.Effects) {
	now, a := in.Now.Boot, &in.Answer
	if in.Kind == protocol.Boot {
		m.base, m.due = in.Now, now
	}
	jumped := in.Now.Jumped(m.base)
	if jumped {
		m.base, m.since, m.due = in.Now, now, now
	}
	if jumped || m.token != 0 && now >= m.end || in.Kind == protocol.Do && in.Command.Verb == protocol.Resign {
		m.stop(fx)
	}
	switch {
	case in.Kind == protocol.Do && in.Command.Verb == protocol.Joined:
		m.joining = false
	case in.Kind == protocol.Fire && now >= m.due:
		m.ask(now, protocol.Ask{Op: protocol.Read}, fx)
	case in.Kind == protocol.Replied && a.Number == m.asked:
		m.due = now.Add(lending / 8)
		if a.Status != protocol.StatusDone {
			return // the next read tells whether it was written
		}
		if a.Version != m.version {
			m.version, m.count, m.nonce, m.since = a.Version, a.Record.Count, a.Record.Nonce[0], now
		}
		switch mine := m.token != 0 && m.nonce == m.own; {
		case m.writing && m.nonce == m.own:
			m.lead(now, fx)
		case m.writing: // it has stopped since
		case !mine && m.token != 0:
			m.stop(fx)
		case mine:
			m.write(now, m.count, a.Record.Attempt+1, fx)
		case !m.joining && (m.version == 0 || now >= m.since.Add(lending)):
			m.own = in.Rand
			m.write(now, m.count+1, 0, fx)
		}
	}
}

func (m *borrower) write(now protocol.Instant, count, attempt uint64, fx *protocol.Effects) {
	r := protocol.Record{Holder: m.self, Nonce: protocol.Nonce{m.own}, Count: count, Attempt: attempt}
	m.ask(now, protocol.Ask{Op: protocol.Write, Version: m.version, Record: r}, fx)
}

func (m *borrower) ask(now protocol.Instant, a protocol.Ask, fx *protocol.Effects) {
	m.asked++
	a.Number = m.asked
	m.writing, m.sent, m.due = a.Op == protocol.Write, now, protocol.Never
	fx.Asks = append(fx.Asks, a)
}

// lead is where the others' clocks count: they may have seen the record as soon as the request
// left, and may run faster than this one.
func (m *borrower) lead(now protocol.Instant, fx *protocol.Effects) {
	end := now.Add(lending)
	if m.mended {
		end = m.sent.Add(protocol.DefaultDrift().Claim(lending))
	}
	if end <= now {
		return
	}
	if m.end = end; m.token == 0 {
		m.token = m.count
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: m.token}, protocol.Order{Kind: protocol.Lead, Token: m.token})
	}
}

func (m *borrower) stop(fx *protocol.Effects) {
	m.own = 0
	if m.token != 0 {
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.token})
		m.token, m.joining = 0, true
	}
}

func (m *borrower) NextFire() protocol.Instant {
	if m.token != 0 {
		return min(m.due, m.end)
	}
	return m.due
}

func (m *borrower) View() protocol.View {
	if m.token == 0 {
		return protocol.View{Role: protocol.Follower}
	}
	return protocol.View{Role: protocol.Leader, Token: m.token, Elected: true, Active: true, LeaseEnd: m.end, Read: m.base}
}

func (m *borrower) AppendState(dst []byte) []byte {
	state, _ := json.Marshal([]any{m.joining, m.writing, m.asked, m.sent, m.version, m.since, m.count, m.nonce, m.own, m.token, m.end, m.due, m.base})
	return append(dst, state...)
}

func (m *borrower) LoadState(src []byte) error {
	return json.Unmarshal(src, &[]any{&m.joining, &m.writing, &m.asked, &m.sent, &m.version, &m.since, &m.count, &m.nonce, &m.own, &m.token, &m.end, &m.due, &m.base})
}

// A machine over a store sends asks, and may be answered late, twice or not at all. Here a machine
// counts its lease from the answer, by its own clock: two leases are proven at one time. Counted
// from before the request left, and shortened by the drift of clocks, the lease is exclusive.
func Example_store() {
	for _, mended := range []bool{false, true} {
		p := &sim.Protocol{
			Name:  "borrower",
			Store: sim.StoreRegister,
			New: func(p sim.Participant) (protocol.Machine, error) {
				return &borrower{self: p.Self.ID, mended: mended}, nil
			},
			Patience: func(json.RawMessage) (time.Duration, error) { return 2 * lending, nil },
			Drift:    func(json.RawMessage) (protocol.Drift, error) { return protocol.DefaultDrift(), nil },
			Breaks:   func(json.RawMessage) ([]sim.OpKind, error) { return []sim.OpKind{sim.OpForeign}, nil },
		}
		found := map[sim.Invariant]bool{}
		for seed := range uint64(30) {
			s, err := sim.Generate(p, seed, sim.Options{Nodes: 3})
			if err != nil {
				fmt.Println(err)
				return
			}
			w, err := sim.New(p, s)
			if err != nil {
				fmt.Println(err)
				return
			}
			if w.Run(); w.Result().Violation != nil {
				found[w.Result().Violation.Invariant] = true
			}
		}
		fmt.Printf("mended %t: two leases at once %t, anything %t\n", mended, found[sim.Exclusive], len(found) > 0)
	}
	// Output:
	// mended false: two leases at once true, anything true
	// mended true: two leases at once false, anything false
}
