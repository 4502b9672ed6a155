package sim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

const ms = time.Millisecond

// act is what an actor does when its boot clock shows at.
type act struct {
	at     time.Duration
	orders []protocol.Order
	view   protocol.View
	saves  [][]byte // each before the sends
	sends  []protocol.Send
	asks   []protocol.Ask
	// From now on its machine has this membership, if not nil.
	members *protocol.Membership
	settled bool
}

// actor is a machine that follows a script, right or wrong.
type actor struct {
	acts  []act
	next  uint64
	saves uint64
	asks  uint64
	view  protocol.View
	now   act // the last membership that it was given
}

// Membership and what follows implement [protocol.Reconfigurable].
func (m *actor) Membership() (*protocol.Membership, bool)        { return m.now.members, m.now.settled }
func (m *actor) Objection(*protocol.Membership) error            { return nil }
func (m *actor) Members(dst []protocol.Member) []protocol.Member { return dst }

func newActor(acts []act) *actor { return &actor{acts: acts, view: protocol.View{Role: protocol.Down}} }

func (m *actor) Step(in *protocol.Input, fx *protocol.Effects) {
	if in.Kind == protocol.Boot {
		m.view.Role = protocol.Follower
		for m.next < uint64(len(m.acts)) && protocol.Instant(m.acts[m.next].at) < in.Now.Boot {
			m.next++
		}
		return
	}
	for m.next < uint64(len(m.acts)) && protocol.Instant(m.acts[m.next].at) <= in.Now.Boot {
		a := &m.acts[m.next]
		m.next++
		m.view = a.view
		if a.members != nil {
			m.now = *a
		}
		if m.view.Active {
			m.view.Read = in.Now
		}
		fx.Orders = append(fx.Orders, a.orders...)
		for _, data := range a.saves {
			m.saves++
			fx.Save(m.saves, func(dst []byte) []byte { return append(dst, data...) })
		}
		fx.Sends = append(fx.Sends, a.sends...)
		for _, q := range a.asks {
			m.asks++
			q.Number = m.asks
			fx.Asks = append(fx.Asks, q)
		}
	}
}

func (m *actor) NextFire() protocol.Instant {
	if m.next < uint64(len(m.acts)) {
		return protocol.Instant(m.acts[m.next].at)
	}
	return protocol.Never
}

func (m *actor) View() protocol.View { return m.view }

func (m *actor) AppendState(dst []byte) []byte {
	dst = protocol.AppendUint(protocol.AppendUint(protocol.AppendUint(dst, m.next), m.saves), m.asks)
	v, err := json.Marshal(m.view)
	if err != nil {
		panic(err)
	}
	return protocol.AppendString(dst, v)
}

func (m *actor) LoadState(src []byte) error {
	d := protocol.NewDecoder(src)
	m.next, m.saves, m.asks = d.Uint(), d.Uint(), d.Uint()
	for i := range m.acts[:m.next] {
		if m.acts[i].members != nil {
			m.now = m.acts[i]
		}
	}
	v := d.Bytes()
	m.view = protocol.View{}
	if err := json.Unmarshal(v, &m.view); err != nil {
		return err
	}
	return d.Done()
}

// voteData and the following functions make the actors' durable state and messages.
func voteData(term uint64, v protocol.Voter) []byte {
	return protocol.AppendVoter(binary.BigEndian.AppendUint64(nil, term), v)
}

func grant(to protocol.NodeID, term uint64) protocol.Send {
	return protocol.Send{To: to, Message: protocol.Message{Type: "grant", Term: term}}
}

// stageOf is a world with actors in it.
func stageOf(scripts ...[]act) (*Protocol, *Schedule) {
	p := &Protocol{
		Name: "scripted",
		New: func(q Participant) (protocol.Machine, error) {
			if q.Index >= len(scripts) {
				return newActor(nil), nil
			}
			return newActor(scripts[q.Index]), nil
		},
		Patience: func(json.RawMessage) (time.Duration, error) { return 100 * ms, nil },
		Drift:    func(json.RawMessage) (protocol.Drift, error) { return protocol.DefaultDrift(), nil },
		Grants: func(m *protocol.Message) (uint64, bool) {
			return m.Term, m.Type == "grant"
		},
	}
	s := &Schedule{
		Format: 1, Protocol: "scripted", Seed: 1, Nodes: 3, Faults: time.Second,
		Links: LinkNoise{Delay: ms}, Disks: DiskNoise{Sync: ms},
		Work: Work{Every: 10 * ms, Drain: 5 * ms}, Ops: []Op{},
	}
	return p, s
}

// voting gives the actors durable votes.
func voting(p *Protocol) {
	p.Vote = func(data []byte) (Vote, error) {
		d := protocol.NewDecoder(data)
		v := Vote{Term: d.Uint(), For: d.Voter()}
		return v, d.Done()
	}
}

func play(t *testing.T, p *Protocol, s *Schedule) *World {
	t.Helper()
	w, err := New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	w.Run()
	return w
}

// wants runs the schedule and expects that violation; "" is none.
func wants(t *testing.T, p *Protocol, s *Schedule, inv Invariant, says ...string) *World {
	t.Helper()
	w := play(t, p, s)
	v := w.Result().Violation
	switch {
	case v == nil && inv == "":
	case v == nil:
		t.Fatalf("no violation; want %s", inv)
	case v.Invariant != inv:
		t.Fatalf("%s at %v: %s; want %q", v.Invariant, time.Duration(v.At), v.Says, inv)
	default:
		for _, part := range says {
			if !strings.Contains(v.Says, part) {
				t.Errorf("it says %q; want %q in it", v.Says, part)
			}
		}
	}
	return w
}

func orders(kinds string, token uint64) (list []protocol.Order) {
	for k := range strings.FieldsSeq(kinds) {
		var kind protocol.OrderKind
		if err := kind.UnmarshalText([]byte(k)); err != nil {
			panic(err)
		}
		list = append(list, protocol.Order{Kind: kind, Token: token})
	}
	return list
}

// leads wins and is proven until then; renews goes on; ends stops.
func leads(at time.Duration, token uint64, until time.Duration) act {
	return act{at: at, orders: orders("elected lead", token), view: leadingView(token, until)}
}

func renews(at time.Duration, token uint64, until time.Duration) act {
	return act{at: at, view: leadingView(token, until)}
}

func ends(at time.Duration, token uint64) act {
	return act{at: at, orders: orders("stop", token), view: protocol.View{Role: protocol.Follower}}
}

func leadingView(token uint64, until time.Duration) protocol.View {
	return protocol.View{Role: protocol.Leader, Term: token, Token: token, Elected: true, Active: true, LeaseEnd: protocol.Instant(until)}
}

func wins(at time.Duration, token uint64) act {
	return act{at: at, orders: orders("elected", token), view: protocol.View{Role: protocol.Leader, Term: token, Token: token, Elected: true}}
}

// anchored goes on with its token, in a higher term.
func anchored(at time.Duration, token, term uint64, until time.Duration) act {
	v := leadingView(token, until)
	v.Leader = protocol.Leadership{ID: "n1", Term: term}
	return act{at: at, view: v}
}

func TestInvariantsFail(t *testing.T) {
	n1, n2 := protocol.Voter{ID: "n1"}, protocol.Voter{ID: "n2"}
	cases := []struct {
		name    string
		want    Invariant
		says    string
		scripts [][]act
		change  func(p *Protocol, s *Schedule)
	}{
		{"in order", "", "", [][]act{{leads(10*ms, 1, 60*ms), renews(40*ms, 1, 90*ms), ends(90*ms, 1)}, {leads(90*ms, 2, 150*ms), ends(150*ms, 2)}}, nil},
		{"one token, two leaders", OneLeader, "token 5, and so was n1", [][]act{{wins(10*ms, 5)}, {wins(300*ms, 5)}}, nil},
		{"one token, one leader after another", OneLeader, "", [][]act{{leads(10*ms, 5, 60*ms), ends(60*ms, 5)}, {leads(300*ms, 5, 400*ms)}}, nil},
		{"elected twice", Once, "a second time", [][]act{{leads(10*ms, 5, 60*ms), ends(60*ms, 5), leads(100*ms, 5, 160*ms)}}, nil},
		{"active twice", Orders, "leads with token 5 while it is elected and leading", [][]act{{leads(10*ms, 5, 60*ms), {at: 70 * ms, orders: orders("lead", 5), view: leadingView(5, 90*ms)}}}, nil},
		{"tokens fall", TokensRise, "token 4 after n1 was with token 5", [][]act{{leads(10*ms, 5, 60*ms), ends(60*ms, 5)}, {leads(100*ms, 4, 160*ms)}}, nil},
		{"an elected token may fall", "", "", [][]act{{leads(10*ms, 5, 60*ms), ends(60*ms, 5)}, {wins(100*ms, 4), ends(110*ms, 4)}}, nil},
		{"a term higher, and the token stays", "", "", [][]act{{leads(10*ms, 5, 60*ms), ends(60*ms, 5), leads(80*ms, 8, 150*ms), anchored(100*ms, 8, 10, 150*ms), ends(150*ms, 8)}, {wins(20*ms, 7), ends(30*ms, 7), wins(110*ms, 11)}}, nil},
		{"a term higher, and another was won in between", Anchored, "n1 has led on with token 5 in term 8, and n2 was elected with token 7", [][]act{{leads(10*ms, 5, 60*ms), anchored(40*ms, 5, 8, 60*ms)}, {wins(20*ms, 7)}}, nil},
		{"a term higher that another has won", Anchored, "and n2 was elected with token 8", [][]act{{leads(10*ms, 5, 60*ms), anchored(40*ms, 5, 8, 60*ms)}, {wins(20*ms, 8)}}, nil},
		{"a term higher, and another is won in between later", Anchored, "and n2 was elected with token 6", [][]act{{leads(10*ms, 5, 60*ms), anchored(40*ms, 5, 8, 60*ms), ends(60*ms, 5)}, {wins(300*ms, 6)}}, nil},
		{"two leases", Exclusive, "with token 6, while that of n1 is, with token 5", [][]act{{leads(10*ms, 5, 60*ms)}, {leads(50*ms, 6, 90*ms)}}, nil},
		{"two leases, the old one renewed", Exclusive, "", [][]act{{leads(10*ms, 5, 60*ms), renews(59*ms, 5, 100*ms)}, {leads(60*ms, 6, 90*ms)}}, nil},
		{"a lease that comes back", Exclusive, "with token 5, while that of n2", [][]act{{leads(10*ms, 5, 60*ms), renews(65*ms, 5, 100*ms)}, {leads(61*ms, 6, 90*ms)}}, func(p *Protocol, _ *Schedule) {
			p.Expect = map[Invariant]Expectation{ToldInTime: MayFail, Once: MayFail}
		}},
		{"a lease given up before the work has returned", Exclusive, "token 5, since 10ms and until 100ms; it was told to stop", [][]act{{leads(10*ms, 5, 100*ms), ends(30*ms, 5)}, {leads(40*ms, 6, 90*ms)}}, func(_ *Protocol, s *Schedule) { s.Work.Stop = 20 * ms }},
		{"and after", "", "", [][]act{{leads(10*ms, 5, 100*ms), ends(30*ms, 5)}, {leads(40*ms, 6, 90*ms), ends(90*ms, 6)}}, func(_ *Protocol, s *Schedule) { s.Work.Stop = 10 * ms }},
		{"lead without elected", Orders, "leads with token 5 while it is nothing", [][]act{{{at: 10 * ms, orders: orders("lead", 5), view: leadingView(5, 60*ms)}}}, nil},
		{"stop of another token", Orders, "stops token 4", [][]act{{leads(10*ms, 5, 60*ms), ends(20*ms, 4)}}, nil},
		{"stop twice", Orders, "stops token 5 while it is nothing", [][]act{{leads(10*ms, 5, 60*ms), ends(20*ms, 5), ends(30*ms, 5)}}, nil},
		{"token zero", Orders, "token 0", [][]act{{wins(10*ms, 0)}}, nil},
		{"a view without its order", Orders, "its view says elected true", [][]act{{{at: 10 * ms, view: leadingView(5, 60*ms)}}}, nil},
		{"a view of another token", Orders, "token 6; what it ordered is elected and leading, token 5", [][]act{{{at: 10 * ms, orders: orders("elected lead", 5), view: leadingView(6, 60*ms)}}}, nil},
		{"leads before the old work was joined", Orders, "before its work of token 5 was joined", [][]act{{leads(10*ms, 5, 100*ms), ends(30*ms, 5), leads(31*ms, 6, 100*ms)}}, func(_ *Protocol, s *Schedule) { s.Work.Stop = 20 * ms }},
		{"a lease made shorter", ToldInTime, "the drain of 5ms had to begin at 48ms", [][]act{{leads(10*ms, 5, 100*ms), renews(50*ms, 5, 53*ms), ends(53*ms, 5)}}, nil},
		{"a lease made shorter, in time", "", "", [][]act{{leads(10*ms, 5, 100*ms), renews(50*ms, 5, 60*ms), ends(60*ms, 5)}}, nil},
		{"two votes in a term", OneVote, "has said one for n1", [][]act{{{at: 10 * ms, saves: [][]byte{voteData(3, n1)}}, {at: 30 * ms, saves: [][]byte{voteData(4, n1)}}, {at: 50 * ms, saves: [][]byte{voteData(3, n2)}}}}, func(p *Protocol, _ *Schedule) { voting(p) }},
		{"two grants in a term", OneVote, "has granted it to n2", [][]act{{{at: 10 * ms, sends: []protocol.Send{grant("n2", 3)}}, {at: 30 * ms, sends: []protocol.Send{grant("n3", 3)}}}}, func(p *Protocol, _ *Schedule) {
			p.Expect = map[Invariant]Expectation{VoteSaved: MayFail}
		}},
		{"a grant before it is saved", VoteSaved, "grants n2 its vote in term 3", [][]act{{{at: 10 * ms, saves: [][]byte{voteData(3, n2)}, sends: []protocol.Send{grant("n2", 3)}}}}, func(p *Protocol, _ *Schedule) { voting(p) }},
		{"a grant after it was saved", "", "", [][]act{{{at: 10 * ms, saves: [][]byte{voteData(3, n2)}, sends: []protocol.Send{after(grant("n2", 3), 1)}}}}, func(p *Protocol, _ *Schedule) { voting(p) }},
		{"a vote that cannot be read", OneVote, "cannot be read", [][]act{{{at: 10 * ms, saves: [][]byte{{1}}}}}, func(p *Protocol, _ *Schedule) { voting(p) }},
		{"a win before the own vote is saved", VoteSaved, "its own vote is not durable", [][]act{{wins(10*ms, 5)}}, func(p *Protocol, _ *Schedule) { voting(p) }},
		{"a stale write accepted", NoStale, "token 5", [][]act{{leads(10*ms, 5, 200*ms)}, {leads(61*ms, 5, 90*ms)}}, func(p *Protocol, _ *Schedule) {
			p.Expect = map[Invariant]Expectation{OneLeader: MayFail, Once: MayFail, Exclusive: MayFail, NoneOffered: MayFail}
		}},
		{"a check that says yes too late", NoneOffered, "had accepted token 6 of n2", [][]act{{leads(10*ms, 5, 200*ms)}, {leads(61*ms, 6, 190*ms)}}, func(p *Protocol, _ *Schedule) {
			p.Expect = map[Invariant]Expectation{Exclusive: MayFail}
		}},
		{"an election before its turn", FIFO, "elected with entry 9 while entry", [][]act{queued(0), append(queued(5*ms), leads(300*ms, 9, 400*ms))}, func(p *Protocol, _ *Schedule) { p.Store = StoreEtcd }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, s := stageOf(c.scripts...)
			if c.change != nil {
				c.change(p, s)
			}
			wants(t, p, s, c.want, c.says)
		})
	}
}

func after(s protocol.Send, save uint64) protocol.Send {
	s.After = save
	return s
}

// queued opens a session and enters the queue.
func queued(at time.Duration) []act {
	return []act{
		{at: at + 10*ms, asks: []protocol.Ask{{Op: protocol.OpenSession, TTL: 10 * time.Second}}},
		{at: at + 60*ms, asks: []protocol.Ask{{Op: protocol.Enter, Session: 1, Nonce: protocol.Nonce{1, 2}}}},
	}
}

// The end of a lease is exact: a nanosecond earlier is a violation, whatever the
// clocks' rates are, and without any event at that instant.
func TestExclusiveIsExact(t *testing.T) {
	for _, rate := range []int64{0, 50_000, -50_000, 333_333, 1, -7} {
		for _, frozen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+d ppm, frozen %t", rate, frozen), func(t *testing.T) {
				p, s := stageOf([]act{leads(10*ms, 5, 300*ms)})
				s.Clocks = []ClockSpec{{Rate: rate}}
				s.Faults = 200 * ms
				if frozen {
					s.Ops = []Op{{At: Time(50 * ms), Kind: OpPause, Node: "n1", For: time.Second}}
				}
				p.Expect = map[Invariant]Expectation{ToldInTime: MayFail}
				w := play(t, p, s)
				end := w.oracle.processes[0].until
				if end <= Time(200*ms) {
					t.Fatalf("proven until %d; want more", end)
				}
				for _, at := range []struct {
					time Time
					want Invariant
				}{{end, ""}, {end - 1, Exclusive}} {
					p, s := stageOf([]act{leads(10*ms, 5, 300*ms)}, []act{leads(time.Duration(at.time), 6, 900*ms)})
					s.Clocks = []ClockSpec{{Rate: rate}}
					p.Expect = map[Invariant]Expectation{ToldInTime: MayFail}
					if frozen {
						s.Ops = []Op{{At: Time(50 * ms), Kind: OpPause, Node: "n1", For: time.Second}}
					}
					wants(t, p, s, at.want)
				}
			})
		}
	}
}

// Each end that the oracle computes is where Proven changes.
func TestProvenUntil(t *testing.T) {
	p, s := stageOf([]act{leads(10*ms, 5, 300*ms)})
	s.Clocks = []ClockSpec{{Rate: 12_345, Zero: 3 * ms}}
	w, err := New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	for w.Step() && w.Now() < Time(100*ms) {
	}
	n := w.nodes[0]
	end := w.oracle.processes[0].until
	for _, c := range []struct {
		at   Time
		want bool
	}{{end - 1, true}, {end, false}} {
		w.now = c.at
		if got := n.view.Proven(w.reading(n)); got != c.want {
			t.Errorf("proven at %d: %t; want %t (its clock shows %d)", c.at, got, c.want, w.reading(n).Boot)
		}
	}
}

// A jump, a sleep and a rate that changes end the proof, or move its end.
func TestExclusiveFollowsClocks(t *testing.T) {
	second := func(at time.Duration) []act { return []act{leads(at, 6, 900*ms)} }
	cases := []struct {
		name string
		op   Op
		at   time.Duration // when another leads
		want Invariant
	}{
		{"no fault", Op{At: 0, Kind: OpConfirm, Node: "n3"}, 299 * ms, Exclusive},
		{"a step", Op{At: Time(50 * ms), Kind: OpStep, Node: "n1", By: 20 * ms}, 51 * ms, ""},
		{"a step back", Op{At: Time(50 * ms), Kind: OpStep, Node: "n1", By: -20 * ms}, 51 * ms, ""},
		{"a step within the tolerance", Op{At: Time(50 * ms), Kind: OpStep, Node: "n1", By: ms / 2}, 51 * ms, Exclusive},
		{"a step that shortens it", Op{At: Time(50 * ms), Kind: OpStep, Node: "n1", By: ms / 2}, 300*ms - ms/2, ""},
		{"a sleep", Op{At: Time(50 * ms), Kind: OpSuspend, Node: "n1", For: 500 * ms}, 52 * ms, ""},
		{"a sleep that is within the tolerance", Op{At: Time(50 * ms), Kind: OpSuspend, Node: "n1", For: 500 * ms}, 50*ms + protocol.JumpTolerance - time.Microsecond, Exclusive},
		{"a faster clock", Op{At: Time(100 * ms), Kind: OpRate, Node: "n1", Value: 5e5}, 233_333_334, ""},
		{"a faster clock, too early", Op{At: Time(100 * ms), Kind: OpRate, Node: "n1", Value: 5e5}, 233_333_333, Exclusive},
		{"a slower clock", Op{At: Time(100 * ms), Kind: OpRate, Node: "n1", Value: -5e5}, 500*ms - 1, Exclusive},
		{"a slower clock, late enough", Op{At: Time(100 * ms), Kind: OpRate, Node: "n1", Value: -5e5}, 500 * ms, ""},
		{"a death", Op{At: Time(50 * ms), Kind: OpKill, Node: "n1"}, 51 * ms, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, s := stageOf([]act{leads(10*ms, 5, 300*ms)}, second(c.at))
			s.Ops = []Op{c.op}
			s.Clocks = []ClockSpec{{}, {}, {}}
			wants(t, p, s, c.want)
		})
	}
}

// A clock that jumps and goes back brings back no proof of a term that was stopped in
// between, whose work has yet to return. It does bring back a proof whose term was not stopped.
func TestStoppedTermsStayStopped(t *testing.T) {
	jump := []Op{
		{At: Time(50 * ms), Kind: OpStep, Node: "n1", By: 20 * ms},
		{At: Time(100 * ms), Kind: OpStep, Node: "n1", By: -20 * ms},
	}
	looks := act{at: 80 * ms, view: protocol.View{Role: protocol.Follower}}
	cases := []struct {
		name string
		ops  []Op
		acts []act // the last of them sees the jump
		want Invariant
	}{
		{"stopped after the jump", jump, []act{ends(80*ms, 5)}, ""},
		{"stopped before the jump", jump, []act{ends(40*ms, 5), looks}, ""},
		{"stopped, and no jump", jump[:0], []act{ends(80*ms, 5)}, Exclusive},
		{"not stopped", jump, []act{renews(80*ms, 5, 400*ms)}, Exclusive},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, s := stageOf(append([]act{leads(10*ms, 5, 400*ms)}, c.acts...), []act{leads(90*ms, 6, 900*ms)})
			s.Ops, s.Clocks, s.Work.Stop = c.ops, []ClockSpec{{}, {}, {}}, 300*ms
			wants(t, p, s, c.want)
		})
	}
}

func TestSometimesTable(t *testing.T) {
	names := map[string]bool{}
	for _, q := range Situations() {
		if q.String() == "" || q.Says() == "" || names[q.String()] {
			t.Errorf("%d: name %q, sentence %q", q, q.String(), q.Says())
		}
		names[q.String()] = true
	}
	if len(names) > 64 {
		t.Fatalf("%d situations do not fit in a Seen", len(names))
	}
	var s Seen
	s.add(SawStaleRefused)
	s.add(SawElected)
	if text, err := s.MarshalText(); err != nil || string(text) != "elected stale-refused" {
		t.Errorf("%q, %v", text, err)
	}
	if s.Len() != 2 || !s.Has(SawElected) || s.Has(SawProven) {
		t.Errorf("%b", s)
	}
	var back Seen
	if err := back.UnmarshalText([]byte("elected stale-refused")); err != nil || back != s {
		t.Errorf("read back as %b, %v; want %b", back, err, s)
	}
	if err := back.UnmarshalText([]byte("elected never-heard-of")); err == nil || !strings.Contains(err.Error(), `"never-heard-of"`) {
		t.Errorf("an unknown name: %v", err)
	}
	p := &Protocol{Store: StoreRegister}
	if m := s.Missing(p); slices.Contains(m, SawElected) || slices.Contains(m, SawSplitVote) || !slices.Contains(m, SawUnknownWin) {
		t.Errorf("missing %v", m)
	}
}
