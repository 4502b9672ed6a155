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
		Short: "keep one primary of PostgreSQL, or one master of Redis",
		Long:  "Keep one primary among database servers, and do all that has to follow an election. Each recipe reads a\nYAML file, and has a page in docs/.",
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
