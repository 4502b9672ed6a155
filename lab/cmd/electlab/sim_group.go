package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/group"
)

const simGroupHelp = `Run groups, many keys under one coordinator, in a simulated world of faults, until a seed
violates what they promise: of each key one session is proven at a time, tokens rise,
work is told to end in time and joined before its key is given up, nothing of a session
that is over revives, and no key stays without a holder.

A violation is shrunk to the few faults that it needs, and written as a story. The
election of the coordinator is an abstract one, which keeps the contract of elect, or that
of the quorum machines; keys are placed by chance, or by the planner of production.

--long runs 10,000 seeds of each profile. The profiles:
`

// simGroup is the command line of sim group.
type simGroup struct {
	profile string
	seed    uint64
	runs    int
	long    bool
	story   bool
	trace   string
	format  cli.Output
}

func newSimGroup() *cobra.Command {
	r := &simGroup{}
	var help strings.Builder
	help.WriteString(simGroupHelp)
	for _, p := range group.Profiles() {
		fmt.Fprintf(&help, "  %-10s %s\n", p[0], p[1])
	}
	help.WriteString(`
-o json writes an array with an object for each profile: profile, runs, events,
virtual_seconds, stats, situations (a list of {name, says, seen}), and worst, the
violation if there is one: {seed, violation {invariant, at, event, node, says}, …}.`)
	cmd := &cobra.Command{
		Use:     "group [flags]",
		Short:   "run groups of many keys until a seed violates what they promise",
		Long:    help.String(),
		Example: "  electlab sim group --runs 1000\n  electlab sim group --profile registry --long\n  electlab sim group --profile rolling --seed 7 --story",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			return r.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.profile, "profile", "all", "the `PROFILE` of faults, or all")
	f.Uint64Var(&r.seed, "seed", 1, "the first `SEED`")
	f.IntVar(&r.runs, "runs", 100, "run `N` seeds of each profile")
	f.BoolVar(&r.long, "long", false, "run 10000 seeds of each profile")
	f.BoolVar(&r.story, "story", false, "write the story of one seed, with --seed and --profile")
	f.StringVar(&r.trace, "trace", "", "write the trace of one seed, with --seed and --profile, to `FILE`")
	r.format.Flag(f)
	return cmd
}

// groupReport is what came of a profile.
type groupReport struct {
	Profile string `json:"profile"`
	*group.Tally
}

func (r *simGroup) run(cmd *cobra.Command) error {
	var names []string
	for _, p := range group.Profiles() {
		names = append(names, p[0])
	}
	if r.profile != "all" {
		if _, err := group.Generate(r.seed, group.Options{Profile: r.profile}); err != nil {
			return exit.Usagef("--profile %s: there is none; want all or one of: %s", r.profile, strings.Join(names, ", "))
		}
		names = []string{r.profile}
	}
	switch {
	case r.long && cmd.Flags().Changed("runs"):
		return exit.Usagef("--long and --runs contradict each other; want one of them")
	case r.long:
		r.runs = 10_000
	case r.runs < 1:
		return exit.Usagef("--runs is %d; want 1 or more", r.runs)
	case (r.story || r.trace != "") && (r.profile == "all" || r.format == "json"):
		return exit.Usagef("--story and --trace write one run; want --profile and --seed with them, and no other format")
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	out := &answer{out: cmd.OutOrStdout()}
	if r.story || r.trace != "" {
		return r.tell(cmd, out)
	}
	var all []groupReport
	var err error
	var worst *group.Result
	var profile string
	var ran atomic.Uint64
	progress(func() (uint64, uint64, string) { return ran.Load(), uint64(r.runs * len(names)), "" }).during(cmd.ErrOrStderr(), func() {
		for _, name := range names {
			var t *group.Tally
			if t, err = group.Hunt(ctx, group.Options{Profile: name}, r.seed, r.runs, &ran); err != nil {
				return
			}
			all = append(all, groupReport{name, t})
			if t.Worst != nil {
				worst, profile = t.Worst, name
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if r.format == "json" {
		err = cli.WriteJSON(out, all)
	} else {
		r.show(out, all)
		if worst != nil {
			err = groupStory(ctx, out, profile, worst)
		}
	}
	code := exit.OK
	errs := []error{err, out.err}
	switch {
	case worst != nil:
		code = codeOf(worst.Violation)
	case ctx.Err() != nil:
		errs = append([]error{byInterrupt()}, errs...)
	}
	return ending(cmd, code, errs...)
}

// tell writes the story of one seed, or its trace, or both.
func (r *simGroup) tell(cmd *cobra.Command, out *answer) error {
	s, err := group.Generate(r.seed, group.Options{Profile: r.profile})
	if err != nil {
		return err
	}
	var told io.Writer
	if r.story {
		told = out
	}
	w, err := group.New(s, told)
	if err != nil {
		return err
	}
	file := &sideFile{path: r.trace}
	if r.trace != "" {
		if err := w.Trace(file, cli.Program()); err != nil {
			return err
		}
	}
	for w.Step() {
	}
	if r.trace != "" {
		err = errors.Join(unwritten(r.trace, w.Traced()), file.Close())
	}
	result := w.Result()
	if !r.story {
		fmt.Fprintf(out, "%s, seed %d: %s events, the hash is %s\n", r.profile, r.seed, thousands(result.Events), digits(result.Hash))
	}
	return ending(cmd, codeOf(result.Violation), err, out.err)
}

// groupStory writes the story of a violation, with the faults that it needs.
func groupStory(ctx context.Context, out io.Writer, profile string, worst *group.Result) error {
	s, err := group.Generate(worst.Seed, group.Options{Profile: profile})
	if err != nil {
		return err
	}
	before := len(s.Faults)
	if s, _, err = group.Shrink(ctx, s); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe story of seed %d of %s, with %d of its %d faults:\n", worst.Seed, profile, len(s.Faults), before)
	_, err = group.Run(s, out)
	return err
}

func (r *simGroup) show(out io.Writer, all []groupReport) {
	fmt.Fprintf(out, "%-10s %7s %12s %9s %9s %9s %9s %10s %10s %10s\n", "profile", "runs", "events", "tenures", "works", "account", "time", "well p50", "p99", "most")
	seen := map[string]int{}
	total := group.Tally{}
	for _, p := range all {
		s := &p.Stats
		fmt.Fprintf(out, "%-10s %7s %12s %9s %9s %9s %9s %10v %10v %10v\n", p.Profile, thousands(uint64(p.Runs)), thousands(p.Events), thousands(s.Tenures), thousands(s.Terms),
			thousands(s.ByAccount), thousands(s.ByTime), s.SettledAt(0.5), s.SettledAt(0.99), s.SettledAt(1))
		for _, x := range p.Situation {
			seen[x.Name] += x.Seen
		}
		total.Runs += p.Runs
		total.Events += p.Events
		total.Virtual += p.Virtual
	}
	fmt.Fprintf(out, "\n%s runs, %s events, %v of virtual time\n", thousands(uint64(total.Runs)), thousands(total.Events), (time.Duration(total.Virtual) * time.Second).Round(time.Second))
	fmt.Fprintln(out, "works: that began; account, time: covers that ended so; well: from the end of the faults until all keys are led")
	var missing []string
	if len(all) > 0 {
		for _, x := range all[0].Situation {
			if seen[x.Name] == 0 {
				missing = append(missing, x.Name)
			}
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "situations that no run has met: %s\n", strings.Join(missing, ", "))
	}
	for _, p := range all {
		if w := p.Worst; w != nil {
			fmt.Fprintf(out, "%s, seed %d: %v\n", p.Profile, w.Seed, cmp.Or(w.Violation, &sim.Violation{}))
			return
		}
	}
	fmt.Fprintln(out, "nothing was violated")
}
