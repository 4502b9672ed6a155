package sim

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The figures of a run that was written by hand.
func TestStats(t *testing.T) {
	p, s := stageOf(
		[]act{leads(100*ms, 1, 300*ms), renews(250*ms, 1, 500*ms)},        // and dies at 400 ms
		[]act{leads(600*ms, 2, 700*ms), ends(700*ms, 2)},                  // 200 ms after the death
		[]act{leads(700*ms, 3, 800*ms), ends(800*ms, 3), wins(850*ms, 5)}, // at once; and elected only
	)
	s.Ops = []Op{{At: Time(400 * ms), Kind: OpKill, Node: "n1"}}
	w := wants(t, p, s, "")
	st := w.Result().Stats
	if st.Elections != 4 || st.Tenures != 3 || st.Changes != 2 {
		t.Errorf("%d elections, %d tenures, %d changes; want 4, 3, 2", st.Elections, st.Tenures, st.Changes)
	}
	if st.Time != time.Second || st.Led != 500*ms || st.Availability() != 0.5 {
		t.Errorf("%v of %v led (%v); want 500ms of 1s", st.Led, st.Time, st.Availability())
	}
	if want := []time.Duration{200 * ms, 0}; !slices.Equal(st.Takeovers, want) {
		t.Errorf("takeovers %v; want %v", st.Takeovers, want)
	}
	if st.TwoElected != 0 || st.FreshRefused != 0 || st.StaleOffered != 0 {
		t.Errorf("%+v", st)
	}
	if st.Writes == 0 || st.Overruns != 0 {
		t.Errorf("%d writes, %d overruns", st.Writes, st.Overruns)
	}
	sum := Stats{}
	sum.Add(&st)
	sum.Add(&st)
	if sum.Elections != 8 || len(sum.Takeovers) != 4 || sum.Availability() != 0.5 {
		t.Errorf("%+v", sum)
	}
}

func TestTakeoverQuantiles(t *testing.T) {
	s := Stats{}
	if _, ok := s.Takeover(0.5); ok {
		t.Error("a quantile of nothing")
	}
	for i := range 100 {
		s.Takeovers = append(s.Takeovers, time.Duration(100-i)*ms)
	}
	for _, c := range []struct {
		p    float64
		want time.Duration
	}{{0, ms}, {0.5, 50 * ms}, {0.99, 99 * ms}, {1, 100 * ms}} {
		if got, _ := s.Takeover(c.p); got != c.want {
			t.Errorf("quantile %v is %v; want %v", c.p, got, c.want)
		}
	}
}

// Where work is not exclusive, a leader counts from its election.
func TestNonExclusive(t *testing.T) {
	p, s := stageOf([]act{wins(100*ms, 1), ends(600*ms, 1)}, []act{wins(500*ms, 2), ends(900*ms, 2)})
	s.Work.NonExclusive = true
	w := wants(t, p, s, "")
	st := w.Result().Stats
	if st.TwoElected != 100*ms || st.Led != 800*ms || st.Changes != 1 {
		t.Errorf("two for %v, led %v, %d changes; want 100ms, 800ms, 1", st.TwoElected, st.Led, st.Changes)
	}
	if st.StaleOffered == 0 || st.StaleRefused != st.StaleOffered {
		t.Errorf("%d stale writes offered, %d refused; want some, and all of them", st.StaleOffered, st.StaleRefused)
	}
	if !w.seen.Has(SawTwoElected) || !w.seen.Has(SawStaleRefused) {
		t.Error("it has not seen two elected, or a stale write refused")
	}
}

// commanded is an actor that records its commands.
type commanded struct {
	actor
	heard []protocol.Command
	at    []protocol.Instant
}

func (m *commanded) Step(in *protocol.Input, fx *protocol.Effects) {
	if in.Kind == protocol.Do && in.Command.Verb != protocol.Campaign {
		m.heard, m.at = append(m.heard, in.Command), append(m.at, in.Now.Boot)
		if in.Command.Verb == protocol.Resign && m.view.Elected {
			fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.view.Token})
			m.view = protocol.View{Role: protocol.Follower}
		}
	}
	m.actor.Step(in, fx)
}

// The order of the layer above: the work is told when the drain begins, returns after Stop, is
// joined, and only then released.
func TestWorkOrder(t *testing.T) {
	cases := []struct {
		name   string
		script []act
		change func(s *Schedule)
		verbs  []protocol.Verb
		at     []time.Duration
	}{
		{"stopped", []act{leads(10*ms, 7, 100*ms), ends(50*ms, 7)}, nil, []protocol.Verb{protocol.Joined}, []time.Duration{70 * ms}},
		{"drained", []act{leads(10*ms, 7, 100*ms)}, nil, []protocol.Verb{protocol.Resign, protocol.Joined}, []time.Duration{90 * ms, 90 * ms}},
		{"drained and stopped", []act{leads(10*ms, 7, 100*ms), ends(80*ms, 7)}, nil, []protocol.Verb{protocol.Joined}, []time.Duration{90 * ms}},
		{"renewed", []act{leads(10*ms, 7, 100*ms), renews(69*ms, 7, 200*ms)}, nil, []protocol.Verb{protocol.Resign, protocol.Joined}, []time.Duration{190 * ms, 190 * ms}},
		{"no work", []act{wins(10*ms, 7), ends(20*ms, 7)}, nil, []protocol.Verb{protocol.Joined}, []time.Duration{20 * ms}},
		{"won with too little", []act{leads(10*ms, 7, 40*ms)}, nil, []protocol.Verb{protocol.Resign, protocol.Joined}, []time.Duration{10 * ms, 10 * ms}},
		{"frozen when it had to be told", []act{leads(10*ms, 7, 100*ms)}, func(s *Schedule) {
			s.Ops = []Op{{At: Time(50 * ms), Kind: OpPause, Node: "n1", For: 100 * ms}}
		}, []protocol.Verb{protocol.Resign, protocol.Joined}, []time.Duration{170 * ms, 170 * ms}},
		{"frozen when it would have returned", []act{leads(10*ms, 7, 100*ms)}, func(s *Schedule) {
			s.Ops = []Op{{At: Time(75 * ms), Kind: OpPause, Node: "n1", For: 100 * ms}}
		}, []protocol.Verb{protocol.Resign, protocol.Joined}, []time.Duration{175 * ms, 175 * ms}},
		{"not exclusive", []act{leads(10*ms, 7, 100*ms), ends(150*ms, 7)}, func(s *Schedule) { s.Work.NonExclusive = true }, []protocol.Verb{protocol.Joined}, []time.Duration{170 * ms}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, s := stageOf(c.script)
			s.Work = Work{Every: 5 * ms, Drain: 30 * ms, Stop: 20 * ms}
			if c.change != nil {
				c.change(s)
			}
			var m *commanded
			p.New = func(q Participant) (protocol.Machine, error) {
				if q.Index > 0 {
					return newActor(nil), nil
				}
				m = &commanded{actor: *newActor(c.script)}
				return m, nil
			}
			wants(t, p, s, "")
			if len(m.heard) != len(c.verbs) {
				t.Fatalf("heard %v at %v; want %v", m.heard, m.at, c.verbs)
			}
			for i, v := range c.verbs {
				if m.heard[i].Verb != v || m.at[i] != protocol.Instant(c.at[i]) {
					t.Errorf("heard %s at %v; want %s at %v", m.heard[i].Verb, m.at[i], v, c.at[i])
				}
				if v == protocol.Joined && m.heard[i].Token != 7 {
					t.Errorf("joined token %d; want 7", m.heard[i].Token)
				}
			}
		})
	}
}

// Where work is not exclusive, the next term's work waits for the last one's.
func TestNextTermWaits(t *testing.T) {
	next := act{at: 50 * ms, orders: append(orders("stop", 1), orders("elected", 2)...), view: wins(0, 2).view}
	p, s := stageOf([]act{wins(10*ms, 1), next, ends(200*ms, 2)})
	s.Work = Work{Every: 10 * ms, Stop: 35 * ms, NonExclusive: true}
	w, err := New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	var last Time
	for w.Step() {
		switch j := w.work.job(w.nodes[0]); {
		case w.now < Time(10*ms), w.now > Time(85*ms) && w.now < Time(86*ms):
		case w.now < Time(85*ms) && j.token != 1, w.now > Time(86*ms) && w.now < Time(235*ms) && j.token != 2, w.now > Time(236*ms) && j.token != 0:
			t.Fatalf("at %s the work of token %d runs", w.now, j.token)
		}
		if w.stats.Writes > 0 && w.resource.highest == 2 && last == 0 {
			last = w.now
		}
	}
	if w.violation != nil || last < Time(85*ms) || last > Time(96*ms) {
		t.Errorf("the second term's first write arrived at %s; want soon after 85ms; %v", last, w.violation)
	}
}

// A twin has a node.index of its own, and the same name: two tenures with one token are two leaders.
func TestTwinIsAnother(t *testing.T) {
	p, s := stageOf([]act{leads(10*ms, 1, 60*ms), ends(60*ms, 1), leads(200*ms, 2, 300*ms)})
	s.Ops = []Op{{At: Time(100 * ms), Kind: OpTwin, Node: "n1", For: 500 * ms}}
	wants(t, p, s, OneLeader, "token 2, and so was n1")
}

// A pause between check and write: the write leaves after the lease, another participant has
// written in between, and the resource refuses it. That is no violation.
func TestPauseInWork(t *testing.T) {
	p, s := stageOf([]act{leads(10*ms, 1, 100*ms), ends(100*ms, 1)}, []act{leads(100*ms, 2, 400*ms), ends(400*ms, 2)})
	s.Work = Work{Every: 10 * ms, Think: 2 * ms, Drain: 5 * ms}
	s.Ops = []Op{{At: Time(50 * ms), Kind: OpPauseWork, Node: "n1", For: 200 * ms}}
	w := wants(t, p, s, "")
	st := w.Result().Stats
	if st.StaleOffered != 1 || st.StaleRefused != 1 {
		t.Errorf("%d stale writes offered, %d refused; want 1 and 1", st.StaleOffered, st.StaleRefused)
	}
	for _, q := range []Sometimes{SawFrozenInWork, SawFrozenPastLease, SawStaleRefused, SawOverrun} {
		if !w.seen.Has(q) {
			t.Errorf("not seen: %s", q)
		}
	}
}

// A write that is on its way when its writer dies arrives.
func TestWriteOutlivesWriter(t *testing.T) {
	p, s := stageOf([]act{leads(10*ms, 1, 100*ms)})
	s.Work = Work{Every: 100 * ms, Flight: 20 * ms, Drain: 5 * ms}
	s.Ops = []Op{{At: Time(15 * ms), Kind: OpKill, Node: "n1"}}
	w := wants(t, p, s, "")
	if w.resource.highest != 1 || !w.seen.Has(SawLateWrite) {
		t.Errorf("the resource has seen token %d; want 1, of a late write", w.resource.highest)
	}
}

func TestLiveness(t *testing.T) {
	const settle = 2 * time.Second // 20 patiences
	healed := 500 * ms
	core := func(_ *Protocol, s *Schedule) { s.Core = []protocol.NodeID{"n2", "n3"} }
	const unjudged Invariant = "unjudged"
	forever := 10 * time.Second
	cases := []struct {
		name    string
		scripts [][]act
		change  func(p *Protocol, s *Schedule)
		want    Invariant
		says    string
	}{
		{"one leads all the time", [][]act{{leads(10*ms, 1, forever)}}, nil, "", ""},
		{"one leads soon", [][]act{{leads(healed+900*ms, 1, forever)}}, nil, "", ""},
		{"one leads late", [][]act{{leads(healed+1100*ms, 1, forever)}}, nil, Live, "without a gap since 1.6s"},
		{"nobody leads", nil, nil, Live, "nobody leads at the end"},
		{"it lapses, between events", [][]act{{leads(10*ms, 1, 2300*ms)}}, nil, Live, "nobody leads at the end"},
		{"a gap", [][]act{{leads(10*ms, 1, 2*time.Second), ends(2*time.Second, 1), leads(2100*ms, 2, forever)}}, nil, Live, "without a gap since 2.1s"},
		{"many terms", [][]act{repeated(healed+10*ms, 7, forever)}, nil, Live, "6 terms of the core"},
		{"elected is not enough", [][]act{{wins(10*ms, 1)}}, nil, Live, "nobody leads"},
		{"elected is enough where work is not exclusive", [][]act{{wins(10*ms, 1)}}, func(_ *Protocol, s *Schedule) { s.Work.NonExclusive = true }, "", ""},
		{"or the protocol has no leases", [][]act{{wins(10*ms, 1)}}, func(p *Protocol, _ *Schedule) { p.Leaseless = true }, "", ""},
		{"two are elected", [][]act{{wins(10*ms, 1)}, {wins(20*ms, 2)}}, func(p *Protocol, _ *Schedule) {
			p.Leaseless, p.Expect = true, map[Invariant]Expectation{Exclusive: MayFail}
		}, Live, "more than one"},
		{"two are elected, one of them apart", [][]act{{wins(10*ms, 1)}, {wins(20*ms, 2)}}, func(p *Protocol, s *Schedule) {
			p.Leaseless, p.Expect = true, map[Invariant]Expectation{Exclusive: MayFail}
			s.Core = []protocol.NodeID{"n2", "n3"}
		}, "", ""},
		{"an outsider leads, and dies", [][]act{{leads(10*ms, 1, 1800*ms), ends(1800*ms, 1)}, {leads(1900*ms, 2, forever)}}, core, "", ""},
		{"an outsider leads, and dies too late to tell", [][]act{{leads(10*ms, 1, 1800*ms), ends(1800*ms, 1)}}, core, unjudged, ""},
		{"an outsider leads, and lapses, without a successor", [][]act{{leads(10*ms, 1, 1400*ms)}}, core, Live, "nobody leads at the end, and since 1.4s"},
		{"an outsider leads to the end", [][]act{{leads(2400*ms, 1, forever)}}, core, "", ""},
		{"outsiders come and go", [][]act{repeated(healed+10*ms, 40, 1800*ms), {leads(1900*ms, 90, forever)}}, core, "", ""},
		{"too short to be judged", nil, func(_ *Protocol, s *Schedule) { s.Settle = 1499 * ms }, unjudged, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, s := stageOf(c.scripts...)
			p.Patience = func(json.RawMessage) (time.Duration, error) { return 100 * ms, nil }
			s.Faults, s.Settle = healed, settle
			s.Work.Every = 0
			if c.change != nil {
				c.change(p, s)
			}
			want := c.want
			judged := s.Settle >= LeastSettle(100*ms) && want != unjudged
			if want == unjudged {
				want = ""
			}
			w := wants(t, p, s, want, c.says)
			if got := w.stats.Judged == 1; got != judged {
				t.Errorf("judged: %t; want %t", got, judged)
			}
			if w.seen.Has(SawSettled) != (judged && c.want == "") {
				t.Errorf("settled: %t", w.seen.Has(SawSettled))
			}
		})
	}
}

// repeated leads n times, the last time for good.
func repeated(at time.Duration, n int, until time.Duration) (list []act) {
	for i := range n {
		token := uint64(i + 1)
		if i == n-1 {
			return append(list, leads(at, token, until))
		}
		list = append(list, leads(at, token, at+20*ms), ends(at+20*ms, token))
		at += 30 * ms
	}
	return list
}

// A fork continues as the world does, with its work and the writes on their way.
func TestForkOfWork(t *testing.T) {
	p, s := stageOf([]act{leads(10*ms, 1, 100*ms), renews(50*ms, 1, 300*ms), ends(300*ms, 1)}, []act{leads(300*ms, 2, 400*ms), ends(400*ms, 2)})
	s.Work = Work{Every: 10 * ms, Think: 3 * ms, Flight: 25 * ms, Drain: 5 * ms, Stop: 2 * ms}
	w, err := New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		w.Step()
	}
	f := w.Fork()
	f.Run()
	w.Run()
	a, b := w.Result(), f.Result()
	if a.Hash != b.Hash || a.Stats.Writes != b.Stats.Writes || a.Stats.Led != b.Stats.Led || a.Seen != b.Seen {
		t.Errorf("%+v\n%+v", a, b)
	}
}
