//go:build linux && cgo

package leases_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/skew"
)

// site is one election at a real store, and what can befall the store.
type site struct {
	addrs   []string                        // of the servers; none: there is no network
	url     func(addrs []string) string     // of the election, asked there
	victims []victim                        // beside the workers
	heal    func(ctx context.Context) error // undoes what the victims' faults may have left behind; nil: nothing
}

// victim is what has one fault after the other. Faults of different victims overlap.
type victim struct {
	name   string
	faults []fault
}

// fault begins one, and returns its end, which is nil if there is nothing to end. Both may fail where
// something is done by hand at a server that is down. A failed end is tried again.
type fault struct {
	name  string
	begin func(r *rand.Rand) (end func() error, err error)
}

// sites are the stores of storms. Each function starts the servers, and returns what makes a site
// at them.
func sites(t *testing.T) map[string]func(t *testing.T) func(t *testing.T) *site {
	all := map[string]func(t *testing.T) func(t *testing.T) *site{}
	for name, start := range databases(t) {
		all[name] = func(t *testing.T) func(t *testing.T) *site {
			d := start(t)
			return func(t *testing.T) *site { return d.site(t) }
		}
	}
	all["postgresql with a standby"] = func(*testing.T) func(t *testing.T) *site { return newPairSite }
	all["etcd"] = newEtcdSites
	all["redis"] = newRedisSites
	all["redis with a replica"] = func(*testing.T) func(t *testing.T) *site { return newRedisPairSite }
	all["zookeeper"] = newZooKeeperSites
	all["consul"] = newConsulSites
	all["kubernetes"] = newKubernetesSites
	all["nats"] = newNATSSites
	all["s3"] = newS3Sites
	return all
}

// storm is one run of the faults of a seed.
type storm struct {
	*workers
	*site
	seed     uint64
	cables   [3][]*cable.Cable // by worker and server
	clocks   [3]*skew.Clock    // nil where workers have no bent clocks
	election [3]string
}

// step is one fault, as drawn.
type step struct {
	begin, end time.Duration
	victim     *victim
	fault      *fault
	rand       *rand.Rand
	id         int
	undo       func() error
}

// bearable is how long faults last, and the pauses between those of one victim. Half of the faults
// are over before a lease of the tests is, and most of the others are not.
func bearable(r *rand.Rand) (lasts, pause time.Duration) {
	lasts = time.Duration(50+r.IntN(900)) * time.Millisecond
	if r.IntN(2) == 0 {
		lasts = time.Duration(1000+r.IntN(4000)) * time.Millisecond
	}
	return lasts, time.Duration(500+r.IntN(9000)) * time.Millisecond
}

// draw draws the faults that begin within a time. Each victim has a stream of its own.
func (s *storm) draw(victims []victim, within time.Duration) (steps []*step) {
	for i := range victims {
		r := rand.New(rand.NewPCG(s.seed, uint64(i)))
		_, at := bearable(r)
		for at < within {
			lasts, pause := bearable(r)
			v := &victims[i]
			steps = append(steps, &step{begin: at, end: at + lasts, victim: v, fault: &v.faults[r.IntN(len(v.faults))], rand: rand.New(rand.NewPCG(s.seed, r.Uint64()))})
			at += lasts + pause
		}
	}
	return steps
}

// own are the victims of each site: the workers, the ways from them to the servers, and their clocks.
func (s *storm) own() (all []victim) {
	for i := range s.cables {
		stop := func() (cont func() error) {
			p := s.all[i].Process
			_ = p.Signal(syscall.SIGSTOP)
			return func() error { return p.Signal(syscall.SIGCONT) }
		}
		process := victim{fmt.Sprintf("n%d", i), []fault{
			{"killed", func(*rand.Rand) (func() error, error) {
				s.kill(i)
				return func() error { s.workers.start(i, s.election[i]); return nil }, nil
			}},
			{"frozen", func(*rand.Rand) (func() error, error) { return stop(), nil }},
		}}
		if clock := s.clocks[i]; clock != nil {
			process.faults = append(process.faults, fault{"asleep with its computer", func(*rand.Rand) (func() error, error) {
				at, cont := time.Now(), stop()
				return func() error { clock.Suspend(time.Since(at) * 9 / 10); return cont() }, nil
			}})
			all = append(all, victim{fmt.Sprintf("clocks of n%d", i), []fault{{"at another rate", func(r *rand.Rand) (func() error, error) {
				clock.Rate(0.96 + 0.08*r.Float64())
				return nil, nil
			}}}})
		}
		all = append(all, process)
		if len(s.addrs) == 0 {
			continue
		}
		ways := func(name string, there, back cable.Way, lost bool) fault {
			return fault{name, func(r *rand.Rand) (func() error, error) {
				some := s.cables[i]
				if r.IntN(3) == 0 {
					k := r.IntN(len(some))
					some = some[k : k+1]
				}
				for _, c := range some {
					c.Set(there, back)
				}
				return func() error {
					for _, c := range some {
						if lost {
							c.Reset()
						}
						c.Set(cable.Way{}, cable.Way{})
					}
					return nil
				}, nil
			}}
		}
		all = append(all, victim{fmt.Sprintf("way of n%d", i), []fault{
			ways("cut", cable.Way{Cut: true}, cable.Way{Cut: true}, false),
			ways("requests held", cable.Way{Cut: true}, cable.Way{}, false),
			ways("answers held", cable.Way{}, cable.Way{Cut: true}, false),
			ways("answers lost", cable.Way{}, cable.Way{Cut: true}, true),
			ways("requests lost", cable.Way{Cut: true}, cable.Way{}, true),
			ways("slow answers", cable.Way{}, cable.Way{Delay: 100 * time.Millisecond, Jitter: 400 * time.Millisecond}, false),
			ways("reset", cable.Way{}, cable.Way{}, true),
		}})
	}
	return all
}

// newStorm starts three workers. bent is the program of workers whose clocks can be bent, if not "".
func newStorm(t *testing.T, at *site, seed uint64, bent string, env ...string) *storm {
	t.Helper()
	s := &storm{workers: newWorkers(t), site: at, seed: seed}
	s.program = bent
	r := rand.New(rand.NewPCG(seed, 1<<32))
	for i := range s.cables {
		var addrs []string
		for _, addr := range at.addrs {
			c := cableTo(t, addr)
			s.cables[i], addrs = append(s.cables[i], c), append(addrs, c.Addr())
		}
		first := i % max(1, len(addrs)) // each worker asks another server first, or only that
		s.election[i] = at.url(slices.Concat(addrs[first:], addrs[:first]))
		s.env = env
		if bent != "" {
			clock, err := skew.New(filepath.Join(s.dir, fmt.Sprintf("clock-%d", i)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = clock.Close() })
			clock.StepBoth(time.Duration(r.Int64N(int64(1000 * time.Hour))))
			clock.Rate(0.96 + 0.08*r.Float64())
			s.clocks[i] = clock
		}
		s.workers.start(i, s.election[i])
	}
	s.leader()
	return s
}

// rage injects faults for a time, undoes them, and returns the time until there is a leader then.
func (s *storm) rage(within time.Duration) time.Duration {
	s.t.Helper()
	steps := s.draw(append(s.own(), s.victims...), within)
	type event struct {
		*step
		at     time.Duration
		begins bool
	}
	var events []event
	for i, f := range steps {
		f.id = i + 1
		events = append(events, event{f, f.begin, true}, event{f, f.end, false})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var owed []func() error // ends that have failed
	start := time.Now()
	for _, e := range events {
		<-time.After(time.Until(start.Add(e.at)))
		name := e.victim.name + " " + e.fault.name
		if e.begins {
			s.history.Add(judge.Event{Kind: judge.Fault, Node: judge.NoNode, ID: e.id, Fault: name})
			var err error
			if e.undo, err = e.fault.begin(e.rand); err != nil {
				name += fmt.Sprintf(" (not done: %v)", err)
			}
			s.t.Logf("%7.3f s  begins: %s", time.Since(start).Seconds(), name)
			continue
		}
		if e.undo != nil {
			owed = append(owed, e.undo)
		}
		owed = slices.DeleteFunc(owed, func(undo func() error) bool { return undo() == nil })
		s.history.Add(judge.Event{Kind: judge.Heal, Node: judge.NoNode, ID: e.id})
		s.t.Logf("%7.3f s  ends:   %s", time.Since(start).Seconds(), name)
	}
	for i, c := range s.clocks {
		if c != nil {
			c.Rate(1)
			s.t.Logf("the clocks of n%d run true", i)
		}
	}
	if s.heal != nil {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		defer cancel()
		for {
			one, cancel := context.WithTimeout(ctx, time.Second)
			err := s.heal(one)
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				s.t.Fatalf("nothing can be written after the faults: %v", err)
			}
		}
	}
	healed := s.ledger.Now()
	s.t.Logf("%7.3f s  healed", time.Since(start).Seconds())
	return time.Duration(max(0, s.leader().Start-healed))
}

// takeover is the longest one that is promised at a place.
func takeover(t *testing.T, at string) time.Duration {
	t.Helper()
	u, err := elect.ParseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	e, err := openers[u.Scheme](t.Context(), driver.Target{URL: u, Name: "e", ID: "limits"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.Limits().Takeover
}

// seeds are the numbers from 1 to n, or the one that ELECT_CHAOS_SEED says, or as many as
// ELECT_CHAOS_ROUNDS says.
func seeds(t *testing.T, n int) (all []uint64) {
	t.Helper()
	number := func(env string) int {
		text := os.Getenv(env)
		if text == "" {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q; want a number from 1", env, text)
		}
		return n
	}
	if one := number("ELECT_CHAOS_SEED"); one != 0 {
		return []uint64{uint64(one)}
	}
	for seed := range uint64(cmp.Or(number("ELECT_CHAOS_ROUNDS"), n)) {
		all = append(all, seed+1)
	}
	return all
}

// bending builds this program with clocks that can be bent.
func bending(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "test", "-c", "-race=false", "-buildvcs=false", "-tags=chaos", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// busy is what a computer that others use may add to a takeover: the connections that are made
// again, and the waits for a processor.
const busy = 20 * time.Second

// TestStorms injects faults from a seed, one after the other and several at a time. Leaders' times are disjoint, tokens
// rise, and after the last fault there is a leader in time. ELECT_CHAOS_SEED repeats one.
func TestStorms(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy: it starts servers, and waits for leaders")
	worker := bending(t)
	for name, start := range sites(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := start(t)
			for _, seed := range seeds(t, 5) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					at := site(t)
					most := takeover(t, at.url(at.addrs)) + busy
					s := newStorm(t, at, seed, worker)
					defer func() {
						if t.Failed() {
							t.Logf("again: ELECT_LONG=1 ELECT_CHAOS_SEED=%d go test ./test/fencing/leases -run '%s'", seed, strings.ReplaceAll(t.Name(), " ", "_"))
						}
					}()
					took := s.rage(40 * time.Second)
					t.Logf("a leader %v after the end of all faults", took.Round(time.Millisecond))
					if took > most {
						t.Errorf("there was no leader for %v after all was healed; want one in %v", took, most)
					}
				})
			}
		})
	}
}

// TestStormTeeth: storms find a leader that goes on after its loss.
func TestStormTeeth(t *testing.T) {
	long.Full(t, "it needs storms until one finds the mistake")
	worker, site := bending(t), sites(t)["postgresql"](t)
	for _, seed := range seeds(t, 20) {
		var found []judge.Violation
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newStorm(t, site(t), seed, worker, envDeaf+"=1")
			s.judged = func(r *judge.Report) { found = r.Violations }
			s.rage(30 * time.Second)
		})
		if i := slices.IndexFunc(found, func(v judge.Violation) bool { return v.Check == judge.CheckOverlap }); i >= 0 {
			t.Logf("found with seed %d: %s", seed, found[i].Text)
			return
		}
	}
	t.Error("the mistake was not found")
}
