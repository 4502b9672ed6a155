package raft

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

var (
	seeds = flag.Uint64("seeds", 150, "how many random worlds")
	first = flag.Uint64("seed", 1, "the first of them")
)

const (
	chaosTime = 4 * time.Second
	quietTime = 6 * time.Second
)

// chaos draws a world and its faults.
func chaos(t testing.TB, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 2))
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }
	cfg := Config{PreVote: r.IntN(2) == 0, CheckQuorum: r.IntN(2) == 0}
	if r.IntN(3) == 0 {
		cfg.Position = RequirePosition
	}
	w := newWorld(t, seed, []int{1, 2, 3, 3, 4, 5, 7}[r.IntN(7)], cfg)
	w.Check = seed%8 == 0 // it is slow
	w.loss = []float64{0, 0, 0.02, 0.2}[r.IntN(4)]
	w.dup = []float64{0, 0.1}[r.IntN(2)]
	slow := []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond}[r.IntN(3)]
	w.Delay = func() time.Duration { return 50*time.Microsecond + upTo(slow) }
	disk := []time.Duration{time.Millisecond, 40 * time.Millisecond}[r.IntN(2)]
	w.fsync = func() time.Duration { return 100*time.Microsecond + upTo(disk) }
	work := []time.Duration{time.Millisecond, 400 * time.Millisecond}[r.IntN(2)]
	w.Join = func() time.Duration { return upTo(work) }
	for _, n := range w.nodes {
		w.In(upTo(20*time.Millisecond), func() {
			n.start()
			n.locate("1")
		})
	}
	one := func() *node { return w.nodes[r.IntN(len(w.nodes))] }
	verbs := []protocol.Verb{protocol.Resign, protocol.Withdraw, protocol.Campaign, protocol.Sicken, protocol.Recover}
	kinds := []func(*node){
		func(n *node) { n.crash(); w.In(upTo(300*time.Millisecond), n.start) },
		func(n *node) { w.Pause(n.i, upTo(500*time.Millisecond)) },
		func(n *node) { w.cut[n.i][one().i] = true },
		func(n *node) { w.cut[one().i][n.i] = true },
		func(n *node) {
			for i := range w.nodes {
				w.cut[n.i][i], w.cut[i][n.i] = true, true
			}
		},
		func(n *node) { n.do(protocol.Command{Verb: verbs[r.IntN(len(verbs))]}) },
		func(n *node) { n.Bad = true; w.In(upTo(300*time.Millisecond), func() { n.Bad = false }) },
		func(n *node) {
			at, _ := strconv.Atoi(n.position)
			n.locate(strconv.Itoa(at + 1))
		},
		func(*node) { w.cut = [16][16]bool{} },
	}
	pace := []time.Duration{20, 100, 400}[r.IntN(3)] * time.Millisecond
	var next func()
	next = func() {
		kinds[r.IntN(len(kinds))](one())
		if w.Now < chaosTime {
			w.In(upTo(pace), next)
		}
	}
	w.In(upTo(pace), next)
	return w
}

// TestRandom: in random worlds nothing is violated, and after the faults have ended all follow one
// leader until the end.
func TestRandom(t *testing.T) {
	elections := 0
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := chaos(t, seed)
			w.Run(chaosTime + time.Second)
			w.cut, w.loss, w.dup = [16][16]bool{}, 0, 0
			w.Delay = func() time.Duration { return time.Millisecond }
			w.fsync = func() time.Duration { return time.Millisecond }
			for _, n := range w.nodes {
				n.Bad = false
				n.start()
				n.do(protocol.Command{Verb: protocol.Recover})
				n.do(protocol.Command{Verb: protocol.Campaign})
			}
			w.Run(quietTime)
			led := w.leaders()
			if len(led) != 1 {
				t.Errorf("%d lead in the end", len(led))
				return
			}
			token := led[0].Token
			w.Run(quietTime)
			for _, n := range w.nodes {
				if v := n.Machine.View(); v.Leader.ID != led[0].ID || v.Leader.Term != token {
					t.Errorf("%s has leader %+v in the end; want %s in term %d", n.ID, v.Leader, led[0].ID, token)
				}
			}
			elections += len(w.winner)
		})
	}
	if most := uint64(elections); most < 2*(*seeds) {
		t.Errorf("%d elections in %d worlds: there was little to judge", elections, *seeds)
	}
}

// TestOneOfTwo: of two participants of which one is dead there is no majority. The other does not win, and with a
// pre-vote its term does not rise.
func TestOneOfTwo(t *testing.T) {
	for _, preVote := range []bool{false, true} {
		w := newWorld(t, 1, 2, Config{PreVote: preVote})
		w.nodes[1].start()
		w.Run(2 * time.Second)
		asked, term := w.Sent[Vote] > 0, w.nodes[1].Machine.View().Term > 0
		if len(w.winner) > 0 || asked == preVote || term == preVote {
			t.Errorf("winners %v, messages %v, term %d", w.winner, w.Sent, w.nodes[1].Machine.View().Term)
		}
	}
}
