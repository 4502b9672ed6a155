package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/scenario"
)

const simListHelp = `List protocols, scenarios, profiles (families of faults), faults, invariants and
situations, or only WHAT. electlab sim run --scenario runs a scenario. A suite of runs
must reach each situation at least once: it shows nothing about a situation that it
never reaches.

A naive protocol is a lock in common use that is broken, to be seen breaking.

-o json writes one object with these lists: protocols {name, store, naive, may_fail,
must_fail}, scenarios {name, says, source, steps, expected: by protocol}, profiles
{name, says}, faults {kind, group, says, beyond}, invariants {invariant, says},
situations {name, says}.`

func newSimList() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "list [flags] [WHAT]",
		Short:   "list protocols, scenarios, profiles, faults, invariants and situations",
		Long:    simListHelp,
		Example: "  electlab sim list\n  electlab sim list faults",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if len(args) > 1 {
				return exit.Usagef("%s takes one list, and %q was given, too", cmd.CommandPath(), args[1])
			}
			return listSim(cmd, args, format)
		},
	}
	format.Flag(cmd.Flags())
	return cmd
}

// catalogue is what there is, as -o json shows it.
type catalogue struct {
	Protocols  []listedProtocol  `json:"protocols,omitempty"`
	Scenarios  []listedScenario  `json:"scenarios,omitempty"`
	Profiles   []sim.Profile     `json:"profiles,omitempty"`
	Faults     []sim.Fault       `json:"faults,omitempty"`
	Invariants []sim.Promise     `json:"invariants,omitempty"`
	Situations []listedSituation `json:"situations,omitempty"`
}

type listedProtocol struct {
	Name     string          `json:"name"`
	Store    sim.StoreKind   `json:"store,omitempty"`
	Naive    bool            `json:"naive,omitempty"`
	MayFail  []sim.Invariant `json:"may_fail,omitempty"`
	MustFail []sim.Invariant `json:"must_fail,omitempty"`
}

type listedScenario struct {
	Name     string            `json:"name"`
	Says     string            `json:"says"`
	Source   string            `json:"source,omitempty"`
	Steps    []string          `json:"steps,omitempty"`
	Expected map[string]string `json:"expected"`
}

type listedSituation struct {
	Name string `json:"name"`
	Says string `json:"says"`
}

func listSim(cmd *cobra.Command, args []string, format cli.Output) error {
	var c catalogue
	fill := []struct {
		name string
		do   func()
	}{
		{"protocols", func() {
			sound := protocols.All()
			for i, p := range append(sound, protocols.Naive()...) {
				l := listedProtocol{Name: p.Name, Store: p.Store, Naive: i >= len(sound)}
				for _, inv := range expectedToFail(p) {
					if p.Expect[inv] == sim.MustFail {
						l.MustFail = append(l.MustFail, inv)
					} else {
						l.MayFail = append(l.MayFail, inv)
					}
				}
				c.Protocols = append(c.Protocols, l)
			}
		}},
		{"scenarios", func() {
			for _, s := range scenario.All() {
				l := listedScenario{Name: s.Name, Says: s.Says, Source: s.Source, Steps: s.Steps, Expected: map[string]string{}}
				for _, p := range s.Protocols() {
					l.Expected[p] = s.Expected(p)
				}
				c.Scenarios = append(c.Scenarios, l)
			}
		}},
		{"profiles", func() { c.Profiles = sim.Profiles() }},
		{"faults", func() { c.Faults = sim.Faults() }},
		{"invariants", func() { c.Invariants = sim.Promises() }},
		{"situations", func() {
			for _, s := range sim.Situations() {
				c.Situations = append(c.Situations, listedSituation{s.String(), s.Says()})
			}
		}},
	}
	var known []string
	for _, f := range fill {
		if len(args) == 0 || args[0] == f.name {
			f.do()
		}
		known = append(known, f.name)
	}
	if len(args) == 1 && c.Protocols == nil && c.Scenarios == nil && c.Profiles == nil && c.Faults == nil && c.Invariants == nil && c.Situations == nil {
		return exit.Usagef("there is no list %q; want one of: %s", args[0], strings.Join(known, ", "))
	}
	out := &answer{out: cmd.OutOrStdout()}
	if format == "json" {
		_ = cli.WriteJSON(out, c) // out keeps the error
	} else {
		c.write(out)
	}
	return ending(cmd, exit.OK, out.err)
}

// write writes it for people.
func (c *catalogue) write(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	first := true
	title := func(n int, text string) {
		if n == 0 {
			return
		}
		if !first {
			fmt.Fprintln(t)
		}
		fmt.Fprintln(t, text)
		first = false
	}
	title(len(c.Protocols), "Protocols:")
	for _, p := range c.Protocols {
		says := "among peers"
		if p.Store != sim.StoreNone {
			says = "over a store: " + string(p.Store)
		}
		if p.Naive {
			says = "NAIVE, to be seen breaking; " + says
		}
		for _, inv := range p.MayFail {
			says += "; " + string(inv) + " may fail"
		}
		for _, inv := range p.MustFail {
			says += "; " + string(inv) + " must be found failing"
		}
		fmt.Fprintf(t, "  %s\t%s\n", p.Name, says)
	}
	title(len(c.Scenarios), "Scenarios:")
	for _, s := range c.Scenarios {
		fmt.Fprintf(t, "  %s\t%s\n", s.Name, s.Says)
	}
	title(len(c.Profiles), "Profiles:")
	for _, p := range c.Profiles {
		fmt.Fprintf(t, "  %s\t%s\n", p.Name, p.Says)
	}
	group := ""
	for _, f := range c.Faults {
		if f.Group != group {
			group = f.Group
			title(1, "Faults, "+group+":")
		}
		fmt.Fprintf(t, "  %s\t%s\n", f.Kind, f.Says)
	}
	title(len(c.Invariants), "Invariants:")
	for _, i := range c.Invariants {
		fmt.Fprintf(t, "  %s\t%s\n", i.Invariant, i.Says)
	}
	title(len(c.Situations), "Situations:")
	for _, s := range c.Situations {
		fmt.Fprintf(t, "  %s\t%s\n", s.Name, s.Says)
	}
	_ = t.Flush() // out keeps the error
}
