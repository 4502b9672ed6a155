//go:build linux

package chaos

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/skew"
	"github.com/electd/elect/test/chaos/storm"
)

// tooth is a rule that the programs can be made to break, with a play that shows it.
type tooth struct {
	mutant string // the value of ELECT_MUTANT
	says   string
	play   scenario
	faults []string // of a storm that shows it, too; none: a storm would need much luck
	checks []string // one of them must fail
}

// bites is the number of the violation that the broken rule has caused; -1: none.
func (k *tooth) bites(r *judge.Report) int {
	return slices.IndexFunc(r.Violations, func(v judge.Violation) bool { return slices.Contains(k.checks, v.Check) })
}

// teeth are all of them. All but the first are run in a scenario of the catalogue.
func teeth() []tooth {
	disjoint := []string{judge.CheckOverlap}
	return []tooth{
		{
			mutant: "lease-from-ack", says: "the lease counts from the arrival of an answer, and not from before the question",
			play:   scenario{nodes: 3, on: proxies, script: slowAnswers, parts: []part{{kind: cluster.Library, judge: (*trial).safe}}},
			checks: disjoint,
		},
		{
			mutant: "no-residual", says: "a winner does not wait for what was promised to the leader before",
			play:   scenario{nodes: 3, script: seemsDead, parts: []part{{judge: electedThenLeads}}},
			faults: []string{"reset-and-cut"},
			checks: disjoint,
		},
		{
			mutant: "vote-not-synced", says: "a vote is answered before it is synced, and never is",
			play:   scenario{nodes: 3, disks: disk.NewFUSE, script: asksAgain((*trial).losePower), parts: []part{{judge: twoElections}}},
			faults: []string{"power-loss", "power-loss-all", "resign"},
			checks: []string{judge.CheckToken, judge.CheckTerm, judge.CheckMemory},
		},
		{
			mutant: "stopped-clock", says: "leases go by CLOCK_MONOTONIC, which stands still while the machine sleeps",
			play:   scenario{nodes: 3, clocks: true, script: sleeps((*skew.Clock).Suspend), parts: []part{{kind: cluster.Library, judge: handedOnInSleep}}},
			faults: []string{"suspend"},
			checks: disjoint,
		},
		{
			mutant: "late-kill", says: "the keeper kills the command a lease too late",
			play:   scenario{nodes: 3, script: parentFrozen, parts: []part{{judge: afterTimeout}}},
			faults: []string{"stop-node"},
			checks: disjoint,
		},
	}
}

// slowAnswers makes all answers to the leader take most of a promise, and then cuts its requests:
// answers to earlier requests arrive for as long. Such a leader asks for no more promises, because
// it learns too late that it is heard; only earlier promises count.
func slowAnswers(s *trial) {
	const slow = promise * 6 / 10
	answers := network.Links{{From: 1, To: 0}: {Delay: slow}, {From: 2, To: 0}: {Delay: slow}}
	s.begins()
	s.set(answers)
	s.hold(2 * promise)
	s.begins()
	s.set(network.Merge(answers, network.Links{{From: 0, To: 1}: {Cut: true}, {From: 0, To: 2}: {Cut: true}}))
	s.next(s.fault, soon)
	s.hold(2 * promise)
	s.healed()
	s.hold(promise)
}

// TestTeeth shows what these tests detect. The programs are built once so that they can be made to
// break one rule each. In the same play nothing is found without that, and a broken promise is
// found with it.
func TestTeeth(t *testing.T) {
	long.Test(t, "it breaks a cluster of real processes")
	programs := builder(t)("mutants", "chaos")
	for _, tooth := range teeth() {
		t.Run(tooth.mutant, func(t *testing.T) {
			t.Parallel()
			t.Log(tooth.says)
			sc := tooth.play
			t.Run("healthy", func(t *testing.T) { perform(t, &sc, &sc.parts[0], set{programs: programs}) })
			t.Run("mutant", func(t *testing.T) {
				const tries = 5
				for try := range tries {
					s := play(t, &sc, &sc.parts[0], set{programs, tooth.mutant})
					if i := tooth.bites(&s.report); i >= 0 {
						t.Logf("caught in try %d: %s: %s", try+1, s.report.Violations[i].Check, s.report.Violations[i].Text)
						return
					}
				}
				t.Errorf("the mutant %s survived %d tries", tooth.mutant, tries)
			})
		})
	}
}

// TestTeethInStorms shows the same for storms: of bounded length each, with the faults that concern
// the broken rule, one seed after the other.
func TestTeethInStorms(t *testing.T) {
	if os.Getenv("ELECT_CHAOS_STORMS") == "" {
		t.Skip("left out: it takes some minutes; want ELECT_CHAOS_STORMS=1")
	}
	programs, _, err := storm.Build(t.Context(), t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, tooth := range teeth() {
		if len(tooth.faults) == 0 {
			continue
		}
		t.Run(tooth.mutant, func(t *testing.T) {
			const seeds = 8
			for seed := range uint64(seeds) {
				report, err := storm.Run(t.Context(), storm.Options{
					Setup: "peers-lan", Network: "proxies", Seed: seed + 1, For: time.Minute,
					Faults: tooth.faults, Mutant: tooth.mutant, Programs: programs, Dir: t.TempDir(),
				})
				if err != nil {
					t.Fatal(err)
				}
				if i := tooth.bites(&report); i >= 0 {
					t.Logf("caught with seed %d, after %v: %s: %s", seed+1, shown(time.Duration(report.To-report.From)), report.Violations[i].Check, report.Violations[i].Text)
					return
				}
			}
			t.Errorf("the mutant %s survived %d storms", tooth.mutant, seeds)
		})
	}
}
