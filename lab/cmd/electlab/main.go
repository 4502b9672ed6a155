// Command electlab is the laboratory: it runs the machines of elect in a simulated world, explores
// every interleaving of a small one, reads traces, and serves a page for a browser. See `electlab help`.
//
// It is wiring only: each verb has a file of its own, which reads the command line and writes the
// answer. A verb runs alone in its process. An error becomes one line on stderr and an exit code of
// package exit.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
)

const rootHelp = `electlab shows that elect is right. It runs the protocols, the code of production, in a
simulated world of faults and through every interleaving of a small world, and reads
the traces of both and of real nodes.

  electlab sim run                 run 100 worlds of the quorum protocol
  electlab sim compare             run the same faults through several protocols
  electlab check                   explore every interleaving of a small world
  electlab trace verify FILE...    replay recorded inputs through the machines
  electlab page --open             see it in a browser

Data goes to stdout, everything else to stderr. Flags override environment variables
(ELECTLAB_SEEDS, ELECTLAB_PROTOCOL, …), and these override defaults.`

func main() { os.Exit(cli.Run(newRoot(), os.Args[1:])) }

// newRoot builds the command line.
func newRoot() *cobra.Command {
	return cli.New("electlab", "electlab simulates, checks and shows elections", rootHelp, newSim(), newCheck(), newTrace(), newPage())
}
