package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/demo"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const zombieHelp = `Show why fencing tokens are needed, with the usual example (Kleppmann, "How to do
distributed locking", 2016). A client checks that it leads. Then it is stopped for longer
than its lease, and writes when another client leads.

The processes are real; only the moment of the stop is chosen. Two clients are elected
among three voters, with the tokens 5 and 6. SIGSTOP stops the first client between its
check and its write. Both clients write to two servers: one checks tokens, the other does
not. The example runs a hundred times as fast as it says: the lease of 30 s takes 0.3 s,
and the pause of 45 s takes 0.45 s, or longer if the second client needs longer.

Both clients also write to a third server, which checks nothing. They do so by a process
under the network guard of elect run --guard network: the kernel drops the late write.
Where that guard is not possible, a line says so, and the rest is shown.

On a machine that is too busy for such a lease, other elections may come in between.
Then the example starts again, five times at most.

It needs no network, works in a temporary directory, and leaves nothing behind.

Exit codes: 0 all went as described; 1 it did not; 130 after Ctrl-C.`

// The verbs of the story's processes. They are not for people.
const (
	zombieClientVerb = "demo-client"
	zombieStoreVerb  = "demo-store"
	zombieWriterVerb = "demo-writer"
)

func newZombie() *cobra.Command {
	return &cobra.Command{
		Use:   "zombie",
		Short: "show a leader that writes after its lease has ended, and the token that stops it",
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
		Use: zombieClientVerb + " URL ID SERVER SERVER SECRET [ADDRESS]", Hidden: true, Args: cobra.RangeArgs(5, 6),
		Short: "do what stdin says (a client of demo zombie)",
		RunE: func(cmd *cobra.Command, args []string) error {
			var writer []string
			if len(args) == 6 {
				program, err := cluster.Self()
				if err != nil {
					return err
				}
				writer = []string{program, zombieWriterVerb, args[5]}
			}
			if err := demo.Client(cmd.Context(), args[0], args[1], args[2], args[3], args[4], writer, cmd.InOrStdin(), cmd.OutOrStdout()); err != nil {
				return exit.With(1, err)
			}
			return nil
		},
	}
}

func newZombieStore() *cobra.Command {
	return &cobra.Command{
		Use: zombieStoreVerb + " DIR [checks|lines]", Hidden: true, Args: cobra.RangeArgs(1, 2),
		Short: "keep an account (a server of demo zombie)",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && args[1] == "lines" {
				return exit.With(1, demo.Lines(args[0], cmd.OutOrStdout()))
			}
			return exit.With(1, demo.Store(args[0], len(args) == 2, cmd.OutOrStdout()))
		},
	}
}

func newZombieWriter() *cobra.Command {
	return &cobra.Command{
		Use: zombieWriterVerb + " ADDRESS", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "write what stdin says (a writer of demo zombie)",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := demo.Writer(args[0], cmd.InOrStdin(), cmd.OutOrStdout()); err != nil {
				return exit.With(1, err)
			}
			return nil
		},
	}
}
