package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/lines"
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

// logFlags are how a recipe logs.
type logFlags struct {
	format  logFormat
	time    bool
	verbose bool
}

func (l *logFlags) flags(cmd *cobra.Command) {
	l.format = "text"
	l.format.flag(cmd)
	cmd.Flags().BoolVar(&l.time, "log-time", false, "begin each line of text with the time; json always has it")
	cmd.Flags().BoolVarP(&l.verbose, "verbose", "v", false, "log internal events to stderr, too")
}

// open begins to write to stderr. The caller closes what it returns.
func (l *logFlags) open() *lines.Writer {
	return lines.New(os.Stderr, lines.Form{JSON: l.format == "json", Time: l.time})
}
