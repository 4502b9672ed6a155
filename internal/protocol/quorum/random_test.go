package quorum

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

var (
	seeds = flag.Uint64("seeds", 150, "the number of random worlds")
	first = flag.Uint64("seed", 1, "the first of them")
)

// chaos builds a random world and its faults. Times are short, so that much happens: a heartbeat
// every 10 ms, a promise of 100 ms.
func chaos(seed uint64, change func(*Config)) *world {
	w := newWorld(seed)
	r := w.rng
	n := []int{1, 2, 2, 3, 3, 3, 3, 4, 5, 6}[r.IntN(10)]
	ppm := []int64{0, 50_000, 100_000}[r.IntN(3)]
	ms := members(n)
	pick := func(all ...time.Duration) time.Duration { return all[r.IntN(len(all))] }
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }
	mixed := r.IntN(3) == 0
	ranked, changing := r.IntN(2) == 0, r.IntN(2) == 0
	policy := []PositionPolicy{IgnorePosition, IgnorePosition, PreferPosition, RequirePosition}[r.IntN(4)]
	least, steady := pick(1, 50, 300, 1000)*time.Millisecond, pick(1, 50, 300)*time.Millisecond
	joiners := 0
	if changing {
		joiners = r.IntN(4)
	}
	for i := range n + joiners {
		cfg := Config{
			Self: voter(i), Membership: ms, Heartbeat: 10 * time.Millisecond, Promise: 100 * time.Millisecond,
			Slot: 6 * time.Millisecond, Drift: protocol.Drift{PPM: ppm, Guard: 2 * time.Millisecond},
			Position: policy, MinTenure: least, Steady: steady,
		}
		if ranked {
			cfg.Priority = []int{0, 50, 200, protocol.MaxPriority}[r.IntN(4)]
			if i > 0 && r.IntN(5) == 0 {
				cfg.Priority = protocol.NeverLead
			}
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
		if i < n {
			w.In(upTo(20*time.Millisecond), node.start)
		} else {
			w.In(upTo(chaosTime/2), node.start)
		}
	}
	w.ranked = ranked
	if changing {
		w.operate(pick(20, 100, 300)*time.Millisecond, chaosTime)
	}
	if policy != IgnorePosition {
		w.move(pick(1, 10, 100)*time.Millisecond, chaosTime)
	}
	following := pick(1, 20, 200) * time.Millisecond
	w.catchUp = func() time.Duration { return upTo(following) }
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

	// Each world has some kinds of faults and lacks others: one of them may prevent what another
	// needs.
	do := func(n *node, v protocol.Verb) {
		n.log("is told: %v", v)
		n.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v}})
	}
	one := func() int { return r.IntN(len(w.nodes)) }
	kinds := []func(victim *node){
		func(v *node) { v.crash(workToo); w.In(upTo(back), v.start) },
		func(v *node) { // and restarts with another configuration
			v.crash(workToo)
			if mixed {
				v.cfg.Promise = pick(60, 100, 200) * time.Millisecond
			}
			w.In(upTo(back), v.start)
		},
		func(v *node) { v.crash(workToo); v.witness(); w.In(upTo(back), v.start) },
		func(v *node) { v.pause(upTo(300*time.Millisecond), jumps && r.IntN(2) == 0) },
		func(v *node) { w.cut[v.i][one()] = true },
		func(v *node) { w.cut[one()][v.i] = true },
		func(v *node) { // cut off from all but one
			for o := range w.nodes {
				w.cut[v.i][o], w.cut[o][v.i] = true, true
			}
			o := one()
			w.cut[v.i][o], w.cut[o][v.i] = false, false
		},
		func(v *node) { do(v, protocol.Resign) },
		func(v *node) {
			to := protocol.NodeID("")
			if o := r.IntN(len(w.nodes) + 2); o < len(w.nodes) {
				to = voter(o).ID
				switch r.IntN(4) { // racing a crash of one of the two
				case 0:
					w.In(upTo(30*time.Millisecond), func() { w.nodes[o].crash(workToo); w.In(upTo(back), w.nodes[o].start) })
				case 1:
					w.In(upTo(30*time.Millisecond), func() { v.crash(workToo); w.In(upTo(back), v.start) })
				}
			}
			v.log("is told: transfer to %s", to)
			v.do(protocol.Command{Verb: protocol.Transfer, Target: to})
			if r.IntN(4) == 0 {
				v.do(protocol.Command{Verb: protocol.Withdraw})
				w.In(upTo(pace), func() { v.do(protocol.Command{Verb: protocol.Campaign}) })
			}
		},
		func(v *node) {
			v.idle = true
			do(v, protocol.Pause)
			w.In(upTo(2*pace), func() { v.idle = false; do(v, protocol.Resume) })
		},
		func(v *node) {
			if ranked && v.told.priority != protocol.NeverLead {
				v.do(protocol.Command{Verb: protocol.Campaign, Priority: 1 + r.IntN(protocol.MaxPriority)})
			}
		},
		func(v *node) { // its disk is lost
			if changing && v.dispensable() {
				v.crash(workToo)
				v.wipe()
				w.In(upTo(back), v.start)
			}
		},
		func(v *node) { // a forged reset
			for _, o := range w.nodes {
				if v.m != nil && r.IntN(4) > 0 {
					o.give(protocol.Input{Kind: protocol.PeerClosed, From: v.cfg.Self.ID, Incarnation: v.m.ballot.Incarnation})
				}
			}
		},
		func(v *node) { do(v, protocol.Sicken); w.In(upTo(pace), func() { do(v, protocol.Recover) }) },
		func(v *node) { v.badDisk = true; w.In(upTo(pace), func() { v.badDisk = false }) },
		func(v *node) { do(v, protocol.Confirm) },
		func(v *node) {
			if jumps {
				v.log("its clock jumps")
				v.zero += upTo(400*time.Millisecond) - 200*time.Millisecond
				v.asleep = time.Duration(v.local(w.Now)) - upTo(time.Hour)
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
		if w.Now > chaosTime {
			return
		}
		w.In(upTo(2*pace), nemesis)
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
	w.In(150*time.Millisecond, nemesis)
	return w
}

// move moves the positions: the leader's first, the others' after it.
func (w *world) move(pace, until time.Duration) {
	r := w.rng
	head := 0
	var tick func()
	tick = func() {
		if w.Now > until {
			return
		}
		w.In(time.Duration(r.Int64N(int64(pace)+1)), tick)
		n := w.nodes[r.IntN(len(w.nodes))]
		if lead := w.leader(); lead != nil && r.IntN(3) == 0 {
			n = lead
			head += 1 + r.IntN(20)
			n.locate(fmt.Sprint(head))
		} else if n.up && head > 0 {
			if at := fmt.Sprint(r.IntN(head + 1)); protocol.CompareNumbers(n.position, at) < 0 || r.IntN(50) == 0 {
				n.locate(at)
			}
		}
	}
	w.In(pace, tick)
}

const chaosTime = 6 * time.Second

// heal ends all faults.
func (w *world) heal() {
	w.cut, w.loss, w.dup = [16][16]bool{}, 0, 0
	if w.ranked {
		// A voter that outranks the leader and has a disk slower than a slot may need several
		// handovers until it wins.
		w.fsync = func() time.Duration { return time.Millisecond }
	}
	// A promise of 60 ms cannot hold over round trips of 60 ms.
	w.delay = func() time.Duration { return time.Duration(w.rng.Int64N(int64(3 * time.Millisecond))) }
	for _, n := range w.nodes {
		n.badDisk, n.idle = false, false
		n.start()
		for _, v := range [...]protocol.Verb{protocol.Recover, protocol.Resume, protocol.Campaign} {
			n.do(protocol.Command{Verb: v})
		}
	}
}

// canLead reports whether the newest membership has a majority, and in it a voter that may lead:
// disks were lost, and an operator that knew of it too late may have added a voter that was gone.
func (w *world) canLead() bool {
	newest := slices.MaxFunc(w.nodes, func(a, b *node) int { return a.durable().Compare(b.durable()) }).durable()
	return w.able(newest, func(*node) bool { return true }) &&
		slices.ContainsFunc(w.nodes, func(n *node) bool {
			return newest.Has(n.cfg.Self) && n.told.priority != protocol.NeverLead
		})
}

// TestRandom runs random worlds: no invariant may be violated, and after all faults have ended one
// node must come to lead, and keep leading.
func TestRandom(t *testing.T) {
	wins, leads, changes := 0, 0, 0
	for seed := *first; seed < *first+*seeds/long.Or[uint64](1, 4); seed++ {
		w := chaos(seed, nil)
		w.run(chaosTime + 700*time.Millisecond)
		w.heal()
		w.run(chaosTime + 8*time.Second)
		if len(w.violations) > 0 {
			t.Fatalf("seed %d, %d nodes: %v", seed, len(w.nodes), w.violations)
		}
		lead := w.leader()
		if lead == nil && !w.canLead() {
			continue
		}
		if lead == nil {
			t.Fatalf("seed %d, %d nodes: nobody leads long after all faults have ended", seed, len(w.nodes))
		}
		token := lead.view.Token
		w.run(w.Now + 2*time.Second)
		if w.leader() != lead || lead.view.Token != token {
			t.Fatalf("seed %d, %d nodes: the leader changed without a fault", seed, len(w.nodes))
		}
		wins, leads, changes = wins+w.wins, leads+w.leads, changes+w.changes
	}
	t.Logf("%d wins, %d tenures, %d changes of the membership", wins, leads, changes)
}
