package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/internal/protocol/trace/replay"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/story"
)

func newTrace() *cobra.Command {
	return cli.Group("trace VERB", "check, convert and draw traces", `Check, convert and draw traces. A trace is NDJSON: a header, then one event a line. All
traces have one schema. They are written by
  - the simulator (electlab sim run --trace FILE)
  - tests with real processes
  - each peer, which keeps its last minutes (flight-*.ndjson in its data directory)
  - each candidate over a store and each member of a group that was given a directory`,
		newTraceVerify(), newTraceConvert(), newTraceDraw())
}

const traceVerifyHelp = `Check traces against the machines. Every input in a trace is given to a new machine, and
the effects and the view of the machine are compared with those in the trace. FILE may
be - for stdin.

The flight recorder of a node leaves several files, flight-*.ndjson in its data
directory. Each begins with the boot of the node or with the state of its machine, which
only the build that wrote it is sure to read. The file of a node that still runs or was
killed has no end, and its last line may be cut short. That is no defect.

Exit codes, the greatest of all files:
  0   they agree
  1   they do not; the first difference is printed
  64  a file is no trace, or a defective one
  73  stdout cannot be written

-o json writes one object for each file: file, protocol, source, build, events, steps,
lives, whole (the trace has its end), torn (its last line is cut short, and left out),
and disagreement: null, or {line, n, node, input, what, expected (by the machine), got
(in the trace)}.`

func newTraceVerify() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "verify [flags] FILE...",
		Short:   "replay the inputs of traces through the machines, and compare",
		Long:    traceVerifyHelp,
		Example: "  electlab trace verify run.ndjson\n  electlab trace verify ~/.local/state/elect-peer/jobs/n1/flight-*.ndjson",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("%s takes files, and none was given; see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			return verifyTraces(cmd, args, format)
		},
	}
	format.Flag(cmd.Flags())
	return cmd
}

// verifyTraces checks one after the other. A defective one does not end the series.
func verifyTraces(cmd *cobra.Command, paths []string, format cli.Output) error {
	worst := exit.OK
	for _, path := range paths {
		err := verifyTrace(cmd, path, format)
		code, tell := exit.Of(err)
		if len(paths) == 1 || code == exit.CannotCreate {
			return err
		}
		if tell {
			fmt.Fprintf(cmd.ErrOrStderr(), "electlab: %s\n", cli.OneLine(err.Error()))
		}
		worst = max(worst, code)
	}
	return exit.Silent(worst)
}

// verified is the result for one, as -o json shows it.
type verified struct {
	File     string       `json:"file"`
	Protocol string       `json:"protocol"`
	Source   trace.Source `json:"source"`
	Build    string       `json:"build,omitempty"`
	trace.Report
	Disagreement *trace.Disagreement `json:"disagreement"`
}

func verifyTrace(cmd *cobra.Command, path string, format cli.Output) error {
	in, err := openInput(path)
	if err != nil {
		return err
	}
	defer in.Close()
	d, err := trace.NewDecoder(in)
	if err != nil {
		return exit.Usagef("%s: %w", path, err)
	}
	h := d.Header()
	report, err := d.Verify(makersFor(h))
	hint := ""
	if h.Build != "" && h.Build != cli.Program() {
		hint = fmt.Sprintf("; the trace is of build %s, this is %s", h.Build, cli.Program())
	}
	different, found := errors.AsType[*trace.Disagreement](err)
	if err != nil && !found {
		return exit.Usagef("%s: %w%s", path, err, hint)
	}
	out := &answer{out: cmd.OutOrStdout()}
	whole := ""
	switch {
	case report.Torn:
		whole = "; the trace has no end, and a line that was cut short, which is left out"
	case !report.Whole:
		whole = "; the trace has no end"
	}
	switch {
	case format == "json":
		_ = cli.WriteJSON(out, verified{path, h.Protocol, h.Source, h.Build, *report, different}) // out keeps the error
	case !found:
		fmt.Fprintf(out, "%s: %s, %s steps of %s lives in %s events: the machines do the same%s\n",
			path, h.Protocol, thousands(report.Steps), thousands(report.Lives), thousands(report.Events), whole)
	}
	switch {
	case !found:
		return ending(cmd, exit.OK, out.err)
	case format == "json":
		return ending(cmd, 1, out.err)
	}
	return exit.With(1, fmt.Errorf("%s: %w%s", path, different, hint))
}

// makersFor makes the machines of the trace. The simulator writes its own description of a
// participant; a node's recorder, the machine's own configuration.
func makersFor(h *trace.Header) map[string]trace.Maker {
	if h.Source == trace.Recorder {
		return replay.Makers([]string{h.Protocol})
	}
	makers := make(map[string]trace.Maker)
	for _, p := range slices.Concat(protocols.All(), protocols.Naive()) {
		makers[p.Name] = sim.Maker(p)
	}
	return makers
}

const traceConvertHelp = `Convert a trace to a form that is easier to read, on stdout. FILE may be - for stdin.

  --to text     a column for each node, time downwards, every event in words
  --to chrome   JSON for ui.perfetto.dev and chrome://tracing: the leaders, the nodes that
                are up, every step, and the messages as arrows

Exit codes: 0 it is converted; 64 the file is no trace, or a defective one, and is
converted up to the defect; 73 stdout cannot be written.`

func newTraceConvert() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:     "convert --to FORM FILE",
		Short:   "convert a trace to text, or to JSON for Perfetto",
		Long:    traceConvertHelp,
		Example: "  electlab trace convert --to chrome run.ndjson > run.json\n  electlab trace convert --to text run.ndjson | less -R",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			switch to {
			case "text", "chrome":
			case "":
				return exit.Usagef("no form is given; want --to text or --to chrome")
			default:
				return exit.Usagef("--to %q; want text or chrome", to)
			}
			return convertTrace(cmd, args[0], to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`FORM` to convert to: text or chrome")
	return cmd
}

func convertTrace(cmd *cobra.Command, path, to string) error {
	in, err := openInput(path)
	if err != nil {
		return err
	}
	defer in.Close()
	d, err := trace.NewDecoder(in)
	if err != nil {
		return exit.Usagef("%s: %w", path, err)
	}
	stdout := &answer{out: cmd.OutOrStdout()}
	out := bufio.NewWriterSize(stdout, 1<<16)
	if to == "chrome" {
		err = trace.Chrome(out, d)
	} else {
		err = story.Write(out, d, story.Options{Full: true, Colour: cli.Colour(os.Stdout)})
	}
	_ = out.Flush() // the part before a defect is useful; stdout keeps the error
	switch {
	case stdout.err != nil:
		return stdout.err
	case err != nil:
		return exit.Usagef("%s: %w", path, err)
	}
	return nil
}
