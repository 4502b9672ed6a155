package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/cmd/elect/internal/probe"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// nodeVerb is the program that the benchmarks of peers measure: one that embeds the library, as a user's would. It is
// not for people.
const nodeVerb = "bench-node"

func newNode(openers elect.Openers) *cobra.Command {
	var p place
	var id string
	var guard bool
	var cfg probe.Config
	cmd := &cobra.Command{
		Use: nodeVerb, Hidden: true, Args: cli.NoArgs,
		Short: "stand in an election and record what happens (the node of bench failover and bench steady)",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Guard = &probe.Guard{}
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			if guard { // before anything else: this process becomes two
				guardian, err := supervise.Guard(supervise.GuardConfig{Logger: log})
				if err != nil {
					return exit.With(1, err)
				}
				cfg.Guard.Guardian = guardian
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			var err error
			cfg.Election, err = openers.Open(ctx, p.election, p.name, elect.Config{ID: id, NonExclusive: cfg.Tokens, Guardian: cfg.Guard, Logger: log})
			if err != nil {
				return failed.Opening(err)
			}
			defer cfg.Election.Close()
			cfg.In, cfg.Out = os.Stdin, os.Stdout
			if err := probe.Run(ctx, cfg); err != nil {
				return exit.With(1, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	p.flags(f)
	f.StringVar(&id, "id", "", "`ID` of the node")
	f.BoolVar(&cfg.Tokens, "tokens", false, "work as soon as elected")
	f.BoolVar(&cfg.Observe, "observe", false, "only observe")
	f.BoolVar(&guard, "guard", false, "run under a guardian")
	return cmd
}
