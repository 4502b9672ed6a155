package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli/exit"
)

// newMan returns the verb that writes a manual page for each verb, from the texts of its help. It does not use cobra's
// generator, which goes through Markdown and so joins the lines of tables in the help.
func newMan(name string) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "write the manual pages to a directory",
		Long:    "Write a manual page for each verb to DIR, which is made if it does not exist.",
		Example: fmt.Sprintf("  %s man man1 && man -l man1/%[1]s.1", name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("%s was given %d arguments; want one: the directory to write to", cmd.CommandPath(), len(args))
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return exit.With(exit.CannotCreate, err)
			}
			if err := writePages(cmd.Root(), args[0]); err != nil {
				return exit.With(exit.CannotCreate, err)
			}
			return nil
		},
	}
}

// writePages writes the pages of a verb and of all verbs below it.
func writePages(cmd *cobra.Command, dir string) error {
	cmd.InitDefaultHelpFlag() // so that it is shown
	if err := os.WriteFile(filepath.Join(dir, pageOf(cmd)+".1"), page(cmd), 0o644); err != nil {
		return err
	}
	for _, c := range described(cmd) {
		if err := writePages(c, dir); err != nil {
			return err
		}
	}
	return nil
}

// described returns the verbs below a verb that have a page.
func described(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			all = append(all, c)
		}
	}
	return all
}

func pageOf(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page returns the page of a verb in the macros of man(7).
func page(cmd *cobra.Command) []byte {
	var b strings.Builder
	root := cmd.Root().Name()
	fmt.Fprintf(&b, ".TH %s 1 \"%s\" \"%s\"\n", roff(strings.ToUpper(pageOf(cmd))), built(), roff(root+" "+Version()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageOf(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR%s\n", roff(cmd.CommandPath()), roff(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())))
	fmt.Fprint(&b, ".SH DESCRIPTION\n")
	prose(&b, cmd.Long)
	verbs := described(cmd)
	if len(verbs) > 0 {
		fmt.Fprint(&b, ".SH VERBS\n")
	}
	for _, c := range verbs {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(c.Name()), roff(c.Short))
	}
	fmt.Fprint(&b, ".SH OPTIONS\n")
	for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) { // a line for each flag, in two columns
		flag, usage, _ := strings.Cut(strings.TrimSpace(line), "   ")
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(flag), roff(strings.TrimSpace(usage)))
	}
	if cmd.HasExample() {
		fmt.Fprint(&b, ".SH EXAMPLES\n")
		prose(&b, cmd.Example)
	}
	if !cmd.HasParent() {
		fmt.Fprint(&b, ".SH EXIT STATUS\n")
		prose(&b, exit.Table(root))
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, pageOf(cmd.Parent()))
	}
	for _, c := range verbs {
		also = append(also, pageOf(c))
	}
	fmt.Fprint(&b, ".SH SEE ALSO\n")
	for i, name := range also {
		comma := ","
		if i == len(also)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), comma)
	}
	return []byte(b.String())
}

// prose writes a help text. Indented lines are kept as they are, others are filled.
func prose(b *strings.Builder, text string) {
	var kept bool // the last line was kept as it is
	keep := func(now bool) {
		if kept && !now {
			fmt.Fprint(b, ".fi\n")
		}
		if now && !kept {
			fmt.Fprint(b, ".nf\n")
		}
		kept = now
	}
	apart := false
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, " \n")
		if line == "" {
			apart = true
			continue
		}
		if apart {
			keep(false)
			fmt.Fprint(b, ".PP\n")
			apart = false
		}
		keep(strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"))
		fmt.Fprintln(b, roff(line))
	}
	keep(false)
}

// roff escapes characters that roff would read as requests, or print as other characters.
func roff(text string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(text, "\t", "    ") {
		switch {
		case b.Len() == 0 && (r == '.' || r == '\''):
			b.WriteString(`\&`)
			b.WriteRune(r)
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// built returns the day of the revision that this program was built from, or "".
func built() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if day, _, ok := strings.Cut(s.Value, "T"); ok && s.Key == "vcs.time" {
				return day
			}
		}
	}
	return ""
}
