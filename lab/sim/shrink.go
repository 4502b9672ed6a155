package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// ShrinkRuns is the greatest number of runs of Shrink.
const ShrinkRuns = 6000

// ShrinkStep describes one step towards a smaller schedule.
type ShrinkStep struct {
	Runs  int           // the number of runs so far
	Did   string        // what was left out or simplified
	Nodes int           // the number of participants that are left,
	Ops   int           // of operations,
	Until time.Duration // and the time until the violation
}

// Shrink searches for a schedule that is simpler than s and violates the same invariant: it cuts
// what comes after the violation, leaves out operations and participants, turns noise into explicit
// drops, and takes simpler clocks, shorter durations and rounder times. It returns the smallest
// schedule found and its result; s is not changed.
//
// Equal arguments give equal schedules, unless ctx ends first. Then the smallest schedule so far is
// returned, without an error; the error is ctx's if not even s has been run. progress, if not nil,
// is called after each step. If s violates nothing, Shrink fails.
func Shrink(ctx context.Context, p *Protocol, s *Schedule, progress func(ShrinkStep)) (*Schedule, *Result, error) {
	k := &shrinker{ctx: ctx, protocol: p, best: copySchedule(s), progress: progress}
	r, err := k.run(k.best)
	if err != nil {
		return nil, nil, err
	}
	if r.Violation == nil {
		return nil, nil, fmt.Errorf("nothing to shrink: the schedule of seed %d violates nothing with this build", s.Seed)
	}
	k.invariant, k.result, k.found, k.runs = r.Violation.Invariant, r, r.Violation, 1
	if k.patience, err = p.Patience(s.Config); err != nil {
		return nil, nil, err
	}
	k.all()
	return k.best, k.result, nil
}

// run runs a copy of s, unless ctx ends first.
func (k *shrinker) run(s *Schedule) (*Result, error) {
	w, err := New(k.protocol, copySchedule(s))
	if err != nil {
		return nil, err
	}
	const look = 1 << 12 // events between two checks of ctx
	for n := 1; w.Step(); n++ {
		if n%look == 0 && k.ctx.Err() != nil {
			return nil, k.ctx.Err()
		}
	}
	return w.Result(), nil
}

// shrinker is one search. best is always a schedule that violates invariant.
type shrinker struct {
	ctx       context.Context
	protocol  *Protocol
	patience  time.Duration
	invariant Invariant
	best      *Schedule
	result    *Result    // of best
	found     *Violation // the result's
	runs      int
	progress  func(ShrinkStep)
}

func (k *shrinker) over() bool { return k.runs >= ShrinkRuns || k.ctx.Err() != nil }

// try keeps a change of the best schedule if the result violates the same invariant. change returns
// false if it has nothing to change.
func (k *shrinker) try(did string, change func(s *Schedule) bool) bool {
	if k.over() {
		return false
	}
	s := copySchedule(k.best)
	if !change(s) || !k.fair(s) {
		return false
	}
	k.runs++
	r, err := k.run(s)
	if err != nil || r.Violation == nil || r.Violation.Invariant != k.invariant {
		return false
	}
	k.best, k.result, k.found = s, r, r.Violation
	if k.progress != nil {
		k.progress(ShrinkStep{
			Runs: k.runs, Did: did, Nodes: s.Nodes + s.Observers + s.Spares, Ops: len(s.Ops), Until: time.Duration(k.found.At),
		})
	}
	return true
}

// fair reports whether a participant could lead in the healed world of s.
func (k *shrinker) fair(s *Schedule) bool {
	return k.invariant != Live || k.protocol.Store != StoreNone || len(s.Core) == 0 || len(s.Core) > s.Nodes/2
}

// all tries all kinds of changes until none of them helps any more. Changes that shorten runs most
// come first.
func (k *shrinker) all() {
	for !k.over() {
		before := size(k.best)
		k.cut(8)
		k.ops()
		k.noise()
		k.fewer()
		k.ops()
		k.clocks()
		k.core()
		k.work()
		k.merge()
		k.simpler()
		k.sooner()
		k.seed()
		if size(k.best) == before {
			break
		}
	}
	k.cut(0)
}

// size is the key by which schedules are compared: it does not change in a pass without effect.
func size(s *Schedule) string {
	text, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(text)
}

// cut drops what comes after the violation. It leaves slack, in patiences, so that simpler
// schedules may take a little longer to the same end.
func (k *shrinker) cut(slack int) {
	if k.found.At > Time(k.best.Faults) || k.invariant == Live {
		// The violation is of the liveness phase: the time before it can be shortened.
		k.try("shorter liveness phase", func(s *Schedule) bool {
			least, _, _, err := k.protocol.leastSettle(s.Config)
			if err != nil || s.Settle <= least {
				return false
			}
			s.Settle = least
			return true
		})
		k.try("shorter fault phase", func(s *Schedule) bool {
			last := time.Duration(0)
			for i := range s.Ops {
				last = max(last, time.Duration(s.Ops[i].At)+s.Ops[i].For)
			}
			last = rounded(last+1, k.patience/10)
			if last >= s.Faults {
				return false
			}
			s.Faults = last
			return true
		})
		for d := k.best.Faults / 2; d > k.patience/20 && k.try("shorter fault phase", func(s *Schedule) bool {
			s.Faults = d
			dropAfter(s, Time(d))
			return true
		}); d = k.best.Faults / 2 {
		}
		return
	}
	k.try("cut after the violation", func(s *Schedule) bool {
		end := rounded(time.Duration(k.found.At)+1, time.Millisecond) + time.Duration(slack)*k.patience
		n := len(s.Ops)
		dropAfter(s, k.found.At)
		if end >= s.Faults && s.Settle == 0 && n == len(s.Ops) {
			return false
		}
		s.Faults, s.Settle, s.Core = min(end, s.Faults), 0, nil
		return true
	})
}

func dropAfter(s *Schedule, t Time) {
	s.Ops = slices.DeleteFunc(s.Ops, func(op Op) bool { return op.At > t })
}

// rounded rounds up to a multiple of unit.
func rounded(d, unit time.Duration) time.Duration {
	unit = max(unit, 1)
	return (d + unit - 1) / unit * unit
}

// ops leaves out operations: halves of them, quarters, …, single ones (Zeller, Hildebrandt: delta
// debugging, 2002).
func (k *shrinker) ops() {
	for size := max(len(k.best.Ops)/2, 1); size > 0; {
		removed := false
		// From the end: late operations matter least.
		for end := len(k.best.Ops); end > 0 && !k.over(); end -= size {
			end = min(end, len(k.best.Ops))
			from := max(end-size, 0)
			if k.try("fewer operations", func(s *Schedule) bool {
				if from == end {
					return false
				}
				s.Ops = slices.Delete(s.Ops, from, end)
				return true
			}) {
				removed = true
			}
		}
		if size == 1 && !removed || k.over() {
			return
		}
		if size > 1 {
			size /= 2
		}
	}
}

// noise turns the permanent noise off.
func (k *shrinker) noise() {
	k.try("no noise on links", func(s *Schedule) bool {
		plain := LinkNoise{Delay: s.Links.Delay}
		changed := s.Links != plain
		s.Links = plain
		return changed
	})
	if !zero(k, "no loss", func(s *Schedule) *float64 { return &s.Links.Loss }) {
		k.drops()
	}
	zero(k, "no duplicates", func(s *Schedule) *float64 { return &s.Links.Duplicate })
	zero(k, "no heavy tail on links", func(s *Schedule) *float64 { return &s.Links.Tail })
	zero(k, "no jitter on links", func(s *Schedule) *time.Duration { return &s.Links.Jitter })
	zero(k, "no reordering", func(s *Schedule) *bool { return &s.Links.Reorder })
	zero(k, "no limit of bandwidth", func(s *Schedule) *int64 { return &s.Links.Bandwidth })
	zero(k, "no heavy tail on disks", func(s *Schedule) *float64 { return &s.Disks.Tail })
	zero(k, "no jitter on disks", func(s *Schedule) *time.Duration { return &s.Disks.Jitter })
	k.try("no noise at the store", func(s *Schedule) bool {
		plain := StoreNoise{Delay: s.Store.Delay, Timeout: s.Store.Timeout}
		changed := s.Store != plain
		s.Store = plain
		return changed
	})
	zero(k, "no jitter on the way to the store", func(s *Schedule) *time.Duration { return &s.Store.Jitter })
	zero(k, "no drift of the store's clock", func(s *Schedule) *int64 { return &s.Store.Rate })
	for _, f := range []struct {
		did string
		at  func(s *Schedule) *float64
	}{
		{"no heavy tail on the way to the store", func(s *Schedule) *float64 { return &s.Store.Tail }},
		{"no lost answers", func(s *Schedule) *float64 { return &s.Store.Unknown }},
		{"no lost requests", func(s *Schedule) *float64 { return &s.Store.LostAsk }},
		{"no late requests", func(s *Schedule) *float64 { return &s.Store.LateAsk }},
		{"no repeated requests", func(s *Schedule) *float64 { return &s.Store.Repeat }},
		{"no stale reads", func(s *Schedule) *float64 { return &s.Store.StaleRead }},
		{"no lost events", func(s *Schedule) *float64 { return &s.Store.WatchLoss }},
		{"no doubled events", func(s *Schedule) *float64 { return &s.Store.WatchTwice }},
		{"no closed watches", func(s *Schedule) *float64 { return &s.Store.WatchClose }},
		{"no throttling", func(s *Schedule) *float64 { return &s.Store.Throttle }},
	} {
		zero(k, f.did, f.at)
	}
	zero(k, "no log", func(s *Schedule) *Log { return &s.Log })
	k.try("no settings", func(s *Schedule) bool {
		changed := len(s.Config) > 0
		s.Config = nil
		return changed
	})
	k.rounder("rounder delays", func(s *Schedule) []*time.Duration {
		return []*time.Duration{&s.Links.Delay, &s.Disks.Sync, &s.Store.Delay, &s.Store.Timeout}
	})
}

// zero sets one field to its zero.
func zero[T comparable](k *shrinker, did string, at func(s *Schedule) *T) bool {
	return k.try(did, func(s *Schedule) bool {
		var none T
		if v := at(s); *v != none {
			*v = none
			return true
		}
		return false
	})
}

// fewer removes participants, the last ones first.
func (k *shrinker) fewer() {
	for i := k.best.Spares; i > 0 && !k.over(); i-- {
		k.try("fewer spares", func(s *Schedule) bool {
			without(s, spareID(s.Spares-1), s.Nodes+s.Observers+s.Spares-1)
			s.Spares--
			return true
		})
	}
	for i := k.best.Observers; i > 0 && !k.over(); i-- {
		k.try("fewer observers", func(s *Schedule) bool {
			without(s, observerID(s.Observers-1), s.Nodes+s.Observers-1)
			s.Observers--
			return true
		})
	}
	for i := k.best.Nodes - 1; i >= 0 && !k.over(); i-- {
		k.try("fewer participants", func(s *Schedule) bool {
			if s.Nodes <= 1 {
				return false
			}
			without(s, voterID(i), i)
			for j := i + 1; j < s.Nodes; j++ {
				rename(s, voterID(j), voterID(j-1))
			}
			s.Nodes--
			return true
		})
	}
}

// without takes one participant out of a schedule.
func without(s *Schedule, id protocol.NodeID, place int) {
	s.Ops = slices.DeleteFunc(s.Ops, func(op Op) bool { return op.Node == id || op.Peer == id })
	for i := range s.Ops {
		s.Ops[i].Group = slices.DeleteFunc(s.Ops[i].Group, func(g protocol.NodeID) bool { return g == id })
	}
	s.Ops = slices.DeleteFunc(s.Ops, func(op Op) bool { return len(op.Group) == 0 && op.Kind.groups() })
	s.Core = slices.DeleteFunc(s.Core, func(g protocol.NodeID) bool { return g == id })
	if place < len(s.Clocks) {
		s.Clocks = slices.Delete(s.Clocks, place, place+1)
	}
}

func rename(s *Schedule, from, to protocol.NodeID) {
	for i := range s.Ops {
		op := &s.Ops[i]
		if op.Node == from {
			op.Node = to
		}
		if op.Peer == from {
			op.Peer = to
		}
		swap(op.Group, from, to)
	}
	swap(s.Core, from, to)
}

func swap(ids []protocol.NodeID, from, to protocol.NodeID) {
	if i := slices.Index(ids, from); i >= 0 {
		ids[i] = to
	}
}

// clocks makes clocks perfect.
func (k *shrinker) clocks() {
	if k.try("perfect clocks", func(s *Schedule) bool {
		changed := len(s.Clocks) > 0
		s.Clocks = nil
		return changed
	}) {
		return
	}
	for i := range k.best.Clocks {
		zero(k, "no drift", func(s *Schedule) *int64 { return &s.Clocks[i].Rate })
		zero(k, "a clock that begins at zero", func(s *Schedule) *time.Duration { return &s.Clocks[i].Zero })
		k.try("rounder drift", func(s *Schedule) bool {
			was := s.Clocks[i].Rate
			s.Clocks[i].Rate = was / 10_000 * 10_000
			return s.Clocks[i].Rate != was
		})
	}
}

// core heals all participants, and leaves out what a world without a store does not use.
func (k *shrinker) core() {
	k.try("all healed", func(s *Schedule) bool {
		changed := len(s.Core) > 0
		s.Core = nil
		return changed
	})
	if k.protocol.Store == StoreNone {
		zero(k, "no store", func(s *Schedule) *StoreNoise { return &s.Store })
	}
}

// work simplifies the leader's program.
func (k *shrinker) work() {
	zero(k, "no writes", func(s *Schedule) *time.Duration { return &s.Work.Every })
	zero(k, "writes that leave at once", func(s *Schedule) *time.Duration { return &s.Work.Think })
	zero(k, "writes that arrive at once", func(s *Schedule) *time.Duration { return &s.Work.Flight })
	zero(k, "no drain", func(s *Schedule) *time.Duration { return &s.Work.Drain })
	zero(k, "work that returns at once", func(s *Schedule) *time.Duration { return &s.Work.Stop })
	zero(k, "work that ends with its process", func(s *Schedule) *bool { return &s.Work.Outlives })
	zero(k, "exclusive work", func(s *Schedule) *bool { return &s.Work.NonExclusive })
	k.rounder("rounder times of the work", func(s *Schedule) []*time.Duration {
		return []*time.Duration{&s.Work.Every, &s.Work.Think, &s.Work.Flight, &s.Work.Drain, &s.Work.Stop}
	})
}

// merge makes one operation of two of the same kind.
func (k *shrinker) merge() {
	for i := 0; i < len(k.best.Ops) && !k.over(); i++ {
		for j := i + 1; j < len(k.best.Ops) && !k.over(); j++ {
			k.try("merged operations", func(s *Schedule) bool {
				a, b := &s.Ops[i], &s.Ops[j]
				if a.Kind != b.Kind || a.Node != b.Node || a.Peer != b.Peer || a.For == 0 || b.For == 0 || !slices.Equal(a.Group, b.Group) {
					return false
				}
				a.For = max(a.For, time.Duration(b.At-a.At)+b.For)
				s.Ops = slices.Delete(s.Ops, j, j+1)
				return true
			})
		}
	}
}

// simpler makes each operation's numbers smaller and rounder.
func (k *shrinker) simpler() {
	for i := range k.best.Ops {
		for g := len(k.best.Ops[i].Group) - 1; g > 0 && !k.over(); g-- {
			k.try("a smaller group", func(s *Schedule) bool {
				s.Ops[i].Group = slices.Delete(s.Ops[i].Group, g, g+1)
				return true
			})
		}
		for k.try("shorter", func(s *Schedule) bool { return halve(&s.Ops[i].For, k.patience/100) }) {
		}
		for k.try("a smaller amount", func(s *Schedule) bool { return halve(&s.Ops[i].By, k.patience/1000) }) {
		}
		if k.best.Ops[i].Kind != OpDrop {
			k.try("once", func(s *Schedule) bool {
				op := &s.Ops[i]
				changed := op.Count > 1
				op.Count = min(op.Count, 1)
				return changed
			})
		}
		k.rounder("rounder durations", func(s *Schedule) []*time.Duration {
			return []*time.Duration{&s.Ops[i].For, &s.Ops[i].By, &s.Ops[i].Every}
		})
	}
}

func halve(d *time.Duration, least time.Duration) bool {
	if *d <= max(least, 1) {
		return false
	}
	*d /= 2
	return true
}

// rounder takes the roundest values that work, up or down.
func (k *shrinker) rounder(did string, at func(s *Schedule) []*time.Duration) {
	for i := range at(k.best) {
		for _, unit := range units {
			if k.try(did, func(s *Schedule) bool {
				d := at(s)[i]
				was := *d
				*d = max((was+unit/2)/unit*unit, min(was, unit))
				return *d != was
			}) || *at(k.best)[i]%unit == 0 {
				break
			}
		}
	}
}

var units = [...]time.Duration{
	10 * time.Second, time.Second, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond, 100 * time.Microsecond, 10 * time.Microsecond, time.Microsecond,
}

// sooner removes time in which nothing is done, and makes times rounder.
func (k *shrinker) sooner() {
	for i := range k.best.Ops {
		for k.try("sooner", func(s *Schedule) bool {
			before := Time(0)
			if i > 0 {
				before = s.Ops[i-1].At
			}
			gap := (s.Ops[i].At - before) / 2
			if gap < Time(k.patience/100) {
				return false
			}
			for j := i; j < len(s.Ops); j++ {
				s.Ops[j].At -= gap
			}
			return true
		}) {
		}
		for _, unit := range units {
			if k.try("rounder times", func(s *Schedule) bool {
				was := s.Ops[i].At
				s.Ops[i].At = (was + Time(unit)/2) / Time(unit) * Time(unit)
				sortOps(s)
				return was != s.Ops[i].At
			}) {
				break
			}
		}
	}
}

func sortOps(s *Schedule) {
	slices.SortStableFunc(s.Ops, func(a, b Op) int { return int(min(max(a.At-b.At, -1), 1)) })
}

// seed takes the smallest seed that works.
func (k *shrinker) seed() {
	for seed := range min(k.best.Seed, 4) {
		if k.try("a smaller seed", func(s *Schedule) bool {
			s.Seed = seed
			return true
		}) {
			return
		}
	}
}

// copySchedule is a deep copy.
func copySchedule(s *Schedule) *Schedule {
	c := *s
	c.Expected = nil // it belongs to another schedule
	c.Config = slices.Clone(s.Config)
	c.Core = slices.Clone(s.Core)
	c.Clocks = slices.Clone(s.Clocks)
	c.Ops = slices.Clone(s.Ops)
	if c.Ops == nil {
		c.Ops = []Op{}
	}
	for i := range c.Ops {
		c.Ops[i].Group = slices.Clone(c.Ops[i].Group)
	}
	return &c
}
