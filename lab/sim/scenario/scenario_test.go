package scenario

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// each runs a test for every scenario with every protocol to which it applies.
func each(t *testing.T, test func(t *testing.T, s *Scenario, protocol string)) {
	for _, s := range All() {
		for _, p := range s.Protocols() {
			t.Run(s.Name+"/"+p, func(t *testing.T) {
				if p != "quorum" && !*rewrite {
					long.Test(t, "the classic protocols take longer")
				}
				t.Parallel()
				test(t, s, p)
			})
		}
	}
}

// TestScenarios: each judgement holds for its protocol, and fails for another one with another
// expectation. testdata/outcomes.txt has the outcomes.
func TestScenarios(t *testing.T) {
	var mu sync.Mutex
	reports := map[string]*Report{}
	t.Run("each", func(t *testing.T) {
		scenarios(t, func(r *Report) { mu.Lock(); reports[r.Scenario+"/"+r.Protocol] = r; mu.Unlock() })
	})
	t.Run("outcomes", func(t *testing.T) { testOutcomes(t, reports) })
}

func scenarios(t *testing.T, done func(*Report)) {
	each(t, func(t *testing.T, s *Scenario, p string) {
		st, all, err := s.stage(p)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := st.perform(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		r := s.judge(st, runs, p)
		for _, w := range r.Wrong {
			t.Error(w)
		}
		if r.Held != (len(r.Wrong) == 0) || r.Outcome == "" || r.Expected != s.Expected(p) || r.Expected == "" || len(r.Tenures) == 0 {
			t.Errorf("held %t, outcome %q, expected %q, %d tenures", r.Held, r.Outcome, r.Expected, len(r.Tenures))
		}
		t.Log(r.Outcome)
		done(r)

		own := s.part(p)
		for i := range s.parts {
			o := &s.parts[i]
			if o == own || reflect.ValueOf(o.judge).Pointer() == reflect.ValueOf(own.judge).Pointer() {
				continue // the same judgement, for another reason
			}
			if r := s.judge(st, runs, o.on[0]); r.Held {
				t.Errorf("it does what is expected of %s, too: %s", o.on[0], r.Expected)
			}
		}
	})
}

// TestCalm: without its faults no scenario passes its judgement, unless it expects that nothing
// happens.
func TestCalm(t *testing.T) {
	each(t, func(t *testing.T, s *Scenario, p string) {
		st, all, err := s.stage(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, sc := range all {
			sc.Ops = slices.DeleteFunc(slices.Clone(sc.Ops), func(op sim.Op) bool { return op.At >= st.fault })
		}
		runs, err := st.perform(t.Context(), all[:min(len(all), 4)])
		if err != nil {
			t.Fatal(err)
		}
		calm := slices.ContainsFunc([]string{"leads on without a gap", "leads on:", "it leads on", "leads on, and the hub", "no node is elected: Raft"}, func(text string) bool { return strings.Contains(s.Expected(p), text) })
		if r := s.judge(st, runs, p); r.Held != calm {
			t.Errorf("without its faults: held %t: %s; %s", r.Held, r.Expected, r.Outcome)
		}
	})
}

// TestTenures: the tenures agree with the figures of the world.
func TestTenures(t *testing.T) {
	each(t, func(t *testing.T, s *Scenario, p string) {
		st, all, err := s.stage(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, sc := range all[:1] {
			r, err := st.play(t.Context(), sc)
			if err != nil {
				t.Fatal(err)
			}
			tenures, pauses := 0, false
			for i := range r.tenures {
				g := &r.tenures[i]
				if len(g.Proven) > 0 {
					tenures++
				}
				if g.Until < g.From || g.Token == 0 || i > 0 && g.From < r.tenures[i-1].From {
					t.Errorf("seed %d: tenure %+v", sc.Seed, *g)
				}
				for k, x := range g.Proven {
					if x.Until < x.From || x.From < g.From || k > 0 && x.From < g.Proven[k-1].Until {
						t.Errorf("seed %d: proof %v of tenure %+v", sc.Seed, x, *g)
					}
				}
			}
			for i := range sc.Ops {
				k := sc.Ops[i].Kind
				pauses = pauses || k == sim.OpPause || k == sim.OpPauseWork || k == sim.OpSuspend
			}
			stats := &r.result.Stats
			if len(r.tenures) != int(stats.Elections) || tenures != int(stats.Tenures) && r.leases {
				t.Errorf("seed %d: %d tenures, %d of them proven; the world has counted %d and %d", sc.Seed, len(r.tenures), tenures, stats.Elections, stats.Tenures)
			}
			if both := r.both(between(0, r.end)); !pauses && both != stats.TwoLed {
				t.Errorf("seed %d: two lead for %v; the world has counted %v", sc.Seed, both, stats.TwoLed)
			}
			if led := r.led(between(0, r.end)) - r.both(between(0, r.end)); !pauses && len(r.tenures) < 3 && (led < stats.Led || led > stats.Led+sc.Work.Stop) {
				t.Errorf("seed %d: there is a leader for %v; the world has counted %v", sc.Seed, led, stats.Led)
			}
		}
	})
}

// TestSame: a scenario repeats.
func TestSame(t *testing.T) {
	s, _ := ByName("ping-pong")
	a, err := s.Run(t.Context(), "raft")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Run(t.Context(), "raft")
	if err != nil {
		t.Fatal(err)
	}
	if a.Result.Hash != b.Result.Hash || a.Outcome != b.Outcome || a.Runs != 100 {
		t.Errorf("%x, %q, %d runs; and %x, %q", a.Result.Hash, a.Outcome, a.Runs, b.Result.Hash, b.Outcome)
	}
	first, err := s.Schedule("raft")
	if err != nil || first.Seed != 1 || len(first.Ops) != len(a.Result.Schedule.Ops) {
		t.Errorf("schedule %+v, %v", first, err)
	}
}

// TestSchedules: the world accepts each schedule, and a file can hold it.
func TestSchedules(t *testing.T) {
	each(t, func(t *testing.T, s *Scenario, p string) {
		sc, err := s.Schedule(p)
		if err != nil {
			t.Fatal(err)
		}
		of, _ := protocols.ByName(p)
		if err := sc.Validate(of); err != nil {
			t.Error(err)
		}
		if _, err := sc.Encode(); err != nil {
			t.Error(err)
		}
	})
}

func TestNotApplicable(t *testing.T) {
	s, ok := ByName("ring-token-loss")
	if !ok || !slices.Equal(s.Protocols(), []string{"ring", "ring-chang-roberts"}) {
		t.Fatalf("%v, %t", s, ok)
	}
	for _, p := range []string{"quorum", "paxos", ""} {
		_, err := s.Run(t.Context(), p)
		if err == nil || !strings.Contains(err.Error(), "it does to: ring, ring-chang-roberts") {
			t.Errorf("%q: %v", p, err)
		}
		if _, err := s.Schedule(p); err == nil || s.Expected(p) != "" {
			t.Errorf("%q: %v, %q", p, err, s.Expected(p))
		}
	}
	if s, ok := ByName("boredom"); ok {
		t.Error(s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	herd, _ := ByName("thundering-herd")
	if _, err := herd.Run(ctx, "queue"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRows: every situation of the design is there, once, and each protocol is in at least four of
// them.
func TestRows(t *testing.T) {
	want := strings.Fields(`crash crash-silent split-vote minority-leader rejoin ping-pong quorum-loss constrained chain cloudflare-2020
		deaf-leader mute-leader stranded-term voter-restart double-vote wiped-disk gc-pause suspend vm-stop drift-beyond-bound clocks-apart
		transfer-race reconfig-fork lease-reconfig flapping-link slow-disk gray-failure thundering-herd bully-slow-highest ring-token-loss byzantine-id
		lock-pause lock-late-answer redlock-clock redlock-restart row-skew advisory-pool`)
	var got []string
	count := map[string]int{}
	for _, s := range All() {
		got = append(got, s.Name)
		if s.Says == "" || len(s.parts) == 0 {
			t.Errorf("%s says %q", s.Name, s.Says)
		}
		seen := map[string]bool{}
		for _, p := range s.parts {
			for _, name := range p.on {
				if _, ok := protocols.ByName(name); !ok || seen[name] {
					t.Errorf("%s: protocol %q is unknown or there twice", s.Name, name)
				}
				seen[name] = true
				count[name]++
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("scenarios %v; want %v", got, want)
	}
	for _, p := range protocols.All() {
		if count[p.Name] < 4 {
			t.Errorf("%s is in %d scenarios", p.Name, count[p.Name])
		}
		pace, ok := paces[p.Name]
		silence, err := p.Silence(nil)
		if !ok || err != nil || pace.detect > silence || 2*pace.detect < silence || pace.beat*3 > pace.detect || pace.beat*10 < pace.detect {
			t.Errorf("%s: pace %v, %t; it gives a silent leader up after %v at the longest, %v", p.Name, pace, ok, silence, err)
		}
	}
}
