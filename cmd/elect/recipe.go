package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

func newRecipe(openers elect.Openers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recipe",
		Short: "keep one primary of a database, and switch it over",
		Long:  "Keep one primary among the servers of a database: what follows an election, complete. Each recipe\nhas a YAML file, and a page in docs/.",
		Args:  cli.VerbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
	}
	cmd.AddCommand(newRecipePostgres(openers), newRecipeRedis(openers))
	return cmd
}

// recipeLogger logs the steps of a recipe to w.
func recipeLogger(w io.Writer, format logFormat, verbose bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		options.Level = slog.LevelDebug
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
