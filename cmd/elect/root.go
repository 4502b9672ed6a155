package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/exit"
)

const rootHelp = `elect keeps exactly one of your replicas at work.

  elect run -- ./scheduler    in two terminals: one runs it, the other stands by
  elect status scheduler      who leads, since when, with which token
  elect resign scheduler      ask the leader to hand over

A URL says where an election is held (--election), a name says which one it is
(--name). Without a URL it is held in your own state directory on this machine,
$XDG_STATE_HOME/elect or ~/.local/state/elect, for root as for everybody. A few
machines hold one among themselves with peer://n1@HOST:PORT,n2@HOST:PORT,…

Data goes to stdout, everything else to stderr. Flags come before environment
variables (ELECT_ELECTION, ELECT_NAME, …), and these before defaults.`

// newRoot builds the command line.
func newRoot(openers elect.Openers) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "elect VERB [flags]",
		Short:         "elect keeps exactly one of your replicas at work",
		Long:          rootHelp,
		SilenceErrors: true, // main says them, in one line
		SilenceUsage:  true,
		Args:          verbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return showVersion(cmd.OutOrStdout(), "table")
			}
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
		SuggestionsMinimumDistance: 2,
	}
	root.Flags().BoolVar(&version, "version", false, "the same as elect version")
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(showUsage)
	root.AddCommand(
		newRun(openers), newStatus(openers), newWatch(openers), newResign(openers), newTransfer(openers), newPause(openers), newResume(openers),
		newMembers(openers), newMember(openers), newHistory(openers), newForget(openers), newCerts(), newDoctor(),
		newFence(), newBench(openers), newDemo(), newSim(), newCheck(), newTrace(), newVersion(), newExitCodes(),
		newJob(), newSweep(), newZombieClient(), newZombieStore(), newStamp(), newNode(openers),
	)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Use, c.Short, c.Long = "help [VERB]", "help about a verb", "Show the help about a verb, or about one of the topics that elect help lists."
			c.Run, c.RunE = nil, helpOn
		case "completion":
			c.Short = strings.ToLower(c.Short[:1]) + c.Short[1:]
		}
	}
	return root
}

// verbOnly refuses what is no verb, and says which one may have been meant.
func verbOnly(cmd *cobra.Command, args []string) error {
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

// flagError makes one line of what is wrong with a flag, with the flag that may
// have been meant.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		best, distance := "", min(3, len(name)) // a name of one letter resembles every short one
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if d := editDistance(name, f.Name); d < distance {
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

// verbOf is "run: " for elect run, to begin a line with that says elect before.
func verbOf(cmd *cobra.Command) string {
	_, verb, ok := strings.Cut(cmd.CommandPath(), " ")
	if !ok {
		return ""
	}
	return verb + ": "
}

// invalid says what would be right for a flag's value. Our own kinds of values
// say so themselves.
func invalid(f *pflag.Flag, err error) string {
	switch f.Value.Type() {
	case "bool":
		return "want true or false"
	case "int":
		return "want a whole number"
	}
	return err.Error()
}

// noArgs refuses arguments of verbs that take none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("%s takes no argument, and %q was given; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "the exit codes and what they say",
		Long:  "The exit codes:\n\n" + exit.Table(),
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// editDistance is that of Levenshtein.
func editDistance(a, b string) int {
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

// duration is the value of a flag: not negative, with a unit.
type duration struct{ value *time.Duration }

func (d duration) String() string {
	if d.value == nil {
		return ""
	}
	return d.value.String()
}

func (d duration) Type() string { return "duration" }

func (d duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return errors.New("want a time such as 500ms, 10s, 2m or 0")
	}
	*d.value = v
	return nil
}
