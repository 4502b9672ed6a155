//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli/exit"
)

func newRecipe(elect.Openers) *cobra.Command {
	return &cobra.Command{
		Use: "recipe", Hidden: true, DisableFlagParsing: true, Short: "run a known service, with its own failover",
		RunE: func(*cobra.Command, []string) error {
			return exit.With(exit.Usage, errors.New("recipes need Linux: elsewhere a keeper cannot kill all of PostgreSQL, whose processes leave its process group"))
		},
	}
}
