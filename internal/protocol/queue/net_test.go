package queue

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// world is a few machines around one store, with faults: a quick test before the simulator's. Time
// is true time, in nanoseconds.
type world struct {
	classictest.Agenda
	rng     *rand.Rand
	cfg     Config
	store   *store
	nodes   []*node
	faults  bool
	timeout int64 // of the drivers, on true time
	trace   []string
	options

	wins     int
	leads    int
	lastLead uint64
	electeds map[uint64]bool
	lapsed   map[uint64]bool
	failure  string
	story    *story
	seen     map[string]int // how often something worth reaching was reached
}

// options are what a world does in addition.
type options struct {
	traced bool
	twins  bool          // each machine is compared with its twin
	reload bool          // each machine is made anew from its state before each step
	every2 func(*Config) // changes every other machine
}

// node is one process with its clocks.
type node struct {
	w      *world
	name   protocol.NodeID
	m      *Machine
	twin   *twin
	fx     protocol.Effects
	life   int
	second bool
	rate   int64 // ppm away from true
	from   int64 // true time at which its Boot clock showed base
	base   protocol.Instant
	off    time.Duration // Boot − Mono

	paused bool
	cut    [2]int64 // until then no request, no answer gets through
	slow   int64    // until then answers take long
	inbox  []func()
	timer  uint64

	open    map[uint64]uint64 // asks that wait for an answer, and their sessions
	working uint64            // the token of work that has not returned
	reason  protocol.Reason   // of the last Stop
	session uint64
}

const rho = 50_000

func newWorld(seed uint64, cfg Config, n int, o options) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		rng: rng, cfg: cfg.withDefaults(), faults: true, options: o,
		electeds: make(map[uint64]bool), lapsed: make(map[uint64]bool), seen: make(map[string]int),
	}
	w.store = newStore(cfg.Dialect, rng, w.rate())
	w.store.election = w.cfg.ServerElection
	for i := range n {
		node := &node{w: w, name: protocol.NodeID(fmt.Sprintf("n%d", i+1)), rate: w.rate(), base: protocol.Instant(rng.Int64N(1e15)), off: time.Duration(rng.Int64N(1e12)), second: i%2 == 1}
		w.nodes = append(w.nodes, node)
		node.boot()
	}
	w.timeout = int64(w.cfg.KeepAliveEvery) * (1 + rng.Int64N(5)) / 2
	w.nemesis()
	w.expiry()
	return w
}

// rate is at the limits in half of the cases.
func (w *world) rate() int64 {
	switch w.rng.IntN(3) {
	case 0:
		return rho
	case 1:
		return -rho
	}
	return w.rng.Int64N(2*rho) - rho
}

// now is true time, in nanoseconds.
func (w *world) now() int64 { return int64(w.Now) }

func (w *world) after(d int64, do func()) {
	w.In(time.Duration(d), func() {
		w.store.now = w.now()
		do()
	})
}

func (w *world) logf(format string, args ...any) {
	if w.traced {
		w.trace = append(w.trace, fmt.Sprintf("%12.6f ", float64(w.now())/1e9)+fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf("at %v: ", w.Now) + fmt.Sprintf(format, args...)
		w.logf("FAILED %s", w.failure)
	}
}

// run runs until the time, or a failure.
func (w *world) run(until time.Duration) {
	for w.failure == "" && w.Next(until) {
	}
	w.Now = until
}

func (n *node) local() protocol.Instant {
	d := n.w.now() - n.from
	return n.base + protocol.Instant(d+d*n.rate/1_000_000)
}

func (n *node) reading() protocol.Reading {
	l := n.local()
	return protocol.Reading{Boot: l, Mono: l - protocol.Instant(n.off)}
}

func (n *node) boot() {
	cfg := n.w.cfg
	cfg.Self = n.name
	if n.w.every2 != nil && n.second {
		n.w.every2(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		panic(err)
	}
	n.life++
	n.m, n.open, n.working, n.inbox, n.paused, n.session, n.reason = m, make(map[uint64]uint64), 0, nil, false, 0, ""
	n.twin = newTwin(m.cfg)
	n.step(protocol.Input{Kind: protocol.Boot})
	n.do(protocol.Campaign)
}

func (n *node) do(v protocol.Verb) {
	n.deliver(func() { n.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v}}) })
}

// deliver hands something in: at once, or when the pause is over.
func (n *node) deliver(f func()) {
	if n.paused {
		n.inbox = append(n.inbox, f)
		return
	}
	f()
}

func (n *node) step(in protocol.Input) {
	w := n.w
	if w.failure != "" {
		return
	}
	in.Now, in.Rand = n.reading(), w.rng.Uint64()
	before := n.m.View()
	phase := n.m.phase
	n.fx.Reset()
	if w.reload {
		m, err := New(n.m.Config())
		if err == nil {
			err = m.LoadState(n.m.AppendState(nil))
		}
		if err != nil {
			w.fail("%s: reload: %v", n.name, err)
			return
		}
		n.m = m
	}
	n.m.Step(&in, &n.fx)
	w.logf("%s %v %s→%s %v", n.name, describe(&in), phaseName(phase), phaseName(n.m.phase), describeEffects(&n.fx))
	if w.story != nil {
		w.story.stepped(n, &in, phase)
	}
	n.judgeStep(&in, &before)
	if w.twins {
		n.twin.step(&in, &n.fx)
		if err := n.twin.compare(n.m, in.Now.Boot); err != "" {
			w.fail("%s: twin: %s", n.name, err)
		}
	}
	orders := slices.Clone(n.fx.Orders)
	asks := slices.Clone(n.fx.Asks)
	for _, o := range orders {
		n.order(o)
	}
	for i := range asks {
		n.send(&asks[i])
	}
	n.arm()
	w.judge()
}

// order acts as a program would: it works, and stops a while after Stop.
func (n *node) order(o protocol.Order) {
	w := n.w
	switch o.Kind {
	case protocol.Elected:
		if w.electeds[o.Token] {
			w.fail("%s: token %d was elected before", n.name, o.Token)
		}
		w.electeds[o.Token] = true
		n.working = o.Token
		w.wins++
	case protocol.Lead:
		if o.Token <= w.lastLead {
			w.fail("%s: leads with token %d after %d", n.name, o.Token, w.lastLead)
		}
		w.lastLead = o.Token
		w.leads++
		// The fewer tenures end by themselves, the fewer there are.
		if w.story == nil && w.rng.IntN(4) > 0 {
			w.later(n, w.rng.Int64N(int64(w.cfg.TTL)), func() { n.do(protocol.Resign) })
		}
	case protocol.Stop:
		if o.Reason == Superseded {
			w.fail("%s: superseded with token %d, though nobody enters before the first", n.name, o.Token)
		}
		w.seen["stop "+string(o.Reason)]++
		join := int64(0)
		if w.story != nil {
			join = int64(w.story.join)
		} else if w.rng.IntN(3) == 0 {
			join = w.rng.Int64N(int64(w.cfg.TTL) / 2)
		}
		w.later(n, join, func() {
			n.deliver(func() {
				n.working = 0
				n.step(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Joined, Token: o.Token}})
			})
		})
	}
}

// later calls do for this incarnation of a node.
func (w *world) later(n *node, d int64, do func()) {
	life := n.life
	w.after(d, func() {
		if n.life == life {
			do()
		}
	})
}

func (n *node) arm() {
	n.timer++
	timer, at := n.timer, n.m.NextFire()
	if at == protocol.Never {
		return
	}
	local := int64(at - n.base)
	d := n.from + local*1_000_000/(1_000_000+n.rate) + 1 - n.w.now()
	if at < n.local() {
		d = 0
	}
	if n.w.faults && n.w.rng.IntN(10) == 0 {
		d += n.w.rng.Int64N(2e7)
	}
	n.w.later(n, d, func() {
		n.deliver(func() {
			if n.timer == timer {
				n.step(protocol.Input{Kind: protocol.Fire})
			}
		})
	})
}

// delay of one way: short, sometimes long, rarely very long.
func (w *world) delay() int64 {
	if w.story != nil {
		return int64(5 * time.Millisecond)
	}
	d := int64(w.rng.ExpFloat64() * 2e6)
	if w.faults {
		switch w.rng.IntN(60) {
		case 0:
			d += w.rng.Int64N(int64(w.cfg.TTL) * 2)
		case 1, 2, 3:
			d += w.rng.Int64N(int64(w.cfg.KeepAliveEvery) * 2)
		}
	}
	return d
}

func (w *world) chance(percent int) bool { return w.faults && w.rng.IntN(100) < percent }

// send brings an ask to the store, and its answer back: once, or unknown.
func (n *node) send(a *protocol.Ask) {
	w, ask, life := n.w, *a, n.life
	if a.Op == protocol.WatchEntry || a.Op == protocol.WatchTouch {
		n.sendWatch(ask)
		return
	}
	if w.chance(1) {
		w.later(n, 0, func() { n.answer(protocol.Answer{Number: ask.Number, Status: protocol.StatusRefused}) })
		n.open[a.Number] = a.Session
		return
	}
	n.open[a.Number] = a.Session
	copies := 1
	if w.cfg.Dialect == Etcd && w.chance(2) && a.Op != protocol.OpenSession {
		copies = 2 // a library's own retry
	}
	for range copies {
		if w.chance(4) || w.now() < n.cut[0] {
			continue
		}
		w.after(w.delay(), func() {
			ans := w.store.apply(n, life, &ask)
			w.logf("  store: %s of %s → %s", ask.Op, n.name, ans.Status)
			w.judgeStore()
			back := w.delay()
			if w.now() < n.slow {
				back += w.rng.Int64N(w.timeout)
			}
			if w.story != nil && w.story.loses(n, &ask) {
				return
			}
			if !w.chance(4) && w.now() >= n.cut[1] {
				w.later(n, back, func() { n.answer(ans) })
			}
		})
	}
	w.later(n, w.timeout, func() { n.answer(protocol.Answer{Number: ask.Number, Status: protocol.StatusUnknown}) })
}

// answer hands in the first answer.
func (n *node) answer(a protocol.Answer) {
	n.deliver(func() {
		asked, open := n.open[a.Number]
		if open || n.w.cfg.mutants.Has("deadline-across-streams") && a.TTL > 0 {
			delete(n.open, a.Number)
			n.step(protocol.Input{Kind: protocol.Replied, Answer: a})
			if a.Session != 0 && open && asked == n.session && a.Session != asked && n.m.phase == leading {
				n.w.fail("%s: leads on after an answer from session %d", n.name, a.Session)
			}
		}
	})
}

func (n *node) sendWatch(ask protocol.Ask) {
	w := n.w
	closed := false
	tell := func(s protocol.Status, touched uint64) {
		a := protocol.Answer{Number: ask.Number, Status: s}
		if touched != 0 {
			a.Mark = protocol.QueueMark{Order: ask.Entry.Order, Touched: touched}
		}
		w.later(n, w.delay(), func() {
			n.deliver(func() {
				if !closed {
					n.step(protocol.Input{Kind: protocol.Replied, Answer: a})
					closed = s == protocol.StatusClosed
				}
			})
		})
	}
	if w.chance(3) {
		tell(protocol.StatusClosed, 0)
		return
	}
	w.after(w.delay(), func() {
		w.store.watch(&ask, func(s protocol.Status, touched uint64) {
			if !w.chance(5) { // lost
				tell(s, touched)
			}
			if w.chance(5) { // doubled
				tell(s, touched)
			}
		})
	})
	if w.chance(5) { // stale, or of something else
		tell(protocol.StatusEvent, 0)
	}
	if w.chance(10) {
		w.later(n, w.rng.Int64N(int64(w.cfg.TTL)*2), func() { tell(protocol.StatusClosed, 0) })
	}
}

// expiry lets the store's clock end sessions.
func (w *world) expiry() {
	ids := make([]uint64, 0, len(w.store.sessions))
	for id, x := range w.store.sessions {
		if !x.gone {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		x := w.store.sessions[id]
		if w.store.dialect == ZooKeeper {
			// The runtime pings while the process runs. A ping reaches a server of the ensemble,
			// not always the one that counts.
			if x.node.life == x.life && !x.node.paused && x.replaced == 0 && !w.chance(30) {
				x.pinged = w.now()
			}
			x.expires = x.pinged + w.store.served(x.ttl)
			if w.faults && w.rng.IntN(3000) == 0 {
				x.expires = w.now()
			}
			if w.faults && w.rng.IntN(3000) == 0 && x.replaced == 0 {
				x.replaced = w.store.open(x.node, x.life, x.ttl).id
			}
		}
		if w.now() >= x.expires {
			w.logf("  store: session %d of %s expires", x.id, x.node.name)
			if w.story != nil {
				w.story.line("store", "session %d of %s has expired", x.id, x.node.name)
			}
			w.store.end(x)
		}
	}
	w.after(int64(w.cfg.TTL)/40, w.expiry)
}

// nemesis injects a fault from time to time.
func (w *world) nemesis() {
	w.after(w.rng.Int64N(int64(w.cfg.TTL)/2), w.nemesis)
	if !w.faults {
		return
	}
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(18) {
	case 0, 1: // pause
		if n.paused {
			break
		}
		n.paused = true
		d := w.rng.Int64N(int64(w.cfg.TTL) / 2)
		if w.rng.IntN(2) == 0 {
			d *= 5
		}
		w.logf("  %s pauses for %v", n.name, time.Duration(d))
		w.later(n, d, n.resume)
	case 2: // the process dies and comes back
		w.logf("  %s restarts", n.name)
		n.boot()
	case 3: // a clock's rate changes
		n.base, n.from = n.local(), w.now()
		n.rate = w.rate()
		n.arm()
	case 4: // the Boot clock is set, the other one goes on
		if w.rng.IntN(3) == 0 {
			jump := w.rng.Int64N(int64(w.cfg.TTL)*2) - int64(w.cfg.TTL)
			n.base, n.from = n.local()+protocol.Instant(jump), w.now()
			n.off += time.Duration(jump)
			w.logf("  %s: its clock jumps by %v", n.name, time.Duration(jump))
			n.arm()
		}
	case 5:
		n.do(protocol.Withdraw)
		w.later(n, w.rng.Int64N(int64(w.cfg.TTL)), func() { n.do(protocol.Campaign) })
	case 6:
		n.do(protocol.Sicken)
		w.later(n, w.rng.Int64N(int64(w.cfg.TTL)), func() { n.do(protocol.Recover) })
	case 7, 8:
		n.do(protocol.Confirm)
	case 9: // an operator deletes an entry: any that the hold-off covers, or one that waits
		least := 1
		if w.cfg.Hold > 0 {
			least = 0
		}
		if len(w.store.entries) > least {
			e := w.store.entries[least+w.rng.IntN(len(w.store.entries)-least)]
			w.logf("  somebody deletes entry %d of %s", e.Order, e.Holder)
			w.store.remove(e.Order)
		}
	case 10: // the store has a new leader, by another clock
		if w.cfg.Dialect == Etcd {
			// The old leader is heard for two election timeouts by its clock after the others last
			// heard it; the new one begins after one by its own.
			last := w.now() - int64(w.cfg.ServerElection)*1_000_000/(1_000_000+w.cfg.Drift.PPM)
			w.store.stale = last + 2*int64(w.cfg.ServerElection)*1_000_000/(1_000_000+w.store.server)
			w.store.server = w.rate()
			for _, x := range w.store.sessions {
				x.expires = w.now() + w.store.served(x.ttl+w.cfg.ServerElection)
			}
		}
	case 11:
		n.deliver(func() { n.step(protocol.Input{Kind: protocol.PeerClosed}) })
	case 12:
		n.do(protocol.Resign)
	case 13, 14: // no connection, in one direction or both, at once or after a time of slow answers
		until := w.now() + w.rng.Int64N(2*int64(w.cfg.TTL))
		way := w.rng.IntN(3)
		w.logf("  %s is cut off until %v (%d)", n.name, time.Duration(until), way)
		if way != 0 {
			n.cut[0] = until
		}
		if way != 1 {
			n.cut[1] = until
		}
	case 15, 16:
		n.slow = w.now() + w.rng.Int64N(int64(w.cfg.TTL))
		if w.rng.IntN(2) == 0 {
			slow := n.slow
			w.after(slow-w.now(), func() { n.cut[0] = slow + 2*int64(w.cfg.TTL) })
		}
	}
}

func (n *node) resume() {
	n.paused = false
	inbox := n.inbox
	n.inbox = nil
	life := n.life
	for _, f := range inbox {
		if n.life == life {
			f()
		}
	}
}

// settle ends the faults and expects a leader.
func (w *world) settle() {
	if w.failure != "" {
		return
	}
	w.faults = false
	for _, n := range w.nodes {
		n.cut, n.slow = [2]int64{}, 0
		n.do(protocol.Campaign)
		n.do(protocol.Recover)
	}
	from := w.Now
	w.run(from + 12*w.cfg.TTL)
	leads := w.leads
	w.run(from + 20*w.cfg.TTL)
	if w.failure == "" && w.leads == leads && !slices.ContainsFunc(w.nodes, func(n *node) bool { v := n.m.View(); return v.Proven(n.reading()) }) {
		var phases []string
		for _, n := range w.nodes {
			phases = append(phases, phaseName(n.m.phase))
		}
		w.fail("nobody leads though nothing is broken any more: %v", phases)
	}
}

func phaseName(p phase) string {
	return [...]string{"down", "idle", "opening", "entering", "syncing", "scanning", "listing", "waiting", "renewing", "touching", "verifying", "leading", "fencing", "freeing", "closing", "halted"}[p]
}

func describe(in *protocol.Input) string {
	switch in.Kind {
	case protocol.Replied:
		a := &in.Answer
		return fmt.Sprintf("@%v answer %d %s entry %d ttl %v mark %v", in.Now.Boot, a.Number, a.Status, a.Entry.Order, a.TTL, a.Mark)
	case protocol.Do:
		return fmt.Sprintf("@%v do %s", in.Now.Boot, in.Command.Verb)
	}
	return fmt.Sprintf("@%v %s", in.Now.Boot, in.Kind)
}

func describeEffects(fx *protocol.Effects) string {
	var b strings.Builder
	for _, o := range fx.Orders {
		fmt.Fprintf(&b, " %s(%d) %s", o.Kind, o.Token, o.Reason)
	}
	for _, a := range fx.Asks {
		fmt.Fprintf(&b, " ?%d %s", a.Number, a.Op)
	}
	return b.String()
}

// settings are the configurations that the net runs with.
func settings() map[string]Config {
	return map[string]Config{
		"etcd":      {Self: "n0", Dialect: Etcd, ServersFixed: true},
		"etcd-hold": {Self: "n0", Dialect: Etcd, Hold: 5 * time.Second},
		"zookeeper": {Self: "n0", Dialect: ZooKeeper},
	}
}

// seeds is how many worlds TestNet runs in each setting.
var seeds = flag.Uint64("seeds", 30, "worlds that the net runs in each setting")

// one runs one world.
func one(seed uint64, cfg Config, o options) *world {
	rng := rand.New(rand.NewPCG(seed, 2))
	cfg.KeepAliveEvery = 0
	if rng.IntN(3) == 0 {
		cfg.TTL = time.Duration(5+rng.IntN(20)) * time.Second
		if cfg.Hold != 0 {
			cfg.Hold = cfg.TTL / 2
		}
	}
	if cfg.Dialect == ZooKeeper && rng.IntN(2) == 0 {
		cfg.Hold = cfg.withDefaults().TTL
	}
	cfg.MaxHold = cfg.withDefaults().TTL
	w := newWorld(seed, cfg, 2+rng.IntN(4), o)
	w.run(20 * time.Minute)
	w.settle()
	return w
}

// TestNet runs the machines under every fault that they tolerate.
func TestNet(t *testing.T) {
	for name, cfg := range settings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wins, leads := 0, 0
			seen := make(map[string]int)
			for seed := range *seeds / long.Or[uint64](1, 4) {
				w := one(seed+1, cfg, options{twins: true})
				wins += w.wins
				leads += w.leads
				for k, v := range w.seen {
					seen[k] += v
				}
				if w.failure != "" {
					w = one(seed+1, cfg, options{traced: true, twins: true})
					t.Fatalf("seed %d: %s\n%s", seed+1, w.failure, strings.Join(w.trace[max(0, len(w.trace)-150):], "\n"))
				}
			}
			t.Logf("%d runs, %d wins, %d tenures; reached: %v", *seeds, wins, leads, seen)
		})
	}
}

// TestNetReloaded runs worlds in which each machine is replaced by one loaded from its state before
// each step. The runs must be the same.
func TestNetReloaded(t *testing.T) {
	for name, cfg := range settings() {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= long.Or[uint64](3, 1); seed++ {
				want := one(seed, cfg, options{traced: true})
				got := one(seed, cfg, options{traced: true, reload: true})
				for i, line := range want.trace {
					if i >= len(got.trace) || got.trace[i] != line {
						t.Fatalf("seed %d, line %d:\n%s\nreloaded:\n%s", seed, i, line, got.trace[min(i, len(got.trace)-1)])
					}
				}
				if want.leads == 0 || len(got.trace) != len(want.trace) {
					t.Fatalf("seed %d: %d tenures, %d lines, reloaded %d", seed, want.leads, len(want.trace), len(got.trace))
				}
			}
		})
	}
}
