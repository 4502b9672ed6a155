package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// pulse is a machine that sends a message to all others every millisecond, saves from time to time,
// and adds all its inputs to its state, so that any difference of a run changes the hash.
type pulse struct {
	self        protocol.Voter
	members     *protocol.Membership
	incarnation uint64
	number      uint64 // of the last save
	durable     uint64
	seq         uint64
	fold        uint64
	next        protocol.Instant
}

const pulseEvery = time.Millisecond

func newPulse(p Participant) (protocol.Machine, error) {
	return &pulse{self: p.Self, members: p.Membership, next: protocol.Never}, nil
}

func (m *pulse) Step(in *protocol.Input, fx *protocol.Effects) {
	m.fold = mix(m.fold ^ uint64(in.Kind) ^ uint64(in.Now.Boot)<<4 ^ uint64(in.Now.Mono)<<20 ^ in.Rand ^ in.Number ^ in.Message.Seq<<32 ^ in.Incarnation<<40)
	switch in.Kind {
	case protocol.Boot:
		if len(in.Durable) >= 8 {
			m.incarnation = protocol.NewDecoder(in.Durable[:8]).Uint()
		}
		m.incarnation++
		m.next = in.Now.Boot.Add(pulseEvery)
		m.save(fx)
	case protocol.Saved:
		if !in.Failed {
			m.durable = in.Number
		}
	case protocol.Fire:
		if in.Now.Boot < m.next {
			return
		}
		m.next = in.Now.Boot.Add(pulseEvery)
		m.seq++
		after := uint64(0)
		if m.durable == 0 {
			after = 1
		}
		if m.seq%8 == 0 {
			m.save(fx)
			after = m.number
		}
		for i := range m.members.Voters {
			m.send(m.members.Voters[i].ID, after, fx)
		}
		for _, id := range m.members.Observers {
			m.send(id, after, fx)
		}
	}
}

func (m *pulse) send(to protocol.NodeID, after uint64, fx *protocol.Effects) {
	if to != m.self.ID {
		fx.Sends = append(fx.Sends, protocol.Send{To: to, After: after, Message: protocol.Message{
			Type: "pulse", Dir: m.self.Dir, Incarnation: m.incarnation, Seq: m.seq,
		}})
	}
}

func (m *pulse) save(fx *protocol.Effects) {
	m.number++
	fx.Save(m.number, m.encode)
}

func (m *pulse) encode(dst []byte) []byte {
	return protocol.AppendUint(protocol.AppendUint(dst, m.incarnation), m.seq)
}

func (m *pulse) NextFire() protocol.Instant { return m.next }

func (m *pulse) View() protocol.View {
	return protocol.View{Role: protocol.Follower, Term: m.fold >> 16}
}

func (m *pulse) AppendState(dst []byte) []byte {
	for _, v := range [...]uint64{m.incarnation, m.number, m.durable, m.seq, m.fold, uint64(m.next)} {
		dst = protocol.AppendUint(dst, v)
	}
	return dst
}

func (m *pulse) LoadState(src []byte) error {
	d := protocol.NewDecoder(src)
	m.incarnation, m.number, m.durable, m.seq, m.fold, m.next = d.Uint(), d.Uint(), d.Uint(), d.Uint(), d.Uint(), d.Instant()
	return d.Done()
}

func pulses() *Protocol {
	return &Protocol{
		Name: "pulse", New: newPulse,
		Incarnation: func(data []byte) (uint64, error) {
			d := protocol.NewDecoder(data)
			k, _ := d.Uint(), d.Uint()
			return k, d.Done()
		},
		Death: func(of protocol.Voter, incarnation uint64) protocol.Message {
			return protocol.Message{Type: "death", Dir: of.Dir, Echo: incarnation}
		},
		Patience: func(json.RawMessage) (time.Duration, error) { return 100 * time.Millisecond, nil },
		Drift:    func(json.RawMessage) (protocol.Drift, error) { return protocol.DefaultDrift(), nil },
	}
}

// still is a world without chance.
func still(nodes int, ops ...Op) *Schedule {
	return &Schedule{
		Format: 1, Protocol: "pulse", Seed: 1, Nodes: nodes, Faults: 100 * time.Millisecond,
		Links: LinkNoise{Delay: 100 * time.Microsecond}, Disks: DiskNoise{Sync: 300 * time.Microsecond}, Ops: ops,
	}
}

// diary records what a test needs of a run.
type diary struct {
	t     *testing.T
	w     *World
	lines []line
}

type line struct {
	kind    RecordKind
	input   protocol.InputKind
	at      Time
	node    protocol.NodeID
	index   int
	life    uint32
	reading protocol.Reading
	from    protocol.NodeID
	message protocol.Message
	number  uint64
	failed  bool
	closed  uint64
	verb    protocol.Verb
	durable []byte
	sends   int
	dir     protocol.DirID
	says    string
	count   uint64
	record  uint64
	cause   uint64
}

func (d *diary) Event(_ *World, r *Record) {
	l := line{
		kind: r.Kind, at: r.At, node: r.Node, index: r.Index, life: r.Life, reading: r.Reading, says: r.Says, count: r.Count,
		record: r.Number, cause: r.Cause,
	}
	if r.Input != nil {
		l.input, l.from, l.message, l.number, l.failed = r.Input.Kind, r.Input.From, r.Input.Message, r.Input.Number, r.Input.Failed
		l.closed, l.verb, l.durable, l.sends = r.Input.Incarnation, r.Input.Command.Verb, bytes.Clone(r.Input.Durable), len(r.Effects.Sends)
	}
	if r.Message != nil {
		l.message = *r.Message
	}
	if r.Made != nil {
		l.dir = r.Made.Self.Dir
	}
	d.lines = append(d.lines, l)
}

// live runs a schedule to its end.
func live(t *testing.T, s *Schedule) *diary {
	t.Helper()
	d := begun(t, s)
	d.w.Run()
	if v := d.w.Result().Violation; v != nil {
		t.Fatal(v)
	}
	return d
}

func begun(t *testing.T, s *Schedule) *diary {
	t.Helper()
	return opened(t, pulses(), s)
}

// recorded runs it to its end, with any outcome.
func recorded(t *testing.T, p *Protocol, s *Schedule) *diary {
	t.Helper()
	d := opened(t, p, s)
	d.w.Run()
	return d
}

func opened(t *testing.T, p *Protocol, s *Schedule) *diary {
	t.Helper()
	w, err := New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	d := &diary{t: t, w: w}
	w.Trace(d)
	return d
}

// all returns the lines that fit.
func (d *diary) all(fits func(l *line) bool) []line {
	var found []line
	for i := range d.lines {
		if fits(&d.lines[i]) {
			found = append(found, d.lines[i])
		}
	}
	return found
}

// steps are the inputs of a kind at a participant, without its twins.
func (d *diary) steps(node protocol.NodeID, kind protocol.InputKind) []line {
	return d.all(func(l *line) bool {
		return l.kind == RecordStep && l.node == node && l.index < d.w.width && l.input == kind
	})
}

// heard are the times at which to receives a pulse from from, within a span.
func (d *diary) heard(from, to protocol.NodeID, since, until Time) []line {
	return d.all(func(l *line) bool {
		return l.kind == RecordStep && l.input == protocol.Receive && l.node == to && l.from == from && l.at >= since && l.at <= until
	})
}

// hears checks which participants hear each other in a span.
func (d *diary) hears(since, until Time, want func(from, to int) bool) {
	d.t.Helper()
	for from := range d.w.width {
		for to := range d.w.width {
			if from == to {
				continue
			}
			a, b := d.w.nodes[from].id, d.w.nodes[to].id
			if got := len(d.heard(a, b, since, until)) > 0; got != want(from, to) {
				d.t.Errorf("%s to %s: %s hears %s: %t, want %t", since, until, b, a, got, want(from, to))
			}
		}
	}
}

func everybody(int, int) bool { return true }

// at is a time in milliseconds.
func at(millis float64) Time { return Time(math.Round(millis * 1e6)) }

func (l line) String() string {
	return fmt.Sprintf("%s %s %s/%d %s from %s #%d", l.at, l.kind, l.node, l.life, l.input, l.from, l.message.Seq)
}

// busy is a world with all noise and many faults.
func troubled(seed uint64) *Schedule {
	s := still(5)
	s.Seed, s.Observers, s.Faults, s.Settle = seed, 1, 2*time.Second, 100*time.Millisecond
	s.Links = LinkNoise{
		Delay: 100 * time.Microsecond, Jitter: 300 * time.Microsecond, Tail: 0.01, Loss: 0.05, Duplicate: 0.05, Reorder: seed%2 == 0, Bandwidth: 20_000,
	}
	s.Disks = DiskNoise{Sync: 300 * time.Microsecond, Jitter: 500 * time.Microsecond, Tail: 0.05}
	s.Core = []protocol.NodeID{"n1", "n3", "n4"}
	for i := range 6 {
		s.Clocks = append(s.Clocks, ClockSpec{Rate: int64(i*10_000 - 20_000), Zero: time.Duration(i) * time.Hour})
	}
	r := (&World{schedule: s}).stream("test")
	kinds := []OpKind{}
	for _, f := range Faults() {
		if !f.Kind.stores() && !f.Kind.elects() {
			kinds = append(kinds, f.Kind)
		}
	}
	id := func() protocol.NodeID { return protocol.NodeID(fmt.Sprintf("n%d", 1+r.Uint64()%5)) }
	for range 200 {
		op := Op{
			At: Time(r.Uint64() % uint64(s.Faults)), Kind: kinds[r.Uint64()%uint64(len(kinds))], Node: id(), Peer: id(), Group: []protocol.NodeID{"n1", "n4"},
			For: time.Duration(r.Uint64() % 100e6), Every: 5 * time.Millisecond, By: time.Duration(r.Uint64() % 10e6), Count: int(r.Uint64() % 10),
		}
		switch op.Kind {
		case OpRate:
			op.Value = float64(r.Uint64()%100_000) - 50_000
		default:
			op.Value = r.Float64()
		}
		s.Ops = append(s.Ops, op)
	}
	slices.SortFunc(s.Ops, func(a, b Op) int { return int(a.At - b.At) })
	return s
}
