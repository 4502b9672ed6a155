package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/failover"
	"github.com/electd/elect/cmd/elect/internal/steady"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol"
)

// killsNamed returns the kills that a flag names: all means every one except those in apart.
func killsNamed(named string, all []failover.Kill, apart ...failover.Kill) ([]failover.Kill, error) {
	if named == "all" {
		return all, nil
	}
	all = slices.Concat(all, apart)
	var kills []failover.Kill
	for name := range strings.SplitSeq(named, ",") {
		if k := failover.Kill(name); !slices.Contains(all, k) {
			return nil, exit.Usagef("--kill %q; want all, or one or more of: %s", named, listKills(all))
		} else if !slices.Contains(kills, k) {
			kills = append(kills, k)
		}
	}
	return kills, nil
}

func listKills(all []failover.Kill) string {
	var names []string
	for _, k := range all {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// checkProfile refuses an unknown profile, and lists the known ones.
func checkProfile(name string) error {
	if !slices.Contains(profiles(), name) {
		return exit.Usagef("--profile %q; want one of: %s", name, strings.Join(profiles(), ", "))
	}
	return nil
}

func benchPeers(cmd *cobra.Command, cfg failover.PeersConfig, format cli.Output) error {
	return onPeers(cmd, func(ctx context.Context, program, dir string, progress func(string, ...any)) error {
		cfg.Program, cfg.Node, cfg.Dir, cfg.Progress = program, nodeVerb, dir, progress
		report, err := failover.RunPeers(ctx, cfg)
		if ctx.Err() != nil {
			return err
		}
		if len(report.Takeovers) == 0 && err != nil {
			return err
		}
		if err == nil {
			err = report.Err() // errors that only all rounds together show
		}
		return errors.Join(err, show(cmd, format, report, report.Write))
	})
}

const steadyHelp = `Measure what an election among peers costs while nothing happens; for others see --idle
of elect bench failover. bench starts the nodes of one election on this machine, and one
of them leads. Over --for it measures the CPU time and the memory of each node, the
messages between them, and the elections without a reason.

The nodes are processes that embed the library, with certificates and with data
directories in your state directory. --busy runs a busy loop on each core beside them.

A false election is an error: exit code 1.

-o json writes one object: voters, observers, profile, busy, seconds, false_elections,
cpu_percent (of one core, of all nodes together), nodes, a list of {id, role,
cpu_percent, resident_bytes, share_bytes, sent_per_second, received_per_second, dropped,
pauses, longest_pause_ms}, and the conditions.`

func newSteady() *cobra.Command {
	var format cli.Output
	cfg := steady.Config{Voters: 3, Profile: "lan", For: time.Minute}
	cmd := &cobra.Command{
		Use:     "steady [flags]",
		Short:   "measure what an election among peers costs while nothing happens",
		Long:    steadyHelp,
		Example: "  elect bench steady\n  elect bench steady --profile fast --busy --for 10m\n  elect bench steady --voters 9 --observers 20",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			switch {
			case cfg.Voters < 1 || cfg.Voters > protocol.MaxVoters:
				return exit.Usagef("--voters is %d; want 1 to %d", cfg.Voters, protocol.MaxVoters)
			case cfg.Observers < 0 || cfg.Observers > 64:
				return exit.Usagef("--observers is %d; want 0 to 64", cfg.Observers)
			case cfg.For <= 0:
				return exit.Usagef("--for is %v; want more than 0", cfg.For)
			}
			if err := checkProfile(cfg.Profile); err != nil {
				return err
			}
			return onPeers(cmd, func(ctx context.Context, program, dir string, progress func(string, ...any)) error {
				cfg.Program, cfg.Node, cfg.Dir, cfg.Progress = program, nodeVerb, dir, progress
				report, err := steady.Run(ctx, cfg)
				if err != nil {
					return err
				}
				return errors.Join(report.Err(), show(cmd, format, report, report.Write))
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Voters, "voters", cfg.Voters, "`N` voters")
	f.IntVar(&cfg.Observers, "observers", 0, "`N` observers beside them")
	f.StringVar(&cfg.Profile, "profile", cfg.Profile, "`NAME` of the nodes' times: lan, fast, wan or calm")
	f.Var(cli.Duration(&cfg.For), "for", "`TIME` to measure for")
	f.BoolVar(&cfg.Busy, "busy", false, "run a busy loop on each core beside the nodes")
	format.Flag(f)
	return cmd
}

// onPeers gives a benchmark of peers a directory of its own, and removes it afterwards.
func onPeers(cmd *cobra.Command, do func(ctx context.Context, program, dir string, progress func(string, ...any)) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	program, err := cluster.Self()
	if err != nil {
		return err
	}
	dir, err := ownDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	err = do(ctx, program, dir, func(text string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "elect: "+text+"\n", args...)
	})
	if ctx.Err() != nil {
		return exit.With(exit.BySignal(syscall.SIGINT), errors.New("interrupted"))
	}
	if err != nil {
		return exit.With(1, err)
	}
	return nil
}

// show writes a report in the requested format.
func show(cmd *cobra.Command, format cli.Output, report any, table func(io.Writer) error) error {
	if format == "json" {
		return cli.WriteJSON(cmd.OutOrStdout(), report)
	}
	return table(cmd.OutOrStdout())
}
