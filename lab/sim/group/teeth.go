package group

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"

	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// Mutant is a rule that can be switched off: one of the machines', in builds with the tag mutants, or one of a driver's.
type Mutant struct {
	Name string `json:"name"`
	Rule string `json:"rule"`
	Says string `json:"says"` // what it does instead
}

// ErrNoMutants says that this build has no mutants of the machines.
var ErrNoMutants = errors.New("this build has no mutants of the machines: build with -tags mutants")

// Mutants lists the machines' mutants, and then those of the driver.
func Mutants() []Mutant {
	var all []Mutant
	for _, m := range machine.Mutants() {
		if _, harmless := Harmless()[m.Name]; !harmless {
			all = append(all, Mutant{m.Name, m.Rule, m.Says})
		}
	}
	for _, c := range Careless() {
		all = append(all, Mutant{c[0], "driver", c[1]})
	}
	return all
}

// Harmless lists mutants of the machines without which nothing breaks in this world, and why.
func Harmless() map[string]string {
	return map[string]string{
		"old-attachment-counts":  "within one session a release names a token whose work was joined, a poll proves less than a later one, and a member that keeps a newer registry knows what it acknowledged before",
		"own-cover-only":         "in no run a coordinator with a shorter cover is elected at once after one with a longer promise, and hears of no member with keys before its own cover is over. A story of package internal/protocol/group notices it",
		"report-keeps-admission": "a session whose report does not show its admission was never told of it, and is admitted again. Who may vouch then knows it: each voucher of its first admission had acknowledged a version that lists it, one that was chosen later keeps no registry before that of its choice, which lists it, too, and one of an earlier tenure reported during cover, before anybody was admitted. Meanwhile it is given nothing, and those that come wait for its acknowledgement or need none of it",
	}
}

// Kill is the result of a hunt.
type Kill struct {
	Mutant
	Profile   string         `json:"profile"`
	Seed      uint64         `json:"seed"` // 0: it survives
	Runs      int            `json:"runs"` // on all grounds
	Violation *sim.Violation `json:"violation,omitempty"`
}

// grounds are the profiles on which a mutant is hunted.
func grounds(m Mutant) []string {
	switch {
	case strings.HasPrefix(m.Name, "jump-ignored"):
		return []string{"jumps"}
	case m.Name == "no-deserted":
		return []string{"deserted"}
	case m.Name == "longer-promise-admitted":
		return []string{"settings"}
	case m.Rule == "G15", m.Name == "shorter-cover-admitted", m.Name == "misfit-goes-on", m.Name == "own-cover-only":
		return []string{"misfits"}
	case m.Name == "report-promised-as-a-poll":
		return []string{"mixed"}
	case m.Name == "older-tenure-obeyed":
		return []string{"overlap"}
	case m.Name == "resigns-at-once":
		return []string{"rolling"}
	case m.Name == CarelessLease:
		return []string{"peers"}
	case m.Name == CarelessMoves:
		return []string{"placed"}
	case m.Rule == "G3", strings.HasPrefix(m.Name, "cover-"), m.Name == CarelessBegin, m.Name == CarelessCheck:
		return []string{"edge", "clocks"}
	case m.Rule == "G5", m.Rule == "G2":
		return []string{"moves", "edge", "registry", "storm"}
	}
	return []string{"registry", "clocks", "storm", "swarm"}
}

// HuntMutants hunts mutants, several at a time, each with the seeds from 1 to seeds on each of its grounds in turn; but
// first where it died before, as known has it by its name. done is called at the end of each, never concurrently. The
// result depends on the arguments alone.
func HuntMutants(ctx context.Context, mutants []Mutant, known map[string]Kill, seeds int, done func(Kill)) ([]Kill, error) {
	kills := make([]Kill, len(mutants))
	var mu sync.Mutex // of what follows, and of calls of done
	var failed error
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				k, err := huntMutant(ctx, mutants[i], known[mutants[i].Name], seeds)
				mu.Lock()
				if kills[i] = k; err != nil {
					failed = errors.Join(failed, err)
				} else {
					done(k)
				}
				mu.Unlock()
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	wg.Wait()
	return kills, failed
}

func huntMutant(ctx context.Context, m Mutant, known Kill, seeds int) (Kill, error) {
	k := Kill{Mutant: m}
	if m.Rule != "driver" && !mutated {
		return k, ErrNoMutants
	}
	try := func(profile string, seed uint64) (bool, error) {
		s, err := Generate(seed, Options{Profile: profile, Mutant: m.Name})
		if err != nil {
			return false, err
		}
		r, err := Run(s, nil)
		if err != nil {
			return false, err
		}
		if k.Runs++; r.Violation != nil {
			k.Profile, k.Seed, k.Violation = profile, seed, r.Violation
		}
		return r.Violation != nil, ctx.Err()
	}
	if known.Seed != 0 {
		if dead, err := try(known.Profile, known.Seed); dead || err != nil {
			return k, err
		}
	}
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		for _, profile := range grounds(m) {
			if dead, err := try(profile, seed); dead || err != nil {
				return k, err
			}
		}
	}
	return k, nil
}
