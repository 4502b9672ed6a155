// Package cli is shared by the commands elect and electlab: the root of a command line with its help, version and
// exit codes, the errors of flags, variables that stand for flags, and the formats of answers.
//
// It keeps no state. An error becomes one line on stderr that says what is wrong and what would be right, and an exit
// code of package exit. A command runs alone in its process; only [Version] may be called concurrently.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/electd/elect/internal/cli/exit"
)

// New returns the root of a command line: the verbs, version, help, completion, manual pages and the exit codes.
func New(name, short, long string, verbs ...*cobra.Command) *cobra.Command {
	root := Group(name+" VERB [flags]", short, long, verbs...)
	root.SilenceErrors, root.SilenceUsage = true, true // Run writes them, in one line
	var version bool
	root.Flags().BoolVar(&version, "version", false, "show the version, as "+name+" version does")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if version {
			return showVersion(cmd, "table")
		}
		return help(cmd, args)
	}
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(showUsage)
	root.AddCommand(newVersion(), newMan(name), &cobra.Command{
		Use:   "exit-codes",
		Short: "the exit codes and what they mean",
		Long:  "The exit codes:\n\n" + exit.Table(name),
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Use, c.Short, c.Long = "help [VERB]", "show the help on a verb", "Show the help on a verb, or on a topic that "+name+" help lists."
			c.Run, c.RunE = nil, helpOn
		case "completion":
			c.Short = strings.ToLower(c.Short[:1]) + c.Short[1:]
		}
	}
	return root
}

// Group returns a verb that only has verbs of its own.
func Group(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args:  VerbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// Run runs the command line, writes its error, and returns the exit code.
func Run(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	code, tell := exit.Of(err)
	if tell {
		fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), OneLine(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return code
}

// VerbOnly refuses an unknown verb, and suggests one that may have been meant.
func VerbOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			verbs = append(verbs, c.Name())
		}
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return exit.Usagef("%q is not a verb of %s; did you mean %s?", args[0], cmd.CommandPath(), strings.Join(near, " or "))
	}
	return exit.Usagef("%q is not a verb of %s; want one of: %s", args[0], cmd.CommandPath(), strings.Join(verbs, ", "))
}

// flagError makes one line of an error about a flag, with the flag that may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		best, distance := "", min(3, len(name)) // a name of one letter resembles every short one
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if d := EditDistance(name, f.Name); d < distance {
				best, distance = f.Name, d
			}
		})
		if best != "" {
			return exit.Usagef("%s%v; did you mean --%s?", verbOf(cmd), err, best)
		}
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return exit.Usagef("%s--%s=%s: %s; see %s --help", verbOf(cmd), e.GetFlag().Name, e.GetValue(), invalid(e.GetFlag(), e.Unwrap()), cmd.CommandPath())
	}
	return exit.Usagef("%s%v; see %s --help", verbOf(cmd), err, cmd.CommandPath())
}

// verbOf is "run: " for elect run, as the beginning of a line that already names the command.
func verbOf(cmd *cobra.Command) string {
	_, verb, ok := strings.Cut(cmd.CommandPath(), " ")
	if !ok {
		return ""
	}
	return verb + ": "
}

// invalid says what would be right for a flag's value. The values of this program say so themselves.
func invalid(f *pflag.Flag, err error) string {
	switch f.Value.Type() {
	case "bool":
		return "want true or false"
	case "int":
		return "want a whole number"
	}
	return err.Error()
}

// NoArgs refuses arguments of verbs that take none.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("%s takes no argument, and %q was given; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// OneLine joins the lines of a text.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// EditDistance is that of Levenshtein.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// Duration is the value of a flag: not negative, with a unit.
func Duration(value *time.Duration) pflag.Value { return duration{value, 0} }

// Interval is [Duration] above 0.
func Interval(value *time.Duration) pflag.Value { return duration{value, 1} }

type duration struct {
	value *time.Duration
	least time.Duration
}

func (d duration) String() string {
	if d.value == nil {
		return ""
	}
	return d.value.String()
}

func (d duration) Type() string { return "duration" }

func (d duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	switch {
	case (err != nil || v < d.least) && d.least > 0:
		return errors.New("want a time above 0, such as 500ms, 10s or 2m")
	case err != nil || v < 0:
		return errors.New("want a time such as 500ms, 10s, 2m or 0")
	}
	*d.value = v
	return nil
}

// FromEnvironment sets each flag that was not given from the variable of its name, such as ELECT_NAME for --name of
// elect, except those in except.
func FromEnvironment(cmd *cobra.Command, except ...string) error {
	command := cmd.Root().Name()
	var wrong error
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || slices.Contains(except, f.Name) || wrong != nil {
			return
		}
		name := Variable(command, f.Name)
		value := os.Getenv(name)
		if value == "" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			wrong = exit.Usagef("%s=%q: %s", name, value, invalid(f, err))
		}
	})
	return wrong
}

// Variable is the name of the variable that stands for a flag of a command.
func Variable(command, flag string) string {
	return strings.ToUpper(command + "_" + strings.ReplaceAll(flag, "-", "_"))
}
