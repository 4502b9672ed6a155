//go:build linux

package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/register"
)

// crowded are a few operations that overlap a lot, some of unknown outcome, and in
// every other history one with an answer that it may not have had.
func crowded(rng *rand.Rand) []register.Operation {
	type step struct {
		o  *op
		at int64
	}
	var all []*op
	var steps []step
	clients := 1 + rng.IntN(4)
	width := []int64{6, 12, 30}[rng.IntN(3)]
	for c := range clients {
		at := rng.Int64N(5)
		token := 1 + rng.Int64N(3)
		for k := range 1 + rng.IntN(4) {
			o := &op{client: fmt.Sprint(c), n: k + 1, call: at, op: []string{"write", "write", "stream", "stream", "read", "peek"}[rng.IntN(6)]}
			switch o.op {
			case "write":
				o.token, o.value = token, fmt.Sprintf("%d/%d", c, k)
			case "stream":
				o.token, o.seq = token, 1+rng.Int64N(4)
			}
			o.ret = o.call + rng.Int64N(width)
			steps = append(steps, step{o, o.call + rng.Int64N(o.ret-o.call+1)})
			at = o.ret + 1 + rng.Int64N(4)
			if rng.IntN(4) == 0 {
				o.ret = 0
				if rng.IntN(2) == 0 {
					steps = steps[:len(steps)-1] // it never was
				} else {
					steps[len(steps)-1].at += rng.Int64N(20) // long after
				}
			}
			all = append(all, o)
			if o.ret == 0 {
				break // the client has ended
			}
			if rng.IntN(3) == 0 {
				token++
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	var r resource
	for _, s := range steps {
		r.apply(s.o)
	}
	if rng.IntN(2) == 0 {
		o := all[rng.IntN(len(all))]
		other := all[rng.IntN(len(all))]
		switch rng.IntN(5) {
		case 0:
			o.result = map[string]string{"ok": "stale", "stale": "ok"}[o.result]
			if o.op == "read" || o.op == "peek" {
				o.result = "ok"
			}
		case 1:
			o.highest = rng.Int64N(4)
		case 2:
			o.seen = other.value
		case 3:
			o.last = [2]int64{other.token, other.seq}
		case 4:
			if o.ret != 0 {
				o.ret = o.call + rng.Int64N(o.ret-o.call+1)
			}
		}
	}
	var ops []register.Operation
	for _, o := range all {
		p := register.Operation{Client: o.client, N: int64(o.n), Op: register.Op(o.op), Token: o.token, Value: o.value, Position: uint64(o.seq), Call: o.call + 1,
			Return: o.ret + 1, Result: register.Result(o.result), Highest: o.highest, Seen: o.seen, Last: fence.Sequence{Token: fence.Token(o.last[0]), Position: uint64(o.last[1])}}
		if o.ret == 0 {
			p.Return, p.Result, p.Highest, p.Seen, p.Last = 0, register.Unknown, 0, "", fence.Sequence{}
		}
		ops = append(ops, p)
	}
	return ops
}

// TestPiecesAreTheWhole: to bound open acts, to leave some of them out and to cut the rest in
// pieces changes no verdict. Porcupine judges the whole with all open acts tried at every place.
func TestPiecesAreTheWhole(t *testing.T) {
	rounds := long.FullOr(12_000, 2_000)
	var good, bad, cut, open, settled int
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		ops := crowded(rng)
		a, b, c := histories(ops)
		for _, h := range []*history{a, b, c} {
			whole := piece{acts: slices.Clone(h.acts)}
			want := h.check1(&whole, time.Minute)
			before := count(h.acts)
			h.resolve()
			open, settled = open+before, settled+before-count(h.acts)
			pieces := h.pieces()
			verdict := func(most int) porcupine.CheckResult {
				for _, group := range together(pieces, most) {
					p := join(group)
					if r := h.check1(&p, time.Minute); r != porcupine.Ok {
						return r
					}
				}
				return porcupine.Ok
			}
			fine, coarse := verdict(0), verdict(5)
			if fine != want || coarse != want {
				var text strings.Builder
				for _, a := range whole.acts {
					fmt.Fprintf(&text, "  client %d, %d to %d: %s %+v\n", a.client, a.call, a.ret, h.describe(&a), a)
				}
				for _, p := range pieces {
					fmt.Fprintf(&text, "  a piece from %s: %+v\n", h.show(p.init), p.acts)
				}
				t.Fatalf("seed %d, %s: in pieces %s, and in greater ones %s; the whole is %s\n%s", seed, h.check, fine, coarse, want, text.String())
			}
			if want == porcupine.Ok {
				good++
			} else {
				bad++
			}
			if len(pieces) > 1 {
				cut++
			}
		}
	}
	t.Logf("%d linearizable, %d not; %d were cut; of %d open acts %d were settled", good, bad, cut, open, settled)
	if bad < rounds/20 || cut < rounds/4 || settled == 0 || settled == open {
		t.Error("the histories are too much alike to show anything")
	}
}

func count(acts []act) (open int) {
	for _, a := range acts {
		if a.effect == might {
			open++
		}
	}
	return open
}

// TestLater: an act that ends at the instant in which another is called may be the
// later one.
func TestLater(t *testing.T) {
	acts := []act{{call: 1, ret: 5}, {call: 2, ret: 3}, {call: 4, ret: never}, {call: 5, ret: 6}, {call: 6, ret: 7}}
	var got []int64
	later(acts, func(a *act) { got = append(got, -a.ret) }, func(a *act) { got = append(got, a.call) })
	if want := []int64{1, 2, -3, 4, 5, -5, 6}; !slices.Equal(got, want) {
		t.Errorf("calls and ends in the order %v; want %v", got, want)
	}
}

// TestUndecided: what porcupine cannot decide is no pass.
func TestUndecided(t *testing.T) {
	r := &run{options: Options{Patience: time.Minute}}
	overlapping := func(n int) *history {
		guarded, _, _ := histories(nil)
		guarded.names = []string{"c"}
		for i := range n {
			guarded.acts = append(guarded.acts, act{effect: does, want: state{1, int64(i + 1)}, told: state{1, int64(i + 1)}, call: int64(i), ret: int64(n + 1)})
		}
		// After all that, an answer has a value that was never written.
		guarded.acts = append(guarded.acts, act{effect: sees, told: state{1, -1}, call: int64(n + 2), ret: int64(n + 3)})
		return guarded
	}
	var found findings
	var report Report
	overlapping(mostActs).linearizable(r, &found, &report)
	if len(found.all) != 1 || found.all[0].Text[:11] != "not decided" {
		t.Errorf("of too many acts: %+v", found.all)
	}
	found = findings{}
	r.options.Patience = 50 * time.Millisecond
	if pages := overlapping(40).linearizable(r, &found, &report); len(found.all) != 1 || found.all[0].Text[:11] != "not decided" {
		t.Errorf("of acts that are too hard: %+v, %d pages", found.all, len(pages))
	}
}

// BenchmarkLinearizable is what an operation costs where some write is always under
// way, so that there is no place to cut.
func BenchmarkLinearizable(b *testing.B) {
	for _, n := range []int{1_000, 10_000, mostActs} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 3))
			var ops []register.Operation
			var r resource
			for i := range n {
				o := &op{op: []string{"write", "read", "write"}[i%3], token: 1 + int64(i/100), value: fmt.Sprint(i)}
				r.apply(o)
				call := int64(1 + 10*i)
				ops = append(ops, register.Operation{Client: fmt.Sprint(i % 3), N: int64(i), Op: register.Op(o.op), Token: o.token, Value: o.value,
					Call: call, Return: call + 25 + rng.Int64N(10), Result: register.Result(o.result), Highest: o.highest, Seen: o.seen})
			}
			for b.Loop() {
				guarded, _, _ := histories(ops)
				var found findings
				var report Report
				guarded.linearizable(&run{options: Options{Patience: time.Minute}}, &found, &report)
				if len(found.all) > 0 || report.LongestPiece < n/2 {
					b.Fatal(found.all, report.LongestPiece)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/operation")
		})
	}
}
