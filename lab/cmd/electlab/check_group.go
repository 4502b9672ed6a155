package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/check"
)

// groups is check for the protocol of groups.
func (r *checkRun) groups(cmd *cobra.Command) error {
	for _, name := range []string{"mode", "begin", "voters", "candidates", "messages", "fires", "saves", "duplicates", "hints", "witnesses", "failures", "waits", "resigns", "transfers", "pauses", "changes", "membership", "ticks", "rates", "swing", "outlives", "promise", "keep", "replay", "jobs"} {
		if cmd.Flags().Changed(name) {
			return exit.Usagef("--%s is not for groups; want --nodes, --terms, --crashes, --versions, --vouchers, --settled, --cuts, --lapses or --moves", name)
		}
	}
	w := r.group
	w.Members = r.world.Nodes
	if w.Tenures = r.world.Terms; w.Tenures == 0 {
		w.Tenures = 2
	}
	if w.Kills = r.world.Crashes; !cmd.Flags().Changed("crashes") {
		w.Kills = 0
	}
	if !cmd.Flags().Changed("nodes") {
		w.Members = 2
	}
	if err := w.Validate(); err != nil {
		return exit.Usagef("%v", err)
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	fmt.Fprintf(cmd.ErrOrStderr(), "electlab: %s\n", r.bounded(w.String()))
	tell := newCheckProgress(cmd, 0)
	result, err := check.ExploreGroup(w, check.Options{
		Limit: r.limit, Memory: uint64(r.memory * (1 << 30)),
		Look: func(p check.Progress) bool { tell.look(p); return ctx.Err() == nil },
	})
	tell.end()
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	took := time.Since(tell.begin).Seconds()
	out := &answer{out: cmd.OutOrStdout()}
	if r.format == "json" {
		_ = cli.WriteJSON(out, struct { // out keeps the error
			*check.GroupResult
			World check.GroupWorld `json:"world"`
			Wall  float64          `json:"wall_seconds"`
		}{result, w, took})
	} else {
		for _, step := range result.Story {
			fmt.Fprintln(out, step)
		}
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "world\t%s\n", w.String())
		fmt.Fprintf(t, "states\t%s, %s steps between them, depth %d\n", thousands(result.States), thousands(result.Steps), result.Depth)
		fmt.Fprintf(t, "made of\t%s states of machines, %s messages, %s steps of machines; %s steps beyond the bounds\n", thousands(uint64(result.NodeStates)), thousands(uint64(result.Messages)), thousands(uint64(result.NodeSteps)), thousands(result.Cut))
		fmt.Fprintf(t, "took\t%.1f s: %s states/s, %.0f bytes a state\n", took, thousands(uint64(float64(result.States)/max(took, 1e-9))), result.PerState())
		switch result.Ending {
		case check.Exhausted:
			fmt.Fprintf(t, "violated\tnothing; all that these bounds allow was explored\n")
		case check.Violated:
			fmt.Fprintf(t, "violated\t%v\n", result.Violation)
		default:
			fmt.Fprintf(t, "violated\tnothing so far; NOT EXHAUSTED: %s\n", result.Ending)
		}
		_ = t.Flush() // out keeps the error
	}
	switch result.Ending {
	case check.Violated:
		return ending(cmd, codeOfCheck(result.Violation), out.err)
	case check.Bounded:
		return ending(cmd, exit.NotExhausted, out.err)
	case check.Stopped:
		return ending(cmd, exit.OK, byInterrupt(), out.err)
	}
	return ending(cmd, exit.OK, out.err)
}
