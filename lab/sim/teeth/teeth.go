// Package teeth shows that the simulator finds faults. It switches single rules of the machines
// off, by name, and lets the simulator hunt each of these mutants: how many runs does it take until
// an invariant fails? The exhaustive checker hunts those for which it has a world, too.
//
// Mutants exist only in builds with the tag "mutants"; [Hunt] in any other build
// returns an error. The package's test makes such a build and fails if a mutant
// survives. The command in hunt writes testdata/kills.txt and docs/teeth.md.
//
// All functions may be called by any number of goroutines.
package teeth

//go:generate go run -tags mutants ./hunt -record testdata/kills.txt -write ../../../docs/teeth.md

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// Mutant is a machine with one rule switched off.
type Mutant struct {
	Protocol string `json:"protocol"` // as package protocols calls it
	Name     string `json:"name"`
	Rule     string `json:"rule"`
	Says     string `json:"says"` // what it does instead
}

// Mutants lists all of them but the equivalent ones. A rule of the queue that both dialects share
// is hunted in the dialect that depends on it more.
func Mutants() []Mutant {
	var all []Mutant
	for _, m := range protocols.QuorumMutants() {
		all = append(all, Mutant{quorum.Name, m.Name, m.Rule, m.Says})
	}
	for _, m := range lease.Mutants() {
		all = append(all, Mutant{lease.Name, m.Name, m.Rule, m.Says})
	}
	for _, m := range queue.Mutants() {
		all = append(all, Mutant{dialect(m), m.Name, m.Rule, m.Says})
	}
	return slices.DeleteFunc(all, func(m Mutant) bool {
		return slices.ContainsFunc(Equivalent(), func(h Harmless) bool { return h.Protocol == m.Protocol && h.Name == m.Name })
	})
}

// Kill is the result of a hunt.
type Kill struct {
	Mutant
	Ground Ground `json:"ground"` // where it was killed
	// Runs is the number of runs in all, on all of its grounds; with Seed 0 it has survived them.
	Runs      int            `json:"runs"`
	Seed      uint64         `json:"seed"`
	Violation *sim.Violation `json:"violation,omitempty"`
	Checked   *Checked       `json:"checked,omitempty"` // nil: the checker has no world for it, or it has survived there
}

// Dead reports whether the simulator or the checker has killed it.
func (k *Kill) Dead() bool { return k.Seed != 0 || k.Checked != nil }

// ErrNoMutants says that this build has no mutants.
var ErrNoMutants = errors.New("this build has no mutants: build with -tags mutants")

// Hunt hunts the mutants, several at a time, each with the seeds from 1 to seeds on each of its
// grounds. done, if not nil, is called at the end of each, never concurrently. The result depends
// on mutants and seeds only.
func Hunt(ctx context.Context, mutants []Mutant, seeds int, done func(Kill)) ([]Kill, error) {
	kills := make([]Kill, len(mutants))
	failed := make([]error, len(mutants))
	next := make(chan int)
	var mu sync.Mutex // of calls of done
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				kills[i], failed[i] = hunt(ctx, mutants[i], seeds)
				if failed[i] != nil {
					failed[i] = fmt.Errorf("%s %s: %w", mutants[i].Protocol, mutants[i].Name, failed[i])
				} else if done != nil {
					mu.Lock()
					done(kills[i])
					mu.Unlock()
				}
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return kills, err
		}
	}
	return kills, nil
}

// hunt gives each ground a seed in turn, so that the number of runs does not depend on a lucky
// first ground.
func hunt(ctx context.Context, m Mutant, seeds int) (Kill, error) {
	k := Kill{Mutant: m}
	p, err := mutated(m)
	if err != nil {
		return k, err
	}
	if k.Checked, err = checked(ctx, m); err != nil {
		return k, err
	}
	all := grounds(m)
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		for _, g := range all {
			if err := ctx.Err(); err != nil {
				return k, err
			}
			r, err := g.Run(p, seed)
			if err != nil {
				return k, err
			}
			k.Runs++
			if r.Violation != nil {
				k.Ground, k.Seed, k.Violation = g, seed, r.Violation
				return k, nil
			}
		}
	}
	return k, nil
}

// Protocol is the protocol with the mutant's rule switched off; ErrNoMutants in
// a build without the tag.
func Protocol(m Mutant) (*sim.Protocol, error) { return mutated(m) }
