package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli/exit"
)

// showUsage is the lower half of a verb's help. It is cobra's own without repetitions, and calls a verb a verb.
func showUsage(cmd *cobra.Command) error {
	var b strings.Builder
	verbs, topics := table{}, table{}
	for _, c := range cmd.Commands() {
		switch {
		case c.IsAvailableCommand() || c.Name() == "help":
			verbs.add(c.Name(), c.Short)
		case c.IsAdditionalHelpTopicCommand():
			topics.add(c.Root().Name()+" help "+c.Name(), c.Short)
		}
	}
	line := cmd.UseLine()
	if !cmd.Runnable() {
		line = cmd.CommandPath() + " VERB"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	verbs.show(&b, "Verbs")
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsages(), " \n"))
	}
	topics.show(&b, "More help")
	if len(verbs) > 0 {
		fmt.Fprintf(&b, "\n\"%s VERB --help\" shows more about a verb.\n", cmd.CommandPath())
	}
	_, err := cmd.OutOrStderr().Write([]byte(b.String()))
	return err
}

// table is names with their meanings.
type table [][2]string

func (t *table) add(name, means string) { *t = append(*t, [2]string{name, means}) }

func (t table) show(b *strings.Builder, title string) {
	width := 0
	for _, row := range t {
		width = max(width, len(row[0]))
	}
	if len(t) > 0 {
		fmt.Fprintf(b, "\n%s:\n", title)
	}
	for _, row := range t {
		fmt.Fprintf(b, "  %-*s  %s\n", width, row[0], row[1])
	}
}

// helpOn shows the help of the verb or topic that the arguments name.
func helpOn(cmd *cobra.Command, args []string) error {
	on, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		var known []string
		for _, c := range on.Commands() {
			if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
				known = append(known, c.Name())
			}
		}
		if len(known) == 0 {
			return exit.Usagef("there is no help on %q; want %s help %s", strings.Join(args, " "), cmd.Root().Name(), strings.Join(args[:len(args)-len(rest)], " "))
		}
		return exit.Usagef("there is no help on %q; want one of: %s", strings.Join(args, " "), strings.Join(known, ", "))
	}
	on.InitDefaultHelpFlag() // so that it is shown
	return on.Help()
}
