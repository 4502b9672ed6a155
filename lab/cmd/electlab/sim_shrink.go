package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim"
)

const simShrinkHelp = `Shrink a schedule that violates an invariant to the few faults that it needs: fewer
operations, fewer nodes, less noise, rounder times. The result violates the same
invariant. It is written to --keep, or beside FILE, with .small.json in place of .json.
Ctrl-C keeps the best result so far.

Exit codes:
  0    it is shrunk, or cannot become smaller
  1    it violates nothing
  73   the result or stdout cannot be written
  130  interrupted before there was a result

-o json writes one object: kept, operations, nodes, events, hash, invariant, and for the
original from_operations, from_nodes and from_events.`

func newSimShrink() *cobra.Command {
	var format cli.Output
	var keep string
	cmd := &cobra.Command{
		Use:   "shrink [flags] FILE",
		Short: "shrink a schedule that violates an invariant",
		Long:  simShrinkHelp,
		Args:  oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			p, s, err := readSchedule(args[0])
			if err != nil {
				return err
			}
			if keep == "" {
				keep = strings.TrimSuffix(strings.TrimSuffix(args[0], ".json"), ".ndjson") + ".small.json"
			}
			return shrinkFile(cmd, p, s, args[0], keep, format)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "write the result to `FILE`")
	format.Flag(cmd.Flags())
	return cmd
}

func shrinkFile(cmd *cobra.Command, p *sim.Protocol, s *sim.Schedule, path, keep string, format cli.Output) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	w, err := sim.New(p, s)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	before := play(ctx, w, 0)
	switch {
	case before.interrupted:
		return exit.With(exit.BySignal(syscall.SIGINT), fmt.Errorf("interrupted at event %d, and nothing was violated until then: %s is not shrunk", before.Events, path))
	case before.Violation == nil:
		return exit.With(1, fmt.Errorf("%s violates nothing, so there is nothing to shrink", path))
	}
	small, after, err := shrink(ctx, cmd, p, s)
	if ctx.Err() != nil && err != nil {
		return exit.With(exit.BySignal(syscall.SIGINT), fmt.Errorf("interrupted before anything could be left out: %s is not shrunk", path))
	}
	if err != nil {
		return exit.With(1, err)
	}
	if err := keepSchedule(keep, small, after); err != nil {
		return err
	}
	out := &answer{out: cmd.OutOrStdout()}
	if format == "json" {
		_ = cli.WriteJSON(out, shrunk{
			keep, len(small.Ops), small.Nodes, after.Events, digits(after.Hash), after.Violation.Invariant, len(s.Ops), s.Nodes, before.Events,
		}) // out keeps the error
	} else {
		fmt.Fprintf(out, "%s: %d operations (were %d), %d nodes (were %d), %s events (were %s), violates %s\n",
			keep, len(small.Ops), len(s.Ops), small.Nodes, s.Nodes, thousands(after.Events), thousands(before.Events), after.Violation.Invariant)
	}
	return ending(cmd, exit.OK, out.err)
}

// shrunk is the result, as -o json shows it.
type shrunk struct {
	Kept           string        `json:"kept"`
	Operations     int           `json:"operations"`
	Nodes          int           `json:"nodes"`
	Events         uint64        `json:"events"`
	Hash           string        `json:"hash"`
	Invariant      sim.Invariant `json:"invariant"`
	FromOperations int           `json:"from_operations"`
	FromNodes      int           `json:"from_nodes"`
	FromEvents     uint64        `json:"from_events"`
}

// shrink makes s smaller, and shows its progress on stderr: in one line at a terminal, every ten
// seconds elsewhere.
func shrink(ctx context.Context, cmd *cobra.Command, p *sim.Protocol, s *sim.Schedule) (*sim.Schedule, *sim.Result, error) {
	w, terminal := cmd.ErrOrStderr(), cli.AtTerminal(os.Stderr)
	every := 10 * time.Second
	if terminal {
		every = 100 * time.Millisecond
	}
	last, shown := time.Now(), false
	small, r, err := sim.Shrink(ctx, p, s, func(step sim.ShrinkStep) {
		if time.Since(last) < every {
			return
		}
		last = time.Now()
		text := fmt.Sprintf("shrinking: %d runs, %d operations and %d nodes are left", step.Runs, step.Ops, step.Nodes)
		if terminal {
			shown = true
			fmt.Fprintf(w, "\r\x1b[K%s", text)
		} else {
			fmt.Fprintf(w, "electlab: %s\n", text)
		}
	})
	if shown {
		fmt.Fprint(w, "\r\x1b[K")
	}
	return small, r, err
}
