//go:build !linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres"
	"github.com/electd/elect/internal/cli/exit"
)

// runPostgres is for Linux: elsewhere nothing kills the server of a process that is frozen or dead.
func runPostgres(*cobra.Command, elect.Openers, string, *postgres.Settings, *logFlags) error {
	return exit.With(exit.Unavailable, supervise.ErrUnsupported)
}
