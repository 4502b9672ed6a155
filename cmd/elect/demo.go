package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/exit"
	"github.com/electd/elect/cmd/elect/internal/fleet"
	"github.com/electd/elect/cmd/elect/internal/showcase"
)

const demoHelp = `Show what elect does, in about ten seconds: three candidates for one job that must
run once, on this machine. The leader is brought down in three ways, and each
time another takes over. At the end it reads the log that the jobs wrote, and
counts how often two of them ran at once.

It needs no terminal and no network, works in a temporary directory, and leaves
nothing behind. Exit codes: 0 all went as it should; 1 it did not.`

func newDemo(openers elect.Openers) *cobra.Command {
	pause := 2 * time.Second
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "show it: three candidates, a job that must run once, three takeovers",
		Long:  demoHelp,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			program, err := fleet.Self()
			if err != nil {
				return err
			}
			err = showcase.Run(ctx, showcase.Config{
				Openers: openers, Program: program, JobVerb: jobVerb, Out: cmd.OutOrStdout(), Colour: colour(os.Stdout),
				Pause: pause,
			})
			if err != nil && ctx.Err() != nil {
				return exit.With(exit.BySignal(syscall.SIGINT), errors.New("interrupted"))
			}
			if err != nil {
				return exit.With(1, err)
			}
			return nil
		},
	}
	cmd.Flags().Var(duration{&pause}, "pause", "`TIME` between two steps")
	return cmd
}

// colour reports whether to use colours: on a terminal, unless NO_COLOR says
// otherwise (no-color.org).
func colour(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// jobVerb is what the candidates of the demo run. It is of no use to people.
const jobVerb = "demo-job"

func newJob() *cobra.Command {
	return &cobra.Command{
		Use: jobVerb + " LOG", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "append to a log until killed: the job of demo",
		RunE:  func(_ *cobra.Command, args []string) error { return exit.With(1, showcase.Job(args[0])) },
	}
}
