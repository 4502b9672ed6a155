package teeth

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/protocol/quorum"
)

// Seeds is how many seeds a mutant has to survive, on each of its grounds, to count as a survivor.
const Seeds = 2000

// Least is how many seeds of each ground the unchanged machine has to pass at least, and times is
// how many of them for each seed that the hardest mutant took there.
const (
	Least = 60
	times = 3
)

// Figure is the hardest of the mutants that died on a ground.
type Figure struct {
	Protocol, Ground string
	Mutant           string // "" if none did
	Seeds            int    // that it took
}

// Enough is how many seeds of the ground the unchanged machine has to pass.
func (f Figure) Enough() int { return max(Least, times*f.Seeds) }

// Figures lists all grounds on which the mutants were hunted, by protocol and name.
func Figures(kills []Kill) []Figure {
	var all []Figure
	at := map[[2]string]int{}
	for _, k := range kills {
		for _, g := range grounds(k.Mutant) {
			key := [2]string{k.Protocol, g.Name}
			i, known := at[key]
			if !known {
				i = len(all)
				at[key] = i
				all = append(all, Figure{Protocol: k.Protocol, Ground: g.Name})
			}
			if g.Name == k.Ground.Name && int(k.Seed) > all[i].Seeds {
				all[i].Mutant, all[i].Seeds = k.Name, int(k.Seed)
			}
		}
	}
	slices.SortFunc(all, func(a, b Figure) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Ground, b.Ground))
	})
	return all
}

// Harmless is a rule that can be switched off in the simulator's world without a breach of the
// contract.
type Harmless struct{ Protocol, Name, Rule, Says, Why string }

// Equivalent lists rules that were tried as mutants and are none.
func Equivalent() []Harmless {
	return []Harmless{
		{
			quorum.Name, "older-membership-wins", "R15", "helps candidates whose membership is older than the voter's",
			"the answer carries the voter's membership, and a candidate that learns of a newer one gives its round up before it counts the answer. A leader holds rounds only while its lease lives, when no other can change the membership",
		},
		{
			queue.Name + "-zookeeper", "adopt-from-older-session", "Q2", "keeps its nonce, and adopts an entry of another session",
			"a candidacy ends when the store has said that its session is gone, and the next one looks for its entry only after a write through the quorum. A client library that replaced a live session would show the difference: the random net of package queue has one, and there this mutant dies",
		},
	}
}

// Table writes docs/teeth.md.
func Table(w io.Writer, kills []Kill) {
	protocols := 0
	var order []string
	longest := 0
	for _, k := range kills {
		if !slices.Contains(order, k.Protocol) {
			order = append(order, k.Protocol)
			protocols++
		}
		if k.Seed != 0 {
			longest = max(longest, k.Runs)
		}
	}
	fmt.Fprintf(w, `# Teeth

<!-- Written by go generate ./lab/sim/teeth. Do not edit. -->

A test that has never failed has shown nothing. So each rule of the protocols that guards something can be switched off,
by name, in builds with the tag `+"`mutants`"+`, and the simulator hunts what is left of the machine, seed after seed, until
an invariant fails. There are %d such mutants of %d protocols. A mutant that survives %d seeds, and the exhaustive
checker besides, fails the build; the toughest took %d runs.

`+"```\ngo run -tags mutants ./lab/sim/teeth/hunt                # all of them\ngo run -tags mutants ./lab/sim/teeth/hunt -only no-verify   # one\n```"+`

- *Runs* counts from seed 1; *events* had happened in the last run when the mutant was found. The table is the same on
  every computer, and changes when a machine or the world does.
- *Ground* is the kind of world: `+"`swarm`"+` draws from the seed which faults there are; `+"`storm`"+` is that on slow networks,
  without a rest; the others have what these two seldom have.
- *Checker* is what `+"`electlab check`"+` finds wrong with the mutant, in how many states, and the steps of the shortest way.
  A dash: its worlds do not have what the rule is about.
- Some grounds judge by more than safety. *Undisturbed*: a healthy leader stays; *prompt*: a leader that is gone is
  replaced in time; *joined*: no node leads before the work of one that resigned has returned; *no-herd*: a departure
  from a queue wakes one; *lawful*: a voter that refuses a vote stays in its term, no renewal follows a tenure that
  ended by itself, and one candidacy has one entry in one session.
`, len(kills), protocols, Seeds, longest)
	for _, name := range order {
		checker, rule := "", ""
		if name == quorum.Name {
			checker, rule = " checker: states, steps |", "---|"
		}
		fmt.Fprintf(w, "\n## %s\n\n| mutant | rule | what it does | killed by | runs | events | ground |%s\n|---|---|---|---|---|---|---|%s\n", name, checker, rule)
		for _, k := range kills {
			if k.Protocol != name {
				continue
			}
			by, ground, events := "**nothing**", "–", "–"
			if k.Seed != 0 {
				by, ground, events = string(k.Violation.Invariant), k.Ground.Name, strconv.FormatUint(k.Violation.Event, 10)
			}
			if checker != "" {
				ground += " | " + k.checked()
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %d | %s | %s |\n", k.Name, k.Rule, sentence(k.Says), by, k.Runs, events, ground)
		}
	}
	fmt.Fprintf(w, "\n## Grounds\n\n"+`On each ground the machine as it is holds for %d times as many seeds as the hardest of the mutants that died there took,
and for %d at least (TestGroundsAreFair; without ELECT_LONG, and under the race detector, for 2). `+"`make sim-long`"+` takes
10,000 of each, and of each profile: [the track record](track-record.md#long-runs).

| protocol | ground | hardest mutant | its seeds |
|---|---|---|---|
`, times, Least)
	for _, f := range Figures(kills) {
		fmt.Fprintf(w, "| %s | %s | %s | %d |\n", f.Protocol, f.Ground, cmp.Or(f.Mutant, "–"), f.Seeds)
	}
	driving(w)
	if e := Equivalent(); len(e) > 0 {
		fmt.Fprint(w, "\n## Harmless\n\nIn this world these rules can be left out, and nothing that is promised breaks.\n\n| rule left out | of | what it does | why it is harmless |\n|---|---|---|---|\n")
		for _, h := range e {
			fmt.Fprintf(w, "| %s | %s %s | %s | %s |\n", h.Name, h.Protocol, h.Rule, sentence(h.Says), sentence(h.Why))
		}
	}
}

// driving lists the mutants of what drives a machine. Other tests catch them, because the simulator
// drives machines itself.
func driving(w io.Writer) {
	fmt.Fprint(w, `
## Driving a machine

The simulator drives machines by code of its own, so it cannot see a mistake of what drives them in production. Package
`+"`internal/runtime`"+` has a test for each, and `+"`peer`"+` for the last:
`+"`go test -tags mutants ./internal/runtime ./peer -run TestDrivingTeeth`"+`. A survivor fails the build.

| mutant | what it does | killed by |
|---|---|---|
`)
	for _, d := range mutation.OfDriving() {
		fmt.Fprintf(w, "| %s | %s | %s |\n", d.Name, sentence(d.Says), "`"+d.Test+"`")
	}
}

// checked is the checker's result, in states and steps.
func (k *Kill) checked() string {
	if k.Checked == nil {
		return "–"
	}
	return fmt.Sprintf("%s: %d, %d", k.Checked.Invariant, k.Checked.States, k.Checked.Steps)
}

// sentence begins with a capital, ends without a full stop, and fits in a cell.
func sentence(text string) string {
	text = strings.ReplaceAll(strings.TrimSuffix(text, "."), "|", `\|`)
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
