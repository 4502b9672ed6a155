package teeth

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim"
)

// Ground is a kind of world to hunt in.
type Ground struct {
	// Name is the profile's, or says what is particular.
	Name    string
	Options sim.Options

	script func(s *sim.Schedule) // changes what was drawn, if not nil
	may    []sim.Invariant       // what may fail there of the machine as it is
	// judge says what is wrong with a run in which all invariants hold, where a rule is not about
	// safety: by the run's figures, and by its requests to the store.
	judge func(r *sim.Result, a *watcher) (sim.Invariant, string)
}

// Schedule draws the ground's schedule of a seed.
func (g Ground) Schedule(p *sim.Protocol, seed uint64) (*sim.Schedule, error) {
	s, err := sim.Generate(p, seed, g.Options)
	if err == nil && g.script != nil {
		g.script(s)
		slices.SortStableFunc(s.Ops, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
	}
	return s, err
}

// Run runs one seed on the ground. If the ground judges by more than the invariants, what it finds
// is the result's violation.
func (g Ground) Run(p *sim.Protocol, seed uint64) (*sim.Result, error) {
	s, err := g.Schedule(p, seed)
	if err != nil {
		return nil, err
	}
	if len(g.may) > 0 {
		c := *p
		c.Expect = maps.Clone(p.Expect)
		if c.Expect == nil {
			c.Expect = map[sim.Invariant]sim.Expectation{}
		}
		for _, inv := range g.may {
			c.Expect[inv] = sim.MayFail
		}
		p = &c
	}
	w, err := sim.New(p, s)
	if err != nil {
		return nil, err
	}
	a := watcher{terms: map[life]uint64{}, ended: map[life]uint64{}, session: map[life]uint64{}}
	if g.judge != nil {
		w.Trace(&a)
	}
	w.Run()
	r := w.Result()
	if r.Violation == nil && g.judge != nil {
		inv, says := g.judge(r, &a)
		if says == "" {
			inv, says = lawful, a.wrong
		}
		if says != "" {
			r.Violation = &sim.Violation{Invariant: inv, At: sim.Time(r.Virtual), Event: r.Events, Says: says}
		}
	}
	return r, nil
}

// grounds is where a mutant is hunted: everywhere, and for some of them first in a world with more
// of what their rule is about.
func grounds(m Mutant) []Ground {
	storm, swarm := sim.Options{Profile: "storm"}, sim.Options{Profile: "swarm"}
	all := []Ground{{Name: "storm", Options: storm}, {Name: "tight storm", Options: tight(storm)}, {Name: "swarm", Options: swarm}}
	if g, ok := particular(m); ok {
		if g.judge != nil {
			return []Ground{g}
		}
		all = append([]Ground{g}, all...)
	}
	return all
}

// tight assumes perfect clocks, which the world then has, so that hardly any margin hides the lack
// of a rule.
func tight(o sim.Options) sim.Options {
	o.Config = json.RawMessage(`{"drift":{"ppm":0,"guard":2000000}}`)
	return o
}

func only(kinds ...sim.OpKind) sim.Options { return sim.Options{Profile: "storm", Only: kinds} }

func with(o sim.Options, config string) sim.Options {
	o.Config = json.RawMessage(config)
	return o
}

// ms is milliseconds since a world began.
func ms(n int64) sim.Time { return sim.Time(n * int64(time.Millisecond)) }

// The names of what is wrong where no invariant is.
const (
	undisturbed sim.Invariant = "undisturbed" // a healthy leader stays
	alike       sim.Invariant = "alike"       // no leader's clock runs unlike those of a quorum
	prompt      sim.Invariant = "prompt"      // a leader that is gone is replaced in time
	joined      sim.Invariant = "joined"      // no node leads before the work of one that resigned has returned
	lawful      sim.Invariant = "lawful"      // requests and answers follow the rules; see watcher
	noHerd      sim.Invariant = "no-herd"     // a participant that leaves a queue wakes one
)

// first makes n1 the first leader: no other stands for a while.
func first(s *sim.Schedule, among int) {
	for i := 2; i <= among; i++ {
		s.Ops = append(s.Ops, sim.Op{At: 0, Kind: sim.OpWithdraw, Node: node(i), For: 4 * time.Second})
	}
}

func node(i int) protocol.NodeID { return protocol.NodeID("n" + strconv.Itoa(i)) }

// quiet is a world of n participants without faults, of that length.
func quiet(n int, faults time.Duration) sim.Options {
	return sim.Options{Profile: "quiet", Nodes: n, Faults: faults, Settle: -1}
}

// bent is a quiet world whose clocks may break the assumption.
func bent(n int, faults time.Duration) sim.Options {
	o := with(quiet(n, faults), `{"heartbeat":100000000,"promise":1000000000}`)
	o.Beyond = true
	return o
}

// straight has all clocks run at the true rate to begin with.
func straight(s *sim.Schedule) {
	for i := range s.Clocks {
		s.Clocks[i].Rate = 0
	}
}

// stays judges that the first leader is the only one.
func stays(r *sim.Result, _ *watcher) (sim.Invariant, string) {
	if r.Stats.Changes > 0 || r.Stats.Elections > 1 {
		return undisturbed, fmt.Sprintf("%d elections and %d changes of the leader, which was healthy", r.Stats.Elections, r.Stats.Changes)
	}
	return "", ""
}

// outlives has work go on when its process is killed.
func outlives(s *sim.Schedule) { s.Work.Outlives = true }

// nothing judges by the watcher alone.
func nothing(*sim.Result, *watcher) (sim.Invariant, string) { return "", "" }

// apart cuts n1 and n3 from each other for good.
func apart(s *sim.Schedule) {
	s.Ops = append(s.Ops,
		sim.Op{At: ms(5000), Kind: sim.OpHalfOpen, Node: "n1", Peer: "n3", For: s.Faults},
		sim.Op{At: ms(5000), Kind: sim.OpHalfOpen, Node: "n3", Peer: "n1", For: s.Faults})
}

// within judges that no takeover took longer.
func within(limit time.Duration) func(*sim.Result, *watcher) (sim.Invariant, string) {
	return func(r *sim.Result, _ *watcher) (sim.Invariant, string) {
		if worst, ok := r.Stats.Takeover(1); !ok || worst > limit {
			return prompt, fmt.Sprintf("of %d takeovers the longest took %v; want at most %v", len(r.Stats.Takeovers), worst, limit)
		}
		return "", ""
	}
}

// particular is a ground for one mutant, if it has one.
func particular(m Mutant) (Ground, bool) {
	g := Ground{}
	switch m.Protocol {
	case quorum.Name:
		g = ofQuorum(m.Name)
	case lease.Name:
		g = ofLease(m.Name)
	default:
		g = ofQueue(m.Name)
	}
	return g, g.Name != ""
}

func ofQuorum(mutant string) Ground {
	lives := []sim.OpKind{sim.OpKill, sim.OpWitness, sim.OpPowerLoss, sim.OpReset, sim.OpIsolate}
	switch mutant {
	case "promise-forgotten-on-restart", "no-residual-wait", "no-own-residual", "own-earlier-life-ignored", "residual-of-holder-only", "residual-before-adoption", "boot-residual-waived":
		return Ground{Name: "restarts", Options: tight(only(lives...)), script: outlives}
	case "late-vote-of-an-older-round":
		return Ground{Name: "deaths, resets and what arrives late", script: outlives,
			Options: tight(only(sim.OpKill, sim.OpReset, sim.OpIsolate, sim.OpDelay, sim.OpClog, sim.OpReorder, sim.OpReplay))}
	case "jump-forgets-promises", "jump-ignored-by-voters":
		return Ground{Name: "jumps and deaths", Options: tight(only(sim.OpStep, sim.OpStrobe, sim.OpKill, sim.OpReset, sim.OpIsolate)), script: outlives}
	case "twins-both-heard":
		// A copy of a directory is started beside the process that uses it, and no link is cut.
		// Nothing is excused.
		return Ground{Name: "a copy beside the original", Options: quiet(3, 40*time.Second), script: func(s *sim.Schedule) {
			s.Ops = append(s.Ops, sim.Op{At: ms(8000 + int64(s.Seed%1000)), Kind: sim.OpTwin, Node: node(1 + int(s.Seed%3))})
			for at := int64(13_000); at < 40_000; at += 4000 {
				s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpResign, Node: sim.Leader})
			}
		}}
	case "witness-any-incarnation":
		// n1 dies, its witness says so, and it leads again. Then the witness's message is replayed,
		// and all believe that n1 is gone.
		return Ground{Name: "a witness heard twice", Options: with(quiet(3, 12*time.Second), `{"heartbeat":250000000}`), script: func(s *sim.Schedule) {
			first(s, 3)
			s.Ops = append(s.Ops,
				sim.Op{At: ms(5990), Kind: sim.OpWithdraw, Node: "n2", For: 1900 * time.Millisecond},
				sim.Op{At: ms(5990), Kind: sim.OpWithdraw, Node: "n3", For: 1900 * time.Millisecond},
				sim.Op{At: ms(6000), Kind: sim.OpWitness, Node: "n1", For: 50 * time.Millisecond},
				sim.Op{At: ms(8000), Kind: sim.OpReplay, Node: "n1", Peer: "n2", Count: 16},
				sim.Op{At: ms(8000), Kind: sim.OpReplay, Node: "n1", Peer: "n3", Count: 16},
				sim.Op{At: ms(8020), Kind: sim.OpReset, Node: "n1"})
		}}
	case "release-by-node-id":
		return Ground{Name: "restarts and replays", Options: tight(only(sim.OpKill, sim.OpReset, sim.OpReplay, sim.OpResign)), script: outlives}
	case "promise-not-saved":
		return Ground{Name: "different promises", Options: with(only(lives...), `{"each":{"n1":{"promise":4000000000}}}`)}
	case "promise-shrinks-at-once":
		return Ground{Name: "different promises, and restarts", Options: with(only(sim.OpCrashLoop, sim.OpRoll, sim.OpKill), `{"each":{"n1":{"promise":8000000000}}}`)}
	case "re-anchor-always":
		// All believe that the leader is gone, and n2 wins, but dies before any other hears of it.
		return Ground{Name: "a winner nobody hears of", Options: quiet(3, 60*time.Second), script: func(s *sim.Schedule) {
			first(s, 3)
			for at := int64(6000); at < 59_000; at += 3000 {
				after := at + 1 + at/3000%16
				s.Ops = append(s.Ops,
					sim.Op{At: ms(at), Kind: sim.OpReset, Node: sim.Leader},
					sim.Op{At: ms(after), Kind: sim.OpOneWay, Node: "n2", For: 100 * time.Millisecond},
					sim.Op{At: ms(after + 10), Kind: sim.OpPowerLoss, Node: "n2", For: time.Second})
			}
		}}
	case "lease-from-ack-arrival", "probe-extends-lease", "duplicate-ack-extends", "vote-while-work-runs", "fence-after-follow":
		return Ground{Name: "slow and broken links", Options: tight(only(sim.OpOneWay, sim.OpIsolate, sim.OpClog, sim.OpDelay, sim.OpReset, sim.OpHalfOpen))}
	case "no-renewal-while-fencing":
		return Ground{Name: "work that takes its time to return", Options: quiet(3, 60*time.Second), script: func(s *sim.Schedule) {
			s.Work.Stop, s.Work.Drain = 3*time.Second, 100*time.Millisecond
			for at := int64(5000); at < 55_000; at += 10_000 {
				s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpResign, Node: sim.Leader})
			}
		}, judge: func(r *sim.Result, _ *watcher) (sim.Invariant, string) {
			if soonest, ok := r.Stats.Takeover(0); ok && soonest < 3*time.Second {
				return joined, fmt.Sprintf("another led %v after a term was resigned whose work took 3s to return", soonest)
			}
			return "", ""
		}}
	case "no-sticky":
		return Ground{Name: "one that does not hear the leader", Options: quiet(3, 60*time.Second), judge: stays, script: func(s *sim.Schedule) {
			first(s, 3)
			apart(s)
		}}
	case "no-quiet-start":
		return Ground{Name: "one restarts, another does not hear the leader", Options: quiet(3, 60*time.Second), judge: stays, script: func(s *sim.Schedule) {
			first(s, 3)
			apart(s)
			for at := int64(7000); at < 59_000; at += 1700 {
				s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpKill, Node: "n2", For: 10 * time.Millisecond})
			}
		}}
	case "clock-rates-not-compared":
		return Ground{Name: "a leader whose clock runs slow", Options: bent(3, 40*time.Second), judge: func(r *sim.Result, _ *watcher) (sim.Invariant, string) {
			if r.Stats.Changes == 0 {
				return alike, "n1 goes on leading, and its clock runs at 70 % of the rate of the others"
			}
			return "", ""
		}, script: func(s *sim.Schedule) {
			straight(s)
			first(s, 3)
			s.Ops = append(s.Ops, sim.Op{At: ms(10_000), Kind: sim.OpRate, Node: "n1", Value: -300_000})
		}}
	case "apart-leads-again":
		// n1 hears only n2, which is no candidate, and whose promises it cannot use.
		return Ground{Name: "a fast clock that hears one of two", Options: bent(3, 60*time.Second), judge: func(r *sim.Result, _ *watcher) (sim.Invariant, string) {
			if r.Stats.Elections > 8 {
				return alike, fmt.Sprintf("%d elections: n1 comes back again and again, and nobody stays leader", r.Stats.Elections)
			}
			return "", ""
		}, script: func(s *sim.Schedule) {
			straight(s)
			first(s, 3)
			at := ms(8_000) + sim.Time(s.Seed%50)*ms(97)
			s.Ops = append(s.Ops,
				sim.Op{At: ms(6_000), Kind: sim.OpWithdraw, Node: "n2", For: s.Faults},
				sim.Op{At: at, Kind: sim.OpRate, Node: "n2", Value: -524_000}, // n1 is 2.1 times as fast
				sim.Op{At: at, Kind: sim.OpRate, Node: "n3", Value: -524_000},
				sim.Op{At: at, Kind: sim.OpHalfOpen, Node: "n1", Peer: "n3", For: s.Faults},
				sim.Op{At: at, Kind: sim.OpHalfOpen, Node: "n3", Peer: "n1", For: s.Faults})
		}}
	case "apart-stands":
		// When n1 dies n2 is the only candidate. It has learned that its clock does not run like
		// the others, and stands aside for longer than this lasts.
		return Ground{Name: "the only candidate's clock runs fast", Options: bent(5, 26*time.Second), judge: func(r *sim.Result, _ *watcher) (sim.Invariant, string) {
			if r.Stats.Elections > 1 {
				return alike, fmt.Sprintf("%d elections: n2 was elected, and its clock runs at 140 %% of the rate of the others", r.Stats.Elections)
			}
			return "", ""
		}, script: func(s *sim.Schedule) {
			straight(s)
			for i := 2; i <= 5; i++ {
				s.Ops = append(s.Ops, sim.Op{At: 0, Kind: sim.OpWithdraw, Node: node(i), For: s.Faults})
			}
			s.Ops[0].For = 15 * time.Second
			s.Ops = append(s.Ops,
				sim.Op{At: ms(10_000), Kind: sim.OpRate, Node: "n2", Value: 400_000},
				sim.Op{At: ms(20_000), Kind: sim.OpKill, Node: "n1"})
		}}
	case "refusal-adopts-term":
		// A leader may have to move on to a higher term without a breach of this rule: the
		// candidate is in that term itself. So the answers are judged.
		return Ground{Name: "storm, its votes judged", Options: sim.Options{Profile: "storm"}, judge: nothing}
	case "old-heartbeat-extends":
		return Ground{Name: "heartbeats of the dead", Options: quiet(3, 40*time.Second), judge: within(4 * time.Second), script: func(s *sim.Schedule) {
			first(s, 3)
			s.Ops = append(s.Ops, sim.Op{At: ms(10_000), Kind: sim.OpPowerLoss, Node: "n1", For: 25 * time.Second})
			for at := int64(10_100); at < 30_000; at += 300 {
				for i := 2; i <= 3; i++ {
					s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpReplay, Node: "n1", Peer: node(i), Count: 5})
				}
			}
		}}
	case "leader-without-quorum-keeps-promising":
		// n2 hears all, n1 only n2, and n5 is dead: only with n2 is there a majority.
		return Ground{Name: "a hub", Options: quiet(5, 40*time.Second), judge: within(900 * time.Millisecond), script: func(s *sim.Schedule) {
			first(s, 5)
			s.Ops = append(s.Ops,
				sim.Op{At: ms(8_000), Kind: sim.OpKill, Node: "n5"},
				sim.Op{At: ms(10_000), Kind: sim.OpBridge, Node: "n2", Group: []protocol.NodeID{"n1"}, For: 30 * time.Second})
		}}
	}
	return ofMembers(mutant)
}

// forgotten is what may fail where a store forgets counts.
var forgotten = []sim.Invariant{sim.OneLeader, sim.Once, sim.TokensRise, sim.NoStale, sim.NoneOffered}

func ofLease(mutant string) Ground {
	const own = `{"global_versions":false}` // its counter is in the record alone
	switch mutant {
	case "wait-own-duration", "duration-changes":
		return Ground{Name: "different durations", Options: with(sim.Options{Profile: "storm"}, `{"each":{"n1":{"duration":5000000000}}}`)}
	case "store-change-ignored":
		// The store forgets the tenure that began after n1 had resigned, and the participant that
		// returns has not seen it either. The counter goes back with the record, the holder does
		// not.
		return Ground{
			Name: "failovers of the store", may: forgotten,
			Options: quiet(3, 60*time.Second),
			script: func(s *sim.Schedule) {
				first(s, 3)
				s.Work.Stop = 10 * time.Millisecond
				s.Ops = append(s.Ops,
					sim.Op{At: ms(19_000), Kind: sim.OpStoreDown, Node: "n3", For: 2 * time.Second},
					sim.Op{At: ms(20_000), Kind: sim.OpResign, Node: "n1"},
					sim.Op{At: ms(20_900), Kind: sim.OpFailover, Count: 1})
			},
		}
	case "count-reuse", "delete-on-release":
		return Ground{Name: "versions that begin anew", Options: with(sim.Options{Profile: "storm"}, own)}
	case "conflict-is-failure":
		return Ground{Name: "a client that repeats its writes", Options: quiet(3, 20*time.Minute), judge: stays, script: func(s *sim.Schedule) {
			s.Store.Repeat = 0.5
		}}
	case "renewal-stops-at-drain":
		return Ground{Name: "work that takes its time to return", Options: quiet(3, 20*time.Minute), script: func(s *sim.Schedule) {
			s.Work.Stop, s.Work.Drain = 40*time.Second, time.Second
			for at := int64(60_000); at < 1_100_000; at += 120_000 {
				s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpResign, Node: sim.Leader})
			}
		}, judge: func(r *sim.Result, _ *watcher) (sim.Invariant, string) {
			if soonest, ok := r.Stats.Takeover(0); ok && soonest < 40*time.Second {
				return joined, fmt.Sprintf("another led %v after a term was resigned whose work took 40s to return", soonest)
			}
			return "", ""
		}}
	case "put-back-is-current":
		// n2 asks for 15 s and is cut off. The record that is put back is n1's.
		return Ground{Name: "a shorter tenure's record put back by hand", Options: with(quiet(3, 60*time.Second), `{"each":{"n1":{"duration":5000000000},"n3":{"duration":5000000000}}}`), script: func(s *sim.Schedule) {
			first(s, 3)
			s.Work.Stop = 10 * time.Millisecond
			s.Ops = append(s.Ops,
				sim.Op{At: ms(19_000), Kind: sim.OpWithdraw, Node: "n3", For: 15 * time.Second},
				sim.Op{At: ms(20_000), Kind: sim.OpWithdraw, Node: "n1", For: 10 * time.Second},
				sim.Op{At: ms(40_000), Kind: sim.OpStoreDown, Node: "n2", For: 15 * time.Second},
				sim.Op{At: ms(40_001), Kind: sim.OpForeign, Count: 12})
		}}
	case "older-renewal-is-current":
		// n3 is cut off when n2 takes over, for 15 s, and so is n2 when the store goes back to a
		// renewal of n1's that is older than the one that n3 has seen.
		return Ground{
			Name: "an older renewal comes back with the store", may: forgotten,
			Options: with(quiet(3, 60*time.Second), `{"each":{"n1":{"duration":5000000000},"n3":{"duration":5000000000}}}`),
			script: func(s *sim.Schedule) {
				first(s, 3)
				s.Work.Stop = 10 * time.Millisecond
				s.Ops = append(s.Ops,
					sim.Op{At: ms(35_000), Kind: sim.OpStoreDown, Node: "n3", For: 6 * time.Second},
					sim.Op{At: ms(36_000), Kind: sim.OpWithdraw, Node: "n1", For: 20 * time.Second},
					sim.Op{At: ms(40_000), Kind: sim.OpStoreDown, Node: "n2", For: 15 * time.Second},
					sim.Op{At: ms(40_001), Kind: sim.OpRollback, Count: 8})
			},
		}
	case "seen-count-ignored", "gone-back-ignored":
		return Ground{
			Name:    "a store that goes back",
			Options: only(sim.OpRollback, sim.OpStoreSlow, sim.OpStoreUnknown, sim.OpPause, sim.OpResign),
			script: func(s *sim.Schedule) {
				s.Beyond = true // all but above-seen is excused
				for at := ms(20_000); at < sim.Time(s.Faults); at += ms(7_000) {
					s.Ops = append(s.Ops, sim.Op{At: at, Kind: sim.OpRollback, Count: 1 + int(at/ms(7000))%5})
				}
			},
		}
	case "mark-of-another":
		return Ground{Name: "an old record put back by hand", Options: quiet(3, 20*time.Minute), script: func(s *sim.Schedule) {
			// The record that is put back is the free one between two tenures.
			s.Work.Stop = 10 * time.Millisecond
			for at := int64(60_000); at < 1_100_000; at += 60_000 {
				s.Ops = append(s.Ops,
					sim.Op{At: ms(at), Kind: sim.OpResign, Node: sim.Leader},
					sim.Op{At: ms(at + 3_000), Kind: sim.OpForeign, Count: 1},
					// And the last one held by a participant that has resigned.
					sim.Op{At: ms(at + 25_000), Kind: sim.OpForeign, Count: 8})
			}
		}}
	}
	return Ground{}
}

func ofQueue(mutant string) Ground {
	const (
		hold           = `{"max_hold":10000000000,"hold":10000000000,"drift":{"ppm":0,"guard":2000000}}`
		mended         = `{"servers_mended":true}`
		differentHolds = `{"max_hold":10000000000,"each":{"n1":{"hold":10000000000}}}`
	)
	switch mutant {
	case "no-verify":
		return Ground{Name: "a waiter's key deleted by hand", Options: with(quiet(3, 60*time.Second), mended), script: func(s *sim.Schedule) {
			first(s, 3)
			s.Ops = append(s.Ops, sim.Op{At: ms(12_000), Kind: sim.OpForeign, Node: "n3"})
			for at := int64(20_000); at < 60_000; at += 10_000 {
				s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpResign, Node: sim.Leader})
			}
		}}
	case "key-deleted-lease-kept":
		return Ground{Name: "keys deleted by hand", Options: with(only(sim.OpExpireEarly, sim.OpForeign, sim.OpPause, sim.OpStoreSlow, sim.OpStoreUnknown, sim.OpResign), hold)}
	case "deadline-across-streams":
		return Ground{
			Name: "a slow store, and patience with it", Options: with(only(sim.OpStoreSlow, sim.OpStoreDown, sim.OpPause), `{"servers_mended":true,"keep_alive_every":500000000,"drift":{"ppm":0,"guard":2000000}}`),
			script: func(s *sim.Schedule) { s.Store.Timeout = 8 * time.Second },
		}
	case "renewing-after-deadline":
		return Ground{Name: "storm, its asks judged", Options: sim.Options{Profile: "storm"}, judge: nothing}
	case "deadline-from-answer":
		return Ground{Name: "a slow store", Options: with(only(sim.OpPause, sim.OpStoreSlow, sim.OpStoreDown, sim.OpStoreUnknown), `{"servers_mended":true,"drift":{"ppm":0,"guard":2000000}}`)}
	case "ignore-drift":
		return Ground{Name: "mended servers", Options: with(sim.Options{Profile: "storm"}, mended)}
	case "free-outside-the-delete":
		return Ground{Name: "work that outlives its process", Options: quiet(3, 60*time.Second), script: func(s *sim.Schedule) {
			first(s, 3)
			s.Work.Stop, s.Work.Outlives = 3*time.Second, true
			s.Ops = append(s.Ops,
				sim.Op{At: ms(20_000), Kind: sim.OpResign, Node: "n1"},
				sim.Op{At: ms(21_000), Kind: sim.OpKill, Node: "n1", For: 20 * time.Second},
				sim.Op{At: ms(21_200), Kind: sim.OpExpireEarly, Node: "n1"})
		}}
	case "unmarked-is-free":
		return Ground{Name: "a queue that was lost", Options: quiet(3, 40*time.Second), script: func(s *sim.Schedule) {
			s.Ops = append(s.Ops, sim.Op{At: ms(12_000), Kind: sim.OpFailover, Count: 60})
		}}
	case "adopt-from-older-session", "scan-without-sync", "session-replaced-silently":
		return Ground{Name: "lost answers, the asks judged", Options: tight(only(sim.OpPause, sim.OpStoreUnknown, sim.OpStaleRead, sim.OpExpireEarly, sim.OpStoreDown)), judge: nothing, script: func(s *sim.Schedule) {
			s.Store.Repeat = 0 // a library that repeats an Enter makes two entries
		}}
	case "servers-taken-for-mended":
		return Ground{Name: "etcd's leader hangs", Options: only(sim.OpStoreHang, sim.OpStoreElect, sim.OpStoreDown, sim.OpKill, sim.OpResign)}
	case "sight-of-an-older-touch":
		return Ground{Name: "different holds, and perfect clocks", Options: with(sim.Options{Profile: "storm"}, `{"max_hold":10000000000,"each":{"n1":{"hold":10000000000},"n2":{"hold":2000000000}},"drift":{"ppm":0,"guard":2000000}}`)}
	case "wait-own-hold":
		return Ground{Name: "different holds", Options: with(sim.Options{Profile: "storm"}, differentHolds)}
	case "unmarked-waits-own-hold":
		return Ground{Name: "a queue that was lost, and different holds", Options: with(quiet(3, 40*time.Second), differentHolds), script: func(s *sim.Schedule) {
			first(s, 3)
			s.Ops = append(s.Ops,
				sim.Op{At: ms(19_900), Kind: sim.OpStoreDown, Node: "n1", For: 20 * time.Second},
				sim.Op{At: ms(20_000), Kind: sim.OpFailover, Count: 60})
		}}
	case "wrong-predecessor":
		return Ground{Name: "nine in the queue", Options: quiet(9, 20*time.Minute), script: func(s *sim.Schedule) {
			for at := int64(60_000); at < 1_100_000; at += 30_000 {
				s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpResign, Node: sim.Leader})
			}
		}, judge: func(r *sim.Result, a *watcher) (sim.Invariant, string) {
			if most := 4 * int(r.Stats.Elections+9); a.lists > most {
				return noHerd, fmt.Sprintf("%d elections took %d lists; want at most %d", r.Stats.Elections, a.lists, most)
			}
			return "", ""
		}}
	}
	return Ground{}
}

// dialect is the protocol in whose world a mutant of the queue is hunted.
func dialect(m queue.Mutant) string {
	switch m.Name {
	case "own-predecessor", "deadline-from-pings", "no-hold-off", "mark-before-hold-off", "free-outside-the-delete",
		"free-without-tenure", "wait-own-hold", "unmarked-waits-own-hold", "unmarked-is-free", "untouched-mark-is-seen", "adopt-from-older-session", "scan-without-sync", "session-replaced-silently":
		return queue.Name + "-zookeeper"
	}
	return queue.Name
}
