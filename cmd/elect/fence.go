package main

import (
	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
)

const fenceHelp = `Fencing: have the place where writes land refuse those of a leader that was
replaced. A leader shows the token of its term with each write (ELECT_TOKEN in a
command that elect run started); the resource keeps the greatest that it has seen,
its mark, and refuses smaller ones.`

func newFence() *cobra.Command {
	return cli.Group("fence VERB", "refuse the writes of leaders that were replaced, where they land", fenceHelp,
		newFenceInstall(), newFenceClaim(), newFenceStatus(), newFenceUninstall(), newFenceProxy())
}
