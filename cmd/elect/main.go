// Command elect runs one program once among many candidates, and shows and
// changes who leads: see `elect help`.
//
// It is wiring only. Each verb has a file of its own here, which reads the
// command line and writes the answer; what a verb does is in the packages below
// internal. A verb runs alone in its process. Whatever fails becomes one line on
// stderr and an exit code of package exit.
package main

import (
	"os"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/peer"
)

func main() {
	supervise.KeeperMain(peer.Witness) // does not return in a keeper, which must know of nothing below
	os.Exit(cli.Run(newRoot(elect.Openers{
		"file": file.Open, peerScheme: openPeer,
		"postgres": marks.OpenElection, "postgresql": marks.OpenElection, "mysql": marks.OpenElection,
	}), os.Args[1:]))
}
