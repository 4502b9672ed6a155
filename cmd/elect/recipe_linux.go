package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/lines"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const recipePostgresHelp = `Keep one primary among the nodes of a PostgreSQL cluster, and the others as its replicas.

  elect recipe postgres run --config FILE         run this node, until SIGTERM
  elect recipe postgres status --config FILE      show all nodes
  elect recipe postgres switchover --config FILE  hand over in order, to --to ID or the best one
  elect recipe postgres pause --config FILE       no promotion and no start, until resume
  elect recipe postgres validate --config FILE    check a configuration, and start nothing
  elect recipe postgres schema                    print the JSON schema of the configuration

No acknowledged commit is lost, and no older primary acknowledges one.`

func newRecipe(openers elect.Openers) *cobra.Command {
	group := func(use, short, long string) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Long: long, Args: cli.VerbOnly, RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		}}
	}
	recipe := group("recipe", "run a known service, with its own failover: postgres", "Run a known service, with its own failover.")
	pg := group("postgres", "a PostgreSQL cluster with one primary", recipePostgresHelp)
	var path, to string
	verb := func(use, short string, run func(cmd *cobra.Command, s *postgres.Settings) error) *cobra.Command {
		cmd := &cobra.Command{Use: use + " --config FILE", Short: short, Long: short + ".", Args: cli.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			s, err := postgres.Read(path, text)
			if err != nil {
				return usageLines(cmd, err)
			}
			return run(cmd, s)
		}}
		cmd.Flags().StringVar(&path, "config", "", "`FILE` with the configuration, in YAML (required)")
		return cmd
	}
	ask := func(cmd *cobra.Command, s *postgres.Settings, do func(context.Context, *postgres.Client) error) error {
		client, err := postgres.NewOperator(s)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
		defer cancel()
		return do(ctx, client)
	}
	handover := verb("switchover", "hand over in order", func(cmd *cobra.Command, s *postgres.Settings) error {
		return ask(cmd, s, func(ctx context.Context, c *postgres.Client) error {
			primary, err := c.Primary(ctx, s)
			if err != nil {
				return err
			}
			return c.Switchover(ctx, primary, to)
		})
	})
	handover.Flags().StringVar(&to, "to", "", "`ID` of the next primary (default: the best replica)")
	pausing := func(use, short string, on bool) *cobra.Command {
		return verb(use, short, func(cmd *cobra.Command, s *postgres.Settings) error {
			return ask(cmd, s, func(ctx context.Context, c *postgres.Client) (err error) {
				for _, e := range s.Nodes {
					err = errors.Join(err, c.Pause(ctx, e.ID, on))
				}
				return err
			})
		})
	}
	pg.AddCommand(
		verb("run", "run this node until SIGTERM", func(cmd *cobra.Command, s *postgres.Settings) error { return runPostgres(cmd, openers, s) }),
		verb("validate", "check a configuration, and start nothing", func(cmd *cobra.Command, s *postgres.Settings) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is right; nodes: %d\n", path, len(s.Nodes))
			return err
		}),
		verb("status", "show all nodes", func(cmd *cobra.Command, s *postgres.Settings) error {
			return ask(cmd, s, func(ctx context.Context, c *postgres.Client) error {
				all, errs := c.All(ctx, s)
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "NODE\tROLE\tTERM\tTIMELINE\tLSN\tSTREAMING\tDOES")
				for _, one := range all {
					fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%X/%X\t%t\t%s\n", one.ID, one.Role, one.Followed, one.Timeline, one.LSN>>32, uint32(one.LSN), one.Streaming, one.Does)
				}
				for id, err := range errs {
					fmt.Fprintf(w, "%s\t-\t\t\t\t\t%v\n", id, err)
				}
				return w.Flush()
			})
		}),
		handover, pausing("pause", "no promotion and no start, until resume", true), pausing("resume", "end a pause", false),
		&cobra.Command{Use: "schema", Short: "print the JSON schema of the configuration", Args: cli.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(postgres.Schema())
			return err
		}},
	)
	recipe.AddCommand(pg)
	return recipe
}

// runPostgres runs a node. The program is guarded: whatever becomes of it, its PostgreSQL is dead before its lease ends.
func runPostgres(cmd *cobra.Command, openers elect.Openers, s *postgres.Settings) error {
	say := lines.New(os.Stderr, lines.Form{Time: true, About: s.ID})
	defer say.Close()
	log := say.Logger(true)
	guardian, err := supervise.Guard(supervise.GuardConfig{Logger: log, Grace: s.Grace + 5*time.Second})
	if err != nil {
		return exit.With(1, err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = postgres.Run(ctx, postgres.RunConfig{Settings: s, Openers: openers, Guardian: guardian, Logger: log, Output: say})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
