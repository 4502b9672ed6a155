package main

import (
	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
)

const fenceHelp = `Fence a resource: it refuses writes of a leader that was replaced. A leader shows the
token of its term with each write (ELECT_TOKEN in a command that elect run started). The
resource keeps the greatest token that it has seen, its mark, and refuses smaller ones.`

func newFence() *cobra.Command {
	return cli.Group("fence VERB", "make a resource refuse the writes of leaders that were replaced", fenceHelp,
		newFenceInstall(), newFenceClaim(), newFenceStatus(), newFenceUninstall(), newFenceProxy())
}
