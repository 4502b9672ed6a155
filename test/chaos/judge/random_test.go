//go:build linux

package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/network"
)

// resource is the register that a random run is made with: its rules, written a
// second time.
type resource struct {
	highest     int64
	value, twin string
	last        [2]int64
}

func (r *resource) apply(o *op) {
	o.result = "ok"
	switch o.op {
	case "write":
		r.twin = o.value
		if o.token < r.highest {
			o.result = "stale"
		} else {
			r.highest, r.value = o.token, o.value
		}
	case "read":
		o.seen = r.value
	case "peek":
		o.seen = r.twin
	case "stream":
		if q := [2]int64{o.token, o.seq}; q[0] > r.last[0] || q[0] == r.last[0] && q[1] > r.last[1] {
			r.last = q
		} else {
			o.result = "stale"
		}
		o.last = r.last
	}
	o.highest = r.highest
}

// random is a correct run, made from a seed: leaders follow each other, with gaps, faults and
// freezes; clients overlap, outlive their leader's tenure, are killed in mid-operation; watchers
// see every leader.
func random(seed uint64) *script {
	rng := rand.New(rand.NewPCG(seed, 7))
	between := func(a, b int64) int64 { return a + rng.Int64N(b-a+1) }
	s := &script{closed: rng.IntN(3) > 0}
	n := []int{1, 3, 5}[rng.IntN(3)]
	begin := between(1, 1e15)
	s.begin(begin, n)
	now := begin + between(1, second)
	token := between(1, 100)
	s.saw("before", begin+1, 0, 0)

	type step struct {
		o  *op
		at int64 // when it is carried out
	}
	var steps []step
	clients := 0
	client := func(from, to, token int64) {
		clients++
		name := fmt.Sprintf("c%d", clients)
		seq := int64(0)
		pace := between(50_000, 5*ms)
		for k := 1; from < to; k++ {
			o := &op{client: name, n: k, call: from, op: []string{"write", "stream", "read", "peek"}[rng.IntN(4)]}
			if token == 0 {
				o.op = []string{"read", "peek"}[rng.IntN(2)]
			}
			switch o.op {
			case "write":
				o.token, o.value = token, fmt.Sprintf("%s/%d", name, k)
			case "stream":
				seq += between(1, 3)
				o.token, o.seq = token, seq
			}
			took := between(1, pace)
			if rng.IntN(40) == 0 {
				took *= between(1, 30)
			}
			at := o.call + between(0, took)
			if rng.IntN(60) == 0 || o.call+took >= to { // it is killed
				switch {
				case rng.IntN(3) == 0: // before the server had it all
				default:
					steps = append(steps, step{o, at})
					if s.closed || rng.IntN(2) == 0 {
						o.server = at
					}
				}
				s.ops = append(s.ops, o)
				return
			}
			o.ret = o.call + took
			steps = append(steps, step{o, at})
			s.ops = append(s.ops, o)
			from = o.ret + between(1, pace/3+1)
		}
	}

	id, thawed, node := 0, begin, -1 // when the node goes on that was frozen last
	for range 2 + rng.IntN(12) {
		for was := node; node == was && (n > 1 || node < 0); {
			node = rng.IntN(n)
		}
		start, length := now, between(1, []int64{50 * ms, 200 * ms, second}[rng.IntN(3)])
		last := start + length
		first := lives.Life{Token: token, Pid: between(1000, 2000), Keeper: between(1000, 2000), Node: int64(node), Kind: lives.Kind(1 + 2*rng.Int64N(2)), Start: start, Last: last}
		if first.Kind == lives.Library {
			first.Keeper = 0
		}
		next := last + between(1, 400*ms)
		frozen := first.Kind == lives.Command && n > 1 && last > thawed && rng.IntN(3) == 0
		if frozen { // the family is frozen, another leads, and it stamps on for an instant
			first.Paused, first.Resumed = last, next+between(ms, 50*ms)+int64(lives.Gap)
			first.Last = first.Resumed + between(0, 20*ms)
			thawed = first.Last
			s.at(last, Event{Kind: Stop, Node: node, Part: PartFamily})
			s.at(first.Resumed, Event{Kind: Cont, Node: node, Part: PartFamily})
		}
		if first.Kind == lives.Command && rng.IntN(2) == 0 {
			d := first
			d.Kind, d.Keeper, d.Pid, d.Start = lives.Descendant, 0, d.Pid+5000, min(d.Start+between(0, ms), last)
			if rng.IntN(2) == 0 && !frozen {
				d.Last = between(d.Start, last)
			}
			s.lives = append(s.lives, d)
		}
		s.lives = append(s.lives, first)
		for range 1 + rng.IntN(3) {
			client(start+between(0, ms), last+between(-length/2, 800*ms), token)
		}
		if rng.IntN(2) == 0 {
			client(start, next, 0)
		}
		s.saw("before", start+between(0, 100*ms), node, token)
		if rng.IntN(2) == 0 {
			id++
			to := network.Links{}
			if n > 1 {
				to = network.Isolate(n, node)
			}
			s.at(last-length/2, Event{Kind: Fault, Fault: "isolate-leader", ID: id, Node: node})
			s.at(last-length/2, Event{Kind: Links, Node: NoNode, Links: to})
			s.at(next-1, Event{Kind: Links, Node: NoNode})
			s.at(next-1, Event{Kind: Heal, Fault: "isolate-leader", ID: id, Node: NoNode})
		}
		now = next
		token += between(1, 5)
	}
	// The last one leads until all is over.
	node = rng.IntN(n)
	s.lives = append(s.lives, lives.Life{Token: token, Pid: 77, Node: int64(node), Kind: lives.Library, Start: now, Last: now + 3*second})
	client(now, now+200*ms, token)
	s.saw("before", now+ms, node, token)
	s.saw("late", now+second, node, token)
	s.at(now+second, Event{Kind: Final, Node: node, Token: token})
	s.at(now+3*second, Event{Kind: Over, Node: NoNode})

	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	var r resource
	for _, step := range steps {
		r.apply(step.o)
	}
	return s
}

// TestRandomRunsPass: the judge finds nothing in a run that keeps its promises, under any faults.
func TestRandomRunsPass(t *testing.T) {
	seeds := long.FullOr[uint64](80, 20)
	var all Report
	for seed := range seeds {
		s := random(seed)
		r := s.judge(t)
		if !r.OK() {
			t.Fatalf("seed %d: %v", seed, &r)
		}
		all.Ops += r.Ops
		all.Unknown += r.Unknown
		all.StaleRefused += r.StaleRefused
		all.Zombies += r.Zombies
		all.Late += r.Late
		all.Elections += r.Elections
		all.LongestPiece = max(all.LongestPiece, r.LongestPiece)
		all.Pieces += r.Pieces
		all.Took += r.Took
	}
	if all.Unknown == 0 || all.StaleRefused == 0 || all.Zombies == 0 || all.Late == 0 {
		t.Errorf("the runs are too tame: %d unknown, %d stale, %d zombies, %d late", all.Unknown, all.StaleRefused, all.Zombies, all.Late)
	}
	t.Logf("%d elections, %d operations, %d unknown, %d refused, %d late, %d zombies, %d pieces, the longest of %d, judged in %v",
		all.Elections, all.Ops, all.Unknown, all.StaleRefused, all.Late, all.Zombies, all.Pieces, all.LongestPiece, all.Took.Round(time.Millisecond))
}
