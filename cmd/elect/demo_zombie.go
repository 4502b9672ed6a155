package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/demo"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const zombieHelp = `Play the story that fencing tokens are explained with (Kleppmann, "How to do
distributed locking", 2016): a client asks whether it leads, is stopped for longer
than its lease just then, and writes when another one leads.

Nothing in it is staged but the moment: two processes of this machine are elected
among three voters, with the tokens 5 and 6; the first one is stopped by SIGSTOP
between its check and its write; and both write to two servers, of which one checks
tokens and the other does not. A hundredth of a second stands for a second: the
lease of 30 s is 0.3 s, the pause of 45 s is 0.45 s, or as much longer as the second
client needs.

A machine that is too busy for such a lease has other elections than the story. Then
it is begun anew, five times at most.

It needs no network, works in a temporary directory, and leaves nothing behind.

Exit codes: 0 it went as told; 1 it did not; 130 after Ctrl-C.`

// The verbs of the story's processes. They are not for people.
const (
	zombieClientVerb = "demo-client"
	zombieStoreVerb  = "demo-store"
)

func newZombie() *cobra.Command {
	return &cobra.Command{
		Use:   "zombie",
		Short: "the story of a leader that writes when its time is over, and who stops it",
		Long:  zombieHelp,
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := cluster.Self()
			if err != nil {
				return err
			}
			return playDemo(cmd.Context(), demo.Config{
				Program: program, SweepVerb: sweepVerb, ClientVerb: zombieClientVerb, StoreVerb: zombieStoreVerb,
				Out: cmd.OutOrStdout(), Colour: cli.Colour(os.Stdout),
			}, demo.Zombie)
		},
	}
}

func newZombieClient() *cobra.Command {
	return &cobra.Command{
		Use: zombieClientVerb + " URL ID SERVER SERVER SECRET", Hidden: true, Args: cobra.ExactArgs(5),
		Short: "do what stdin says: a client of demo zombie",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := demo.Client(cmd.Context(), args[0], args[1], args[2], args[3], args[4], cmd.InOrStdin(), cmd.OutOrStdout()); err != nil {
				return exit.With(1, err)
			}
			return nil
		},
	}
}

func newZombieStore() *cobra.Command {
	return &cobra.Command{
		Use: zombieStoreVerb + " DIR [checks]", Hidden: true, Args: cobra.RangeArgs(1, 2),
		Short: "keep an account: a server of demo zombie",
		RunE: func(cmd *cobra.Command, args []string) error {
			return exit.With(1, demo.Store(args[0], len(args) == 2, cmd.OutOrStdout()))
		},
	}
}
