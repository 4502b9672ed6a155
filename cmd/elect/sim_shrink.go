package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/exit"
	"github.com/electd/elect/sim"
)

const simShrinkHelp = `Shrink a schedule that violates something to the few faults that it takes: fewer
operations, fewer nodes, less noise, rounder times. The result violates the same
invariant. It is written beside FILE, with .small.json in place of .json, or to
--keep. Ctrl-C keeps what was reached so far.

Exit codes: 0 it is shrunk, or cannot be any more; 1 it violates nothing.

-o json writes one object: kept, operations, nodes, events, hash, invariant, and
of the original from_operations, from_nodes, from_events.`

func newSimShrink() *cobra.Command {
	var format output
	var keep string
	cmd := &cobra.Command{
		Use:   "shrink [flags] FILE",
		Short: "make a schedule that violates something smaller",
		Long:  simShrinkHelp,
		Args:  oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd); err != nil {
				return err
			}
			p, s, err := readSchedule(args[0])
			if err != nil {
				return err
			}
			w, err := sim.New(p, s)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			w.Run()
			before := w.Result()
			if before.Violation == nil {
				return exit.With(1, fmt.Errorf("%s violates nothing, so there is nothing to shrink", args[0]))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			small, after, err := shrink(ctx, cmd, p, s)
			if err != nil {
				return exit.With(1, err)
			}
			if keep == "" {
				keep = strings.TrimSuffix(strings.TrimSuffix(args[0], ".json"), ".ndjson") + ".small.json"
			}
			if err := keepSchedule(keep, small, after); err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), shrunk{
					keep, len(small.Ops), small.Nodes, after.Events, digits(after.Hash), after.Violation.Invariant, len(s.Ops), s.Nodes, before.Events,
				})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d operations (were %d), %d nodes (were %d), %s events (were %s), violates %s\n",
				keep, len(small.Ops), len(s.Ops), small.Nodes, s.Nodes, thousands(after.Events), thousands(before.Events), after.Violation.Invariant)
			return err
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "write the result to `FILE`")
	format.flag(cmd.Flags())
	return cmd
}

// shrunk is what came of it, as -o json shows it.
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

// shrink makes s smaller, and says on stderr how far it is: over and over in one
// line at a terminal, every ten seconds elsewhere.
func shrink(ctx context.Context, cmd *cobra.Command, p *sim.Protocol, s *sim.Schedule) (*sim.Schedule, *sim.Result, error) {
	w, terminal := cmd.ErrOrStderr(), atTerminal(os.Stderr)
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
			fmt.Fprintf(w, "elect: %s\n", text)
		}
	})
	if shown {
		fmt.Fprint(w, "\r\x1b[K")
	}
	return small, r, err
}
