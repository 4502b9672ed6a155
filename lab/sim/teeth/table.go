package teeth

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/electd/elect/internal/mutation"
	machines "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim/group"
)

// Seeds is how many seeds a mutant has to survive, on each of its grounds, to count as a survivor.
const Seeds = 2000

// Least is how many seeds of each ground the unchanged machine has to pass at least, and times is
// how many of them for each seed that the hardest mutant took there.
const (
	Least = 60
	times = 3
)

// Figure is how many seeds the hardest of the mutants that died on a ground took; 0 if none did.
type Figure struct {
	Protocol, Ground string
	Seeds            int
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
			if g.Name == k.Ground.Name {
				all[i].Seeds = max(all[i].Seeds, int(k.Seed))
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

// Equivalent lists rules that were tried as mutants and are none, those of groups at the end.
func Equivalent() []Harmless {
	all := []Harmless{
		{
			quorum.Name, "older-membership-wins", "R15", "helps candidates whose membership is older than the voter's",
			"the answer carries the voter's membership, and a candidate that learns of a newer one ends its round before it counts the answer. A leader asks for votes only while its lease lives, when no other can change the membership",
		},
		{
			queue.Name + "-zookeeper", "adopt-from-older-session", "Q2", "keeps its nonce, and adopts an entry of another session",
			"a candidacy ends when the store has said that its session is gone, and the next one looks for its entry only after a write through the quorum. In the random net of package queue, whose client library replaces a live session, this mutant dies",
		},
	}
	for _, m := range machines.Mutants() {
		if why, ok := group.Harmless()[m.Name]; ok {
			all = append(all, Harmless{"group", m.Name, m.Rule, m.Says, why})
		}
	}
	return all
}

// Table writes docs/teeth.md, which needs of each kill its invariant and its runs.
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

Each rule of the protocols that guards something can be switched off by name, in builds with the tag `+"`mutants`"+`. The
simulator then runs the machine without it, seed after seed, until an invariant fails. There are %d such mutants of %d
protocols. A mutant that survives %d seeds, and the exhaustive checker besides, fails the build; the toughest took
%d runs.

`+"```\ngo run -tags mutants ./lab/sim/teeth/hunt                   # all of them\ngo run -tags mutants ./lab/sim/teeth/hunt -only no-verify   # one\n```"+`

[kills.txt](../lab/sim/teeth/testdata/kills.txt) has, for each mutant, the kind of world and the seed that found it, and
what the exhaustive checker found. It is the same on every computer.

- Some worlds judge by more than safety. *Undisturbed*: a healthy leader stays. *Prompt*: a leader that is gone is
  replaced in time. *Joined*: no node leads before the work of one that resigned has returned. *No-herd*: a departure
  from a queue wakes one participant. *Lawful*: a voter that refuses a vote stays in its term, no renewal follows a
  tenure that ended by itself, and one candidacy has one entry in one session.
- In each kind of world the unchanged machine holds for %d times as many seeds as the hardest mutant that died there
  took, and for %d at least (`+"`TestGroundsAreFair`"+`; without `+"`ELECT_LONG`"+`, and under the race detector, for 2).
  `+"`make sim-long`"+` takes [more](track-record.md#long-runs).
- [Groups](simulator.md#groups) have a world of their own, and [a list of their mutants](../lab/sim/group/testdata/kills.md).
`, len(kills), protocols, Seeds, longest, times, Least)
	for _, name := range order {
		fmt.Fprintf(w, "\n## %s\n\n| mutant | rule | what it does | killed by |\n|---|---|---|---|\n", name)
		for _, k := range kills {
			if k.Protocol == name {
				fmt.Fprintf(w, "| %s | %s | %s | %s |\n", k.Name, k.Rule, sentence(k.Says), k.by())
			}
		}
	}
	driving(w)
	if e := Equivalent(); len(e) > 0 {
		fmt.Fprint(w, "\n## Harmless\n\nWithout these rules nothing that is promised breaks in this world.\n\n| rule left out | of | what it does | why it is harmless |\n|---|---|---|---|\n")
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

The simulator has a driver of its own, so it cannot see a mistake in `+"`internal/runtime`"+`, which drives machines in
production. There each mutant has a test, and the last in `+"`peer`"+`:
`+"`go test -tags mutants ./internal/runtime ./peer -run TestDrivingTeeth`"+`. A survivor fails the build.

| mutant | what it does | killed by |
|---|---|---|
`)
	for _, d := range mutation.OfDriving() {
		fmt.Fprintf(w, "| %s | %s | %s |\n", d.Name, sentence(d.Says), "`"+d.Test+"`")
	}
}

// by is the invariant that killed it.
func (k *Kill) by() string {
	if k.Seed == 0 {
		return "**nothing**"
	}
	return string(k.Violation.Invariant)
}

// Record writes testdata/kills.txt.
func Record(w io.Writer, kills []Kill) {
	fmt.Fprint(w, `# What killed each mutant. Written by go generate ./lab/sim/teeth. Do not edit.
#
# protocol mutant | invariant | ground | seed | runs | checker
#
# The ground is the kind of world: swarm draws from the seed which faults there are; storm has all of them on slow
# networks, without a rest; the others have what these two seldom have. Each ground takes seed 1, then 2, and so on; runs
# counts those of all grounds. The checker is what electlab check finds wrong with the mutant, in how many states, and the
# steps of the shortest way. A dash: its worlds do not have what the rule is about.

`)
	for _, k := range kills {
		checked := "-"
		if k.Checked != nil {
			checked = fmt.Sprintf("%s, %d, %d", k.Checked.Invariant, k.Checked.States, k.Checked.Steps)
		}
		fmt.Fprintf(w, "%s %s | %s | %s | %d | %d | %s\n", k.Protocol, k.Name, k.by(), cmp.Or(k.Ground.Name, "-"), k.Seed, k.Runs, checked)
	}
}

// sentence begins with a capital, ends without a full stop, and fits in a cell.
func sentence(text string) string {
	text = strings.ReplaceAll(strings.TrimSuffix(text, "."), "|", `\|`)
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
