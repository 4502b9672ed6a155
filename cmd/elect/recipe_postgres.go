package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/quorum"
)

const recipePostgresHelp = `Keep one primary among the nodes of a PostgreSQL cluster, and the others as its
replicas. No acknowledged commit is lost while at most confirm nodes fail, and a
primary of an earlier term acknowledges none.

  elect recipe postgres run         run this node: its election, and its PostgreSQL
  elect recipe postgres status      show all nodes
  elect recipe postgres switchover  hand over in order, to --to ID or the best replica
  elect recipe postgres pause       promote nobody, until resume
  elect recipe postgres validate    check a configuration, and start nothing

All have --config FILE. If all data directories are empty, the cluster is made.
run refuses root, because PostgreSQL does. docs/postgres.md goes from an empty
machine to a failover that was tried.`

const recipePostgresCodes = `Exit codes:
  0   done
  3   there is no primary
  64  the configuration is wrong, and each error has a line
  69  a node did not answer, or refused, and said why`

func newRecipePostgres(openers elect.Openers) *cobra.Command {
	pg := &cobra.Command{
		Use: "postgres", Short: "one primary among the nodes of a PostgreSQL cluster", Long: recipePostgresHelp + "\n\n" + recipePostgresCodes, Args: cli.VerbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
	}
	path := ""
	verb := func(use, short, long string, run func(cmd *cobra.Command, s *postgres.Settings) error) *cobra.Command {
		cmd := &cobra.Command{
			Use: use + " --config FILE", Short: short, Long: long, Args: cli.NoArgs, Example: "  elect recipe postgres " + use + " --config /etc/elect/postgres.yaml",
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := cli.FromEnvironment(cmd); err != nil {
					return err
				}
				s, err := loadPostgres(openers, path)
				if err != nil {
					return usageLines(cmd, err)
				}
				return run(cmd, s)
			},
		}
		cmd.Flags().StringVar(&path, "config", "", "`FILE` with the configuration, in YAML (required)")
		return cmd
	}
	var logs logFlags
	run := verb("run", "run a node until SIGTERM", "Run a node until SIGTERM: it stands in the election, and its PostgreSQL is the primary while, and only\nwhile, it leads, and follows the leader otherwise. The lines of PostgreSQL are on stderr, too.\nSIGHUP reads the file again: changed parameters and hba are put into force.", func(cmd *cobra.Command, s *postgres.Settings) error {
		return runPostgres(cmd, openers, path, s, &logs)
	})
	logs.flags(run)

	to := ""
	switchover := verb("switchover", "hand over in order", "Hand over in order: the primary shuts down, so that the next one has all of its WAL. The command returns\nwhen that has begun, or says why it cannot.", func(cmd *cobra.Command, s *postgres.Settings) error {
		return askPostgres(cmd, s, func(ctx context.Context, c *postgres.Client) error {
			primary, err := c.Primary(ctx, s)
			if err != nil {
				return exit.With(exit.NoLeader, err)
			}
			if err := c.Switchover(ctx, primary, to); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s hands over\n", primary)
			return err
		})
	})
	switchover.Flags().StringVar(&to, "to", "", "`ID` of the next primary (default: the best replica)")

	pausing := func(use, short, long string, on bool) *cobra.Command {
		return verb(use, short, long, func(cmd *cobra.Command, s *postgres.Settings) error {
			return askPostgres(cmd, s, func(ctx context.Context, c *postgres.Client) (err error) {
				for _, e := range s.Nodes {
					err = errors.Join(err, c.Pause(ctx, e.ID, on))
				}
				if err != nil {
					return fmt.Errorf("some nodes did not obey: %s; want the command once more", cli.OneLine(strings.ReplaceAll(err.Error(), "\n", "; ")))
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%sd: all %d nodes\n", use, len(s.Nodes))
				return err
			})
		})
	}

	var output cli.Output
	status := verb("status", "show all nodes", "Show all nodes: the role of each, the term of its WAL, how far it is, and what it waits for. The exit\ncode is 3 if there is no primary.", func(cmd *cobra.Command, s *postgres.Settings) error {
		return askPostgres(cmd, s, func(ctx context.Context, c *postgres.Client) error {
			return tellPostgres(ctx, cmd.OutOrStdout(), c, s, output)
		})
	})
	output.Flag(status.Flags())

	pg.AddCommand(run, status, switchover,
		pausing("pause", "promote nobody, until resume", "Promote nobody, until resume: the primary goes on as long as its lease does, even if its probe fails, and\nno node stands. It lasts over restarts.", true),
		pausing("resume", "end a pause", "End a pause.", false),
		verb("validate", "check a configuration, and start nothing", "Check a configuration, and start nothing. Each error has a line on stderr with the file, the line, the\ncolumn and the field, and what would be right. The exit code is then 64.", func(cmd *cobra.Command, s *postgres.Settings) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is right; nodes: %d; a commit is on %d of them\n", path, len(s.Nodes), s.Confirm+1)
			return err
		}),
		&cobra.Command{Use: "schema", Short: "print the JSON schema of the configuration", Args: cli.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(postgres.Schema())
			return err
		}},
	)
	return pg
}

// loadPostgres reads a configuration, and checks its election as far as that can be done without opening it.
func loadPostgres(openers elect.Openers, path string) (*postgres.Settings, error) {
	if path == "" {
		return nil, exit.Usagef("there is no configuration; want --config FILE, such as /etc/elect/postgres.yaml")
	}
	text, _, err := readFile("--config", path)
	if err != nil {
		return nil, err
	}
	return postgres.Read(path, text, func(s *postgres.Settings) error {
		p := place{election: s.Election, name: s.Name}
		err := p.configured(openers, s.ID, "peer://n1@10.0.0.1:7400,…", "an old primary would not be stopped before another one is promoted; want protocol="+quorum.Name)
		if err != nil {
			return errors.New(inFile(err))
		}
		return nil
	})
}

// askPostgres asks nodes as an operator.
func askPostgres(cmd *cobra.Command, s *postgres.Settings, do func(context.Context, *postgres.Client) error) error {
	client, err := postgres.NewOperator(s)
	if err != nil {
		return exit.With(exit.CannotCreate, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
	defer cancel()
	err = do(ctx, client)
	if _, ok := errors.AsType[*exit.Error](err); err == nil || ok {
		return err
	}
	return exit.With(exit.Unavailable, err)
}

// tellPostgres writes the status.
func tellPostgres(ctx context.Context, w io.Writer, c *postgres.Client, s *postgres.Settings, output cli.Output) error {
	all, errs := c.All(ctx, s)
	served := slices.ContainsFunc(all, func(one postgres.Status) bool { return one.Serving })
	if output == "json" {
		unknown := map[string]string{}
		for id, err := range errs {
			unknown[id] = err.Error()
		}
		if err := cli.WriteJSON(w, map[string]any{"name": s.Name, "confirm": s.Confirm, "nodes": all, "unreachable": unknown}); err != nil {
			return err
		}
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "NODE\tROLE\tTERM\tTIMELINE\tWAL\tIS")
		for _, one := range all {
			var is []string
			for _, of := range [...]struct {
				yes bool
				is  string
			}{{one.Serving, "serving"}, {one.Streaming, "streaming"}, {!one.Whole, "not whole"}, {one.Paused, "paused"}, {one.Does != "", one.Does}} {
				if of.yes {
					is = append(is, of.is)
				}
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", one.ID, one.Role, one.Followed, one.Timeline, server.FormatLSN(one.LSN), strings.Join(is, ", "))
		}
		for _, e := range s.Nodes {
			if err := errs[e.ID]; err != nil {
				fmt.Fprintf(t, "%s\t-\t\t\t\t%s\n", e.ID, cli.OneLine(err.Error()))
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if !served {
		return exit.Silent(exit.NoLeader)
	}
	return nil
}
