package sim_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// naive elects by silence: a participant that has heard none with a lower number for a while leads.
// Each field adds an error.
type naive struct {
	index int
	// gaps: it panics when a heartbeat is missing. sulks: a participant that has resigned never
	// leads again, and goes on sending heartbeats.
	gaps, sulks, observer bool

	now    protocol.Reading
	next   protocol.Instant // the next heartbeat
	heard  protocol.Instant
	seqs   [9]uint64
	seq    uint64
	view   protocol.View
	sulked bool
}

const (
	naiveBeat    = 100 * time.Millisecond
	naiveSilence = 400 * time.Millisecond
)

func naiveProtocol(m naive) *sim.Protocol {
	return &sim.Protocol{
		Name: "naive",
		New: func(p sim.Participant) (protocol.Machine, error) {
			c := m
			c.index, c.view, c.observer = p.Index, protocol.View{Role: protocol.Follower}, p.Observer
			return &c, nil
		},
		Patience: func(json.RawMessage) (time.Duration, error) { return time.Second, nil },
		Drift:    func(json.RawMessage) (protocol.Drift, error) { return protocol.DefaultDrift(), nil },
		Expect:   map[sim.Invariant]sim.Expectation{sim.TokensRise: sim.MayFail, sim.Once: sim.MayFail, sim.OneLeader: sim.MayFail},
	}
}

func (m *naive) Step(in *protocol.Input, fx *protocol.Effects) {
	m.now = in.Now
	switch in.Kind {
	case protocol.Boot:
		m.next, m.heard = in.Now.Boot, in.Now.Boot
	case protocol.Receive:
		from := int(in.From[1] - '1') // only voters send
		if was := m.seqs[from]; m.gaps && was > 0 && in.Message.Seq > was+1 {
			panic("a heartbeat is missing")
		}
		m.seqs[from] = in.Message.Seq
		if from < m.index {
			m.heard = in.Now.Boot
			m.stop(fx)
		}
	case protocol.Do:
		if in.Command.Verb == protocol.Resign && m.sulks && m.view.Elected {
			m.sulked = true
			m.stop(fx)
		}
	}
	if in.Now.Boot >= m.next && !m.observer {
		m.seq++
		for i := range 9 {
			if i != m.index {
				fx.Sends = append(fx.Sends, protocol.Send{To: protocol.NodeID([]byte{'n', byte('1' + i)}), Message: protocol.Message{Type: "heartbeat", Seq: m.seq}})
			}
		}
		m.next = in.Now.Boot.Add(naiveBeat)
	}
	if !m.view.Elected && !m.sulked && !m.observer && in.Now.Boot >= m.heard.Add(naiveSilence) {
		token := uint64(in.Now.Boot) + 1
		m.view.Role, m.view.Token, m.view.Elected, m.view.Active = protocol.Leader, token, true, true
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: token}, protocol.Order{Kind: protocol.Lead, Token: token})
	}
	if m.view.Active {
		m.view.LeaseEnd, m.view.Read = in.Now.Boot.Add(10*naiveBeat), in.Now
	}
}

func (m *naive) stop(fx *protocol.Effects) {
	if m.view.Elected {
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.view.Token})
		m.view = protocol.View{Role: protocol.Follower}
	}
}

func (m *naive) NextFire() protocol.Instant {
	if !m.view.Elected && !m.sulked && !m.observer {
		return min(m.next, max(m.heard.Add(naiveSilence), m.now.Boot+1))
	}
	if m.observer {
		return protocol.Never
	}
	return m.next
}

func (m *naive) View() protocol.View           { return m.view }
func (m *naive) AppendState(dst []byte) []byte { return dst }
func (m *naive) LoadState([]byte) error        { return nil }

// violated draws schedules until one violates inv.
func violated(t *testing.T, p *sim.Protocol, inv sim.Invariant, o sim.Options) *sim.Schedule {
	t.Helper()
	for seed := range uint64(200) {
		s, err := sim.Generate(p, seed+10, o)
		if err != nil {
			t.Fatal(err)
		}
		if r := run(t, p, s); r.Violation != nil && r.Violation.Invariant == inv {
			return s
		}
	}
	t.Fatalf("no schedule violates %s", inv)
	return nil
}

func shrunk(t *testing.T, p *sim.Protocol, s *sim.Schedule) (*sim.Schedule, *sim.Result) {
	t.Helper()
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	small, r, err := sim.Shrink(t.Context(), p, s, func(step sim.ShrinkStep) {
		if step.Runs < runs || step.Did == "" {
			t.Errorf("step %+v after %d runs", step, runs)
		}
		runs = step.Runs
	})
	if err != nil {
		t.Fatal(err)
	}
	if after, err := json.Marshal(s); err != nil || string(after) != string(before) {
		t.Errorf("the schedule itself was changed, %v", err)
	}
	if r.Violation == nil {
		t.Fatal("what is left violates nothing")
	}
	if runs == 0 || runs > sim.ShrinkRuns {
		t.Errorf("%d runs; want 1 to %d", runs, sim.ShrinkRuns)
	}
	return small, r
}

func text(t *testing.T, s *sim.Schedule) string {
	t.Helper()
	out, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A cut makes a second leader. All other operations of the swarm are removed.
func TestShrink(t *testing.T) {
	p := naiveProtocol(naive{})
	s := violated(t, p, sim.Exclusive, sim.Options{Nodes: 5, Observers: 1, Profile: "partitions"})
	small, r := shrunk(t, p, s)
	if r.Violation.Invariant != sim.Exclusive {
		t.Errorf("it violates %s; want %s", r.Violation.Invariant, sim.Exclusive)
	}
	if len(small.Ops) > 1 || small.Nodes > 2 || small.Observers > 0 || small.Settle > 0 || small.Faults > 3*time.Second ||
		small.Links.Jitter != 0 || len(small.Clocks) > 0 || small.Work.Every != 0 {
		t.Errorf("of %d operations this is left:\n%s", len(s.Ops), text(t, small))
	}
	again, _ := shrunk(t, p, s)
	if text(t, again) != text(t, small) {
		t.Errorf("shrunk again it is another:\n%s\nand\n%s", text(t, again), text(t, small))
	}
}

// A message that was lost by chance becomes an operation that drops it.
func TestShrinkToDrops(t *testing.T) {
	p := naiveProtocol(naive{gaps: true})
	s := &sim.Schedule{
		Format: 1, Protocol: "naive", Seed: 7, Nodes: 3, Faults: 20 * time.Second,
		Links: sim.LinkNoise{Delay: time.Millisecond, Loss: 0.02},
		Ops:   []sim.Op{},
	}
	small, r := shrunk(t, p, s)
	if small.Links.Loss != 0 || len(small.Ops) != 1 || small.Ops[0].Kind != sim.OpDrop || small.Ops[0].Count < 2 || small.Nodes > 3 {
		t.Errorf("left is:\n%s", text(t, small))
	}
	if r.Violation.Invariant != sim.NoPanic {
		t.Errorf("it violates %s", r.Violation.Invariant)
	}
}

// A violation in the healed world remains in a shorter one.
func TestShrinkLiveness(t *testing.T) {
	p := naiveProtocol(naive{sulks: true})
	for _, inv := range []sim.Invariant{sim.Exclusive, sim.NoStale, sim.NoneOffered} {
		p.Expect[inv] = sim.MayFail
	}
	s := violated(t, p, sim.Live, sim.Options{Profile: "operators"})
	small, r := shrunk(t, p, s)
	if r.Violation.Invariant != sim.Live || small.Settle != sim.LeastSettle(time.Second) || small.Faults > 10*time.Second {
		t.Errorf("%v, of:\n%s", r.Violation, text(t, small))
	}
	if len(small.Ops) != 1 || small.Ops[0].Kind != sim.OpResign && small.Ops[0].Kind != sim.OpWithdraw {
		t.Errorf("left is:\n%s", text(t, small))
	}
}

func TestShrinkEnds(t *testing.T) {
	p := naiveProtocol(naive{})
	s := violated(t, p, sim.Exclusive, sim.Options{Profile: "partitions"})
	ctx, stop := context.WithCancel(t.Context())
	steps := 0
	small, r, err := sim.Shrink(ctx, p, s, func(sim.ShrinkStep) {
		if steps++; steps == 2 {
			stop()
		}
	})
	if err != nil || r.Violation == nil || steps != 2 {
		t.Fatalf("after %d steps: %v, %v; want 2 and a violation", steps, r, err)
	}
	if len(small.Ops) > len(s.Ops) || slices.Equal([]string{text(t, small)}, []string{text(t, s)}) {
		t.Error("nothing was shrunk in two steps")
	}

	s.Ops, s.Links.Loss = []sim.Op{}, 0
	s.Faults, s.Settle = time.Millisecond, 0
	if _, _, err := sim.Shrink(t.Context(), p, s, nil); err == nil {
		t.Error("a schedule that violates nothing was shrunk")
	}
	s.Format = 9
	if _, _, err := sim.Shrink(t.Context(), p, s, nil); err == nil {
		t.Error("a schedule of another format was shrunk")
	}
}
