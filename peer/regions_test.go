package peer

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/conditions"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/regions.md anew")

const (
	regionsPath  = "../docs/regions.md"
	regionsBegin = "<!-- This table is measured: ELECT_LONG=1 go test ./peer -run TestRegions -parallel 12 -rewrite -->\n"
	regionsEnd   = "<!-- Here it ends. -->\n"
)

// placement says in which region each voter is, and whether an observer is in a region of its own.
type placement struct {
	name     string
	regions  []int
	observed bool
}

func placements() []placement {
	return []placement{
		{"3", []int{0, 0, 0}, true},
		{"2+1", []int{0, 0, 1}, false},
		{"1+1+1", []int{0, 1, 2}, false},
		{"2+2+1", []int{0, 0, 1, 1, 2}, false},
	}
}

// times are those that elect doctor accepts for a placement at a round trip.
func (p placement) times(roundTrip time.Duration) (cfg Config, name string) {
	switch {
	case slices.Max(p.regions) == 0: // voters have short ways to each other
		return Config{}, "`lan`"
	case roundTrip <= 100*time.Millisecond:
		return Config{Profile: "wan"}, "`wan`"
	default: // two round trips would not fit the slot of wan
		return Config{Profile: "wan", Heartbeat: time.Second}, "`wan`, heartbeat 1 s"
	}
}

// TestRegions measures elections whose voters are in several regions: nodes of this process, with TCP and TLS over cables
// that delay each byte by half a round trip. It fails if an election after a death waits for a promise, or a takeover
// after a cut for more than the plan's worst and a promise.
func TestRegions(t *testing.T) {
	long.Full(t, "it waits for leases of seconds")
	rounds := 1
	if *rewrite {
		rounds = 5
	}
	before := conditions.Load()
	var mu sync.Mutex
	rows := map[string]string{}
	var order []string
	t.Run("all", func(t *testing.T) { // returns when all are measured
		for _, roundTrip := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
			for _, p := range placements() {
				name := fmt.Sprintf("%v %s", roundTrip, p.name)
				order = append(order, name)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					row := measureRegions(t, p, roundTrip, rounds)
					mu.Lock()
					defer mu.Unlock()
					rows[name] = row
				})
			}
		}
	})
	var b strings.Builder
	fmt.Fprint(&b, "| round trip | voters | times | worst | first | died: elected | active, keeper | active | cut off | to n2 | to the last | observer | bytes/s |\n")
	fmt.Fprint(&b, "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range order {
		b.WriteString(rows[name])
	}
	if after := conditions.Load(); before != nil && after != nil {
		fmt.Fprintf(&b, "\nMedians of %d in ms, at a load of %.0f to %.0f on %d cores.\n", rounds, before[0], after[0], runtime.NumCPU())
	}
	t.Logf("\n%s", b.String())
	if !*rewrite || t.Failed() {
		return
	}
	text, err := os.ReadFile(regionsPath)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), regionsBegin)
	_, tail, ok2 := strings.Cut(rest, regionsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", regionsPath, regionsBegin, regionsEnd)
	}
	if err := os.WriteFile(regionsPath, []byte(head+regionsBegin+"\n"+b.String()+"\n"+regionsEnd+tail), 0o666); err != nil {
		t.Fatal(err)
	}
}

// measureRegions returns a row of the table.
func measureRegions(t *testing.T, p placement, roundTrip time.Duration, rounds int) string {
	took, heirs := map[string][]time.Duration{}, map[protocol.NodeID]int{}
	note := func(what string, d time.Duration) { took[what] = append(took[what], d) }
	cfg, times := p.times(roundTrip)

	for range rounds {
		c := newRegions(t, p, roundTrip, cfg)
		begin := time.Now()
		c.all()
		note("first", c.next("").active.Sub(begin))
		c.closeAll()
	}

	c := newRegions(t, p, roundTrip, cfg)
	c.all()
	c.next("")
	first, last := c.voters[0], c.voters[len(c.voters)-1]
	c.home(first)
	plan := c.node(first).Plan()
	rate := c.rate(20 * plan.Heartbeat)
	for range rounds {
		for _, witnessed := range []bool{false, true} {
			c.undisturbed(func() {
				begin, seen := c.dies(c.home(first), witnessed)
				w := c.next(first)
				c.stand(first)
				elected, active := w.elected.Sub(begin), w.active.Sub(begin)
				what := "active"
				if witnessed {
					what = "witnessed"
				}
				c.note = func() {
					heirs[w.id]++
					note("elected", elected)
					note(what, active)
					if p.observed {
						note("seen", within(t, seen, "an observer that sees the next leader").Sub(w.elected))
					}
					bound := max(plan.Promise/2, 2*time.Second) // with a promise of 1 s the other work of a machine decides
					if elected > bound || witnessed && active > bound {
						t.Errorf("elected %v and active %v after a death (witness: %v); want at most %v, as without the promise of %v", elected, active, witnessed, bound, plan.Promise)
					}
				}
			})
		}
		c.undisturbed(func() {
			c.home(first)
			begin := time.Now()
			c.cut(first, true)
			cut := c.next(first).active.Sub(begin)
			c.cut(first, false)
			c.note = func() {
				note("cut", cut)
				if cut > plan.WorstTakeover+plan.Promise {
					t.Errorf("active %v after a cut; want at most %v, or a promise more if two candidates collide", cut, plan.WorstTakeover)
				}
			}
		})
		for _, to := range []protocol.NodeID{c.voters[1], last} {
			c.undisturbed(func() {
				c.home(first)
				begin, ok := c.hand(to)
				if !ok {
					return
				}
				w := c.next(first)
				c.note = func() {
					note("to "+string(to), w.active.Sub(begin))
					if w.id != to {
						t.Errorf("%s leads after a transfer to %s", w.id, to)
					}
				}
			})
		}
	}
	t.Logf("%v; of %s took over: %v", took, first, heirs)
	ms := func(what string) string {
		all := slices.Sorted(slices.Values(took[what]))
		return fmt.Sprintf("%.0f", float64(all[len(all)/2])/float64(time.Millisecond))
	}
	seen := "–"
	if p.observed {
		seen = ms("seen")
	}
	return fmt.Sprintf("| %d ms | %s | %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %.0f |\n", roundTrip.Milliseconds(), p.name, times, plan.WorstTakeover.Milliseconds(),
		ms("first"), ms("elected"), ms("witnessed"), ms("active"), ms("cut"), ms("to "+string(c.voters[1])), ms("to "+string(last)), seen, rate)
}

// regions is a cluster whose nodes stand all the time, as programs do.
type regions struct {
	*cluster
	across   []*cable.Cable // between regions
	observer *Node          // nil: there is none
	wins     chan victory
	dead     map[protocol.NodeID]chan struct{} // closed before the node dies
	led      *victory                          // the last one
	note     func()                            // see undisturbed
}

// victory is a term, with the instants at which its candidate was elected, and its lease was proven.
type victory struct {
	id              protocol.NodeID
	m               driver.Mandate
	elected, active time.Time
}

func newRegions(t *testing.T, p placement, roundTrip time.Duration, times Config) *regions {
	t.Helper()
	voters, at := names("n", len(p.regions)), map[protocol.NodeID]int{}
	for i, id := range voters {
		at[id] = p.regions[i]
	}
	var observers []protocol.NodeID
	if p.observed {
		observers = names("o", 1)
		at["o1"] = -1
	}
	r := &regions{cluster: newCluster(t, voters, observers, true), wins: make(chan victory, 16), dead: map[protocol.NodeID]chan struct{}{}}
	r.change = func(cfg *setup) {
		cfg.Profile, cfg.Heartbeat, cfg.Promise = times.Profile, times.Heartbeat, times.Promise
	}
	for ends, w := range r.cables {
		if at[ends[0]] != at[ends[1]] {
			w.Delay(roundTrip / 2)
			r.across = append(r.across, w)
		}
	}
	return r
}

// all starts all nodes.
func (r *regions) all() {
	for _, id := range r.voters {
		r.stand(id)
	}
	for _, id := range r.observers {
		r.observer = r.start(id)
	}
}

// stand starts a node that stands until it dies.
func (r *regions) stand(id protocol.NodeID) {
	n, dead := r.start(id), make(chan struct{})
	r.dead[id] = dead
	go func() {
		for {
			m, err := n.Campaign(r.t.Context(), driver.Candidacy{})
			if err != nil {
				return // it has died, or the test ends
			}
			w := victory{id: id, m: m, elected: time.Now()}
			for m.Check() != nil && m.Context().Err() == nil {
				<-time.After(time.Millisecond)
			}
			if w.active = time.Now(); m.Check() == nil {
				r.wins <- w
			}
			select {
			case <-m.Context().Done():
			case <-dead:
				return
			}
			select {
			case <-dead: // the dead release nothing
				return
			default:
				_ = m.Release(context.Background())
			}
		}
	}()
}

// undisturbed has a step measured again if this process did not run for a while meanwhile: that would be the time of the
// machine. A step sets note if it has measured something, which is called if it counts.
func (r *regions) undisturbed(step func()) {
	r.t.Helper()
	pauses := func() uint64 { return r.node(r.voters[1]).Status().Counters.Pauses } // that node is never stopped
	for range 20 {
		before := pauses()
		r.note = nil
		if step(); r.note != nil && pauses() == before {
			r.note()
			return
		}
	}
	r.t.Fatal("nothing was measured in 20 attempts; want a machine that is less busy")
}

// dies ends the leader as its process would end when it is killed: its connections close, and nothing is released. With
// a witness its keeper speaks for it. It returns the instant before, and when an observer sees another leader.
func (r *regions) dies(m driver.Mandate, witnessed bool) (begin time.Time, seen <-chan time.Time) {
	r.t.Helper()
	speak := func(context.Context) error { return nil }
	if witnessed {
		var err error
		if speak, err = Witness(r.t.Context(), m.(driver.Attestable).Testament().Data); err != nil {
			r.t.Fatal(err)
		}
		r.rest() // it connects meanwhile, as that of a term that has lasted
	}
	id := r.led.id
	seen = r.observe(id)
	begin = time.Now()
	close(r.dead[id])
	var closing sync.WaitGroup
	closing.Go(func() { r.stop(id) }) // which waits for far ends, as the kernel does without the process
	<-m.Context().Done()
	if err := speak(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	closing.Wait()
	return begin, seen
}

// next waits until another node than one leads.
func (r *regions) next(than protocol.NodeID) victory {
	r.t.Helper()
	for {
		if w := within(r.t, r.wins, "another leader than "+string(than)); w.id != than {
			r.led = &w
			return w
		}
	}
}

// home has that node lead, and waits until the election is at rest.
func (r *regions) home(id protocol.NodeID) driver.Mandate {
	r.t.Helper()
	for range 20 {
		if r.rest(); r.led.id == id {
			return r.led.m
		}
		if _, ok := r.hand(id); ok {
			w := within(r.t, r.wins, "a leader after a transfer")
			r.led = &w
		}
	}
	r.t.Fatalf("%s does not lead; want a machine that is less busy", id)
	panic("unreachable")
}

// hand hands leadership over, and returns the instant before. It returns false if leadership has moved, or if the node
// cannot take over yet.
func (r *regions) hand(to protocol.NodeID) (begin time.Time, ok bool) {
	r.t.Helper()
	hands := r.led.m.(driver.MandateTransferrer)
	if hands.Eligible(string(to)) != nil {
		return begin, false
	}
	begin = time.Now()
	return begin, hands.Transfer(r.t.Context(), string(to)) == nil
}

// rest waits until all nodes are connected and ready, and a leader leads.
func (r *regions) rest() {
	r.t.Helper()
	var unrest string
	ready := func() bool {
		for _, id := range slices.Concat(r.voters, r.observers) {
			s := r.node(id).Status()
			for _, p := range s.Peers {
				if !p.Connected && !slices.Contains(r.observers, protocol.NodeID(p.ID)) {
					unrest = fmt.Sprintf("%s has no connection with %s", id, p.ID)
					return false
				}
			}
			switch {
			case s.Leader == nil || s.Stale || s.Leader.Token != r.led.m.Token():
				unrest = fmt.Sprintf("%s does not follow %s: %+v", id, r.led.id, s.Leader)
				return false
			case !s.Observes && !s.Ready():
				unrest = fmt.Sprintf("%s is not ready, and owes %v", id, s.Owes)
				return false
			}
		}
		return true
	}
	eventually(r.t, func() bool {
		for len(r.wins) > 0 { // leadership has moved again
			w := <-r.wins
			r.led = &w
		}
		return ready()
	}, func() string { return unrest })
	<-time.After(3 * r.node(r.voters[0]).Plan().Heartbeat) // all have heard of all
}

// observe returns when the observer sees another leader than one, if there is an observer.
func (r *regions) observe(than protocol.NodeID) <-chan time.Time {
	seen := make(chan time.Time, 1)
	if r.observer == nil {
		return seen
	}
	go func() {
		for s, err := range r.observer.Watch(r.t.Context()) {
			if err != nil {
				return
			}
			if s.Leader != nil && !s.Stale && s.Leader.ID != string(than) {
				seen <- time.Now()
				return
			}
		}
	}()
	return seen
}

// rate is what all ways between regions carry at rest, in bytes a second.
func (r *regions) rate(lasts time.Duration) float64 {
	carried := func() (n int64) {
		for _, w := range r.across {
			n += w.Carried()
		}
		return n
	}
	before := carried()
	begin := time.Now()
	<-time.After(lasts)
	return float64(carried()-before) / time.Since(begin).Seconds()
}
