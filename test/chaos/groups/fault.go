//go:build linux

package groups

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is a kind of fault.
type Fault struct{ Name, Text string }

// Faults are all of them. A member is one that is not the coordinator when the fault begins, if there is one. Of a
// guarded one a fault hits some of the processes: see parts.
func Faults() []Fault {
	return []Fault{
		{"kill-member", "a member's process dies, and is started again"},
		{"kill-coordinator", "the coordinator's does"},
		{"kill-both", "the coordinator's and a member's do, at once"},
		{"kill-all", "the processes of all die at once"},
		{"freeze-member", "a member is frozen"},
		{"freeze-coordinator", "the coordinator is"},
		{"freeze-both", "the coordinator and a member are"},
		{"kill-writing", "a member or the coordinator dies when it has just begun to write"},
		{"late-word", "a member dies while its keeper is stopped, and is started again long before the keeper says so"},
		{"end-member", "a member leaves in good order, and is started again"},
		{"end-coordinator", "the coordinator does"},
		{"move", "keys are moved by hand"},
		{"drain", "a member is drained, and then not any more"},
		{"cut-member", "a member and the coordinator do not hear each other"},
		{"deaf-member", "a member does not hear the coordinator, which hears it"},
		{"cut-coordinator", "the coordinator and all others do not hear each other"},
		{"isolate-member", "a member and all others do not hear each other"},
		{"slow-then-mute", "what the coordinator says to a member is late, and then it does not hear that member"},
	}
}

// parts are those of a guarded member that are killed at once, one of these. What it had is free when its keeper has
// said so, or if the keeper is killed, too, when its promise is over.
var parts = []string{"program", "program", "front", "front", "keeper", "keeper program", "front keeper", "front keeper program"}

// guarded is the part of the processes that are, as one of so many.
const guarded = 4

// event is one fault of a schedule.
type event struct {
	after time.Duration // the one before began
	name  string
	who   int           // chooses among those that it can befall
	lasts time.Duration // until the process is started, resumed, or connected again
}

// draw draws the faults of a storm.
func draw(seed uint64, length, promise time.Duration, only []string) (all []event) {
	names := only
	if len(names) == 0 {
		for _, f := range Faults() {
			names = append(names, f.Name)
		}
	}
	dice := rand.New(rand.NewPCG(seed, 0x67726f757073))
	part := func(lo, hi int) time.Duration { return promise * time.Duration(lo+dice.IntN(hi-lo)) / 100 }
	var bag []string // of which each comes once before any comes twice
	alone := 0       // 2: the next fault comes after a pause, and 1: so does the one after it
	for at := time.Duration(0); ; {
		if len(bag) == 0 {
			bag = slices.Clone(names)
			if len(only) == 0 && dice.IntN(4) > 0 { // it leaves nobody who could take over
				bag = slices.DeleteFunc(bag, func(name string) bool { return name == "kill-all" })
			}
			dice.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		e := event{after: part(30, 150), name: bag[0], who: dice.IntN(1 << 20), lasts: part(5, 150)}
		if alone == 0 && dice.IntN(12) == 0 {
			alone = 2
		}
		if alone > 0 {
			e.after = part(350, 500)
			if alone == 2 && dice.IntN(2) == 0 && slices.Contains(names, "kill-coordinator") { // who is interrupted by that is a figure of its own
				e.name = "kill-coordinator"
			}
			alone--
		}
		if dice.IntN(8) == 0 {
			e.lasts = part(200, 500)
		}
		if at += e.after; at >= length {
			return all
		}
		bag, all = bag[1:], append(all, e)
	}
}
