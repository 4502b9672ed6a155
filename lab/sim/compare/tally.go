package compare

import (
	"time"

	"github.com/electd/elect/lab/sim"
)

// tally is the result of runs of one protocol. It is the same for any order of the runs.
type tally struct {
	runs, violated uint64
	stats          sim.Stats // without its Takeovers
	failovers      histogram

	first *sim.Result // with a violation, by the smallest seed
	// The number of runs in which two led at once, and the one in which they did for the longest.
	two     uint64
	overlap worst
	dark    worst // the longest time without a leader
}

// worst is the greatest time of all runs, and the smallest seed that has it.
type worst struct {
	seed uint64
	time time.Duration
}

func (w *worst) join(o worst) {
	if o.time > w.time || o.time == w.time && o.time > 0 && o.seed < w.seed {
		*w = o
	}
}

func (t *tally) add(seed uint64, r *sim.Result) {
	t.runs++
	for _, d := range r.Stats.Takeovers {
		t.failovers.add(d)
	}
	r.Stats.Takeovers = nil
	t.stats.Add(&r.Stats)
	if r.Stats.TwoLed > 0 {
		t.two++
	}
	t.overlap.join(worst{seed, r.Stats.TwoLed})
	t.dark.join(worst{seed, r.Stats.Time - r.Stats.Led})
	if r.Violation != nil {
		t.violated++
		t.earlier(r)
	}
}

// earlier keeps the violation of the smallest seed.
func (t *tally) earlier(r *sim.Result) {
	if r != nil && (t.first == nil || r.Schedule.Seed < t.first.Schedule.Seed) {
		t.first = r
	}
}

func (t *tally) join(o *tally) {
	t.runs += o.runs
	t.violated += o.violated
	t.stats.Add(&o.stats)
	t.failovers.join(&o.failovers)
	t.two += o.two
	t.overlap.join(o.overlap)
	t.dark.join(o.dark)
	t.earlier(o.first)
}
