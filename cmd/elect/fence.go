package main

import (
	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/exit"
)

const fenceHelp = `Fencing: have the place where writes land refuse those of a leader that was
replaced. A leader shows the token of its term with each write (ELECT_TOKEN in a
command that elect run started); the resource keeps the greatest that it has seen,
its mark, and refuses smaller ones.`

func newFence() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence VERB",
		Short: "refuse the writes of leaders that were replaced, where they land",
		Long:  fenceHelp,
		Args:  verbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newFenceInstall(), newFenceClaim(), newFenceStatus(), newFenceUninstall(), newFenceProxy())
	return cmd
}
