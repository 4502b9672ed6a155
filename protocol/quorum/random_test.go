package quorum

import (
	"flag"
	"testing"
	"time"

	"github.com/electd/elect/protocol"
)

var (
	seeds = flag.Uint64("seeds", 150, "how many random worlds")
	first = flag.Uint64("seed", 1, "the first of them")
)

// chaos builds a random world and what goes wrong in it. Times are short, so
// that much happens: a heartbeat each 10 ms, a promise of 100 ms.
func chaos(seed uint64, change func(*Config)) *world {
	w := newWorld(seed)
	r := w.rng
	n := []int{1, 2, 2, 3, 3, 3, 3, 4, 5, 6}[r.IntN(10)]
	ppm := []int64{0, 50_000, 100_000}[r.IntN(3)]
	ms := members(n)
	pick := func(all ...time.Duration) time.Duration { return all[r.IntN(len(all))] }
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }
	mixed := r.IntN(3) == 0
	for i := range n {
		cfg := Config{
			Self: voter(i), Membership: ms, Heartbeat: 10 * time.Millisecond, Promise: 100 * time.Millisecond,
			Slot: 6 * time.Millisecond, Drift: protocol.Drift{PPM: ppm, Guard: 2 * time.Millisecond},
		}
		if mixed {
			cfg.Promise = pick(60, 100, 200) * time.Millisecond
		}
		if change != nil {
			change(&cfg)
		}
		node := w.add(cfg)
		if ppm > 0 {
			node.rate = []int64{-ppm, ppm, r.Int64N(2*ppm) - ppm}[r.IntN(3)]
		}
		node.zero = upTo(time.Hour)
		w.in(upTo(20*time.Millisecond), node.start)
	}
	w.loss = []float64{0, 0, 0.02, 0.2}[r.IntN(4)]
	w.dup = []float64{0, 0, 0.05, 0.2}[r.IntN(4)]
	slow := pick(time.Millisecond, 3*time.Millisecond, 30*time.Millisecond)
	w.delay = func() time.Duration { return 50*time.Microsecond + upTo(slow) }
	w.late = func() time.Duration { return upTo(3 * time.Second) }
	disk := pick(time.Millisecond, 4*time.Millisecond, 80*time.Millisecond)
	w.fsync = func() time.Duration { return 100*time.Microsecond + upTo(disk) }
	working := pick(time.Millisecond, 20*time.Millisecond, 300*time.Millisecond)
	w.join = func() time.Duration { return upTo(working) }
	if r.IntN(3) == 0 {
		w.close = -1
	}
	pace := pick(8, 20, 50, 150, 600) * time.Millisecond
	workToo := r.IntN(3) == 0
	jumps := r.IntN(5) == 0
	w.jumps = jumps
	replay := r.IntN(3) == 0
	if replay {
		w.keep = 400
	}
	back := pick(5*time.Millisecond, 40*time.Millisecond, 2*pace)

	// Each world has some kinds of faults and lacks others: what one of them
	// needs, another may prevent.
	do := func(n *node, v protocol.Verb) {
		n.log("is told: %v", v)
		n.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v}})
	}
	one := func() int { return r.IntN(n) }
	kinds := []func(victim *node){
		func(v *node) { v.crash(workToo); w.in(upTo(back), v.start) },
		func(v *node) { // and comes back with another configuration
			v.crash(workToo)
			if mixed {
				v.cfg.Promise = pick(60, 100, 200) * time.Millisecond
			}
			w.in(upTo(back), v.start)
		},
		func(v *node) { v.crash(workToo); v.witness(); w.in(upTo(back), v.start) },
		func(v *node) { v.pause(upTo(300*time.Millisecond), jumps && r.IntN(2) == 0) },
		func(v *node) { w.cut[v.i][one()] = true },
		func(v *node) { w.cut[one()][v.i] = true },
		func(v *node) { // cut off from all but one
			for o := range n {
				w.cut[v.i][o], w.cut[o][v.i] = true, true
			}
			o := one()
			w.cut[v.i][o], w.cut[o][v.i] = false, false
		},
		func(v *node) { do(v, protocol.Resign) },
		func(v *node) { // a forged reset
			for _, o := range w.nodes {
				if v.m != nil && r.IntN(4) > 0 {
					o.give(protocol.Input{Kind: protocol.PeerClosed, From: v.cfg.Self.ID, Incarnation: v.m.ballot.Incarnation})
				}
			}
		},
		func(v *node) { do(v, protocol.Sicken); w.in(upTo(pace), func() { do(v, protocol.Recover) }) },
		func(v *node) { v.badDisk = true; w.in(upTo(pace), func() { v.badDisk = false }) },
		func(v *node) { do(v, protocol.Confirm) },
		func(v *node) {
			if jumps {
				v.log("its clock jumps")
				v.zero += upTo(400*time.Millisecond) - 200*time.Millisecond
				v.asleep = time.Duration(v.local(w.now)) - upTo(time.Hour)
				if v.up {
					v.arm()
				}
			}
		},
		func(*node) {
			for range r.IntN(20) {
				if len(w.kept) > 0 {
					p := w.kept[r.IntN(len(w.kept))]
					w.nodes[p.to].give(protocol.Input{Kind: protocol.Receive, From: voter(p.from).ID, Message: p.msg})
				}
			}
		},
	}
	var active []func(*node)
	for _, k := range kinds {
		if r.IntN(2) == 0 {
			active = append(active, k)
		}
	}
	heals := 1 + r.IntN(4)
	var nemesis func()
	nemesis = func() {
		if w.now > chaosTime {
			return
		}
		w.in(upTo(2*pace), nemesis)
		if r.IntN(5) < heals {
			w.cut = [16][16]bool{}
		}
		victim := w.nodes[one()]
		if lead := w.leader(); lead != nil && r.IntN(2) == 0 {
			victim = lead
		}
		if len(active) > 0 {
			active[r.IntN(len(active))](victim)
		}
	}
	w.in(150*time.Millisecond, nemesis)
	return w
}

const chaosTime = 6 * time.Second

// heal ends all faults.
func (w *world) heal() {
	w.cut, w.loss, w.dup = [16][16]bool{}, 0, 0
	// A promise of 60 ms does not hold over round trips of as many.
	w.delay = func() time.Duration { return time.Duration(w.rng.Int64N(int64(3 * time.Millisecond))) }
	for _, n := range w.nodes {
		n.badDisk = false
		n.start()
		n.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Recover}})
	}
}

// TestRandom runs random worlds: nothing may ever be violated, and once all is
// well again somebody must lead, and go on leading.
func TestRandom(t *testing.T) {
	wins, leads := 0, 0
	for seed := *first; seed < *first+*seeds; seed++ {
		w := chaos(seed, nil)
		w.run(chaosTime + 700*time.Millisecond)
		w.heal()
		w.run(chaosTime + 6*time.Second)
		if len(w.violations) > 0 {
			t.Fatalf("seed %d, %d nodes: %v", seed, len(w.nodes), w.violations)
		}
		lead := w.leader()
		if lead == nil {
			t.Fatalf("seed %d, %d nodes: nobody leads long after all faults have ended", seed, len(w.nodes))
		}
		token := lead.view.Token
		w.run(w.now + 2*time.Second)
		if w.leader() != lead || lead.view.Token != token {
			t.Fatalf("seed %d, %d nodes: the leader changed without a fault", seed, len(w.nodes))
		}
		wins, leads = wins+w.wins, leads+w.leads
	}
	t.Logf("%d wins, %d tenures", wins, leads)
}
