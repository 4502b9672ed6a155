package group

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Tally is what came of many runs.
type Tally struct {
	Runs      int         `json:"runs"`
	Events    uint64      `json:"events"`
	Virtual   float64     `json:"virtual_seconds"`
	Stats     Stats       `json:"stats"`
	Situation []Situation `json:"situations"`
	Worst     *Result     `json:"worst,omitempty"` // the violation of the least seed
}

// Hunt runs the seeds from first on, several at a time, until one violates an invariant, or ctx ends. The result depends
// on its other arguments alone: after a violation the seeds below it are finished, and no more counted. ran, if not nil,
// is how many runs have ended so far.
func Hunt(ctx context.Context, o Options, first uint64, runs int, ran *atomic.Uint64) (*Tally, error) {
	if _, err := Generate(first, o); err != nil {
		return nil, err
	}
	var mu sync.Mutex // of what follows
	next, bad := 0, runs
	results := make(map[int]*Result)
	t := &Tally{}
	var seen [situationCount]int
	done := 0 // results that are counted
	var failed error
	work := func() {
		for ctx.Err() == nil {
			mu.Lock()
			i := next
			next++
			mu.Unlock()
			if i >= runs || i > bad {
				return
			}
			s, err := Generate(first+uint64(i), o)
			var r *Result
			if err == nil {
				r, err = Run(s, nil)
			}
			mu.Lock()
			if err != nil {
				failed = err
				mu.Unlock()
				return
			}
			if ran != nil {
				ran.Add(1)
			}
			results[i] = r
			if r.Violation != nil {
				bad = min(bad, i)
			}
			for r := results[done]; r != nil && done <= bad; r = results[done] {
				delete(results, done)
				done++
				t.add(r, &seen)
			}
			mu.Unlock()
		}
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(work)
	}
	wg.Wait()
	for i := range situationCount {
		t.Situation = append(t.Situation, Situation{sayings[i][0], sayings[i][1], seen[i]})
	}
	return t, failed
}

func (t *Tally) add(r *Result, seen *[situationCount]int) {
	t.Runs++
	t.Events += r.Events
	t.Virtual += r.Virtual.Round(time.Millisecond).Seconds()
	t.Stats.Add(&r.Stats)
	for i := range r.seen {
		if r.seen[i] {
			seen[i]++
		}
	}
	if r.Violation != nil && t.Worst == nil {
		t.Worst = r
	}
}
