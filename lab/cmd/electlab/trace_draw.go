package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim/picture"
	"github.com/electd/elect/lab/sim/protocols"
)

const traceDrawHelp = `Draw a trace as a space-time picture, an SVG: a column for each node, time downwards, and
messages as arrows. An arrow with a cross is a lost message. A light bar is an elected
leader, a full bar a proven lease. Requests to a store go to a column of its own. Time is
not to scale, because an election of milliseconds follows a silence of seconds. The times
beside the columns are exact.

FILE may be - for stdin. --from and --to limit the time, counted from the first event of
the trace. A few hundred milliseconds around an election make the best picture.
Heartbeats are faint, and are left out if there are too many arrows. The picture and
stderr name what is left out.

Exit codes: 0 it is drawn; 64 the file is no trace, or a defective one, or nothing
happens in that time; 73 the picture cannot be written.`

func newTraceDraw() *cobra.Command {
	var o picture.Options
	var path string
	cmd := &cobra.Command{
		Use:     "draw [flags] FILE",
		Short:   "draw a trace as a space-time picture",
		Long:    traceDrawHelp,
		Example: "  electlab sim run --seed 5 --trace run.ndjson\n  electlab trace draw --from 2s --to 2.5s --out run.svg run.ndjson",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			switch {
			case o.From < 0 || o.To < 0 || o.To > 0 && o.To <= o.From:
				return exit.Usagef("from %v to %v; want 0 or more, and the end after the beginning", o.From, o.To)
			case o.Arrows < 1 || o.Arrows > 100_000:
				return exit.Usagef("--arrows %d; want 1 to 100000", o.Arrows)
			case o.Columns < 2 || o.Columns > 200:
				return exit.Usagef("--columns %d; want 2 to 200", o.Columns)
			}
			return drawTrace(cmd, args[0], path, o)
		},
	}
	set := cmd.Flags()
	set.StringVar(&path, "out", "", "`FILE` to write the picture to, instead of stdout")
	set.DurationVar(&o.From, "from", 0, "draw from this `TIME` on, counted from the first event")
	set.DurationVar(&o.To, "to", 0, "draw up to this `TIME`; 0 is the end")
	set.StringVar(&o.Title, "title", "", "`TEXT` above the picture, instead of the protocol and the seed")
	set.BoolVar(&o.Plain, "no-heartbeats", false, "leave out heartbeats and other routine messages")
	set.IntVar(&o.Arrows, "arrows", 600, "draw at most this `NUMBER` of messages")
	set.IntVar(&o.Columns, "columns", 24, "draw at most this `NUMBER` of nodes, those with the most events")
	return cmd
}

func drawTrace(cmd *cobra.Command, path, to string, o picture.Options) error {
	in, err := openInput(path)
	if err != nil {
		return err
	}
	defer in.Close()
	d, err := trace.NewDecoder(in)
	if err != nil {
		return exit.Usagef("%s: %w", path, err)
	}
	if d.Header().Protocol == trace.Groups {
		return exit.Usagef("%s: a trace of a group cannot be drawn; want one of an election, or trace convert --to text", path)
	}
	if p, ok := protocols.ByName(d.Header().Protocol); ok {
		o.Faint = p.Heartbeat
	}
	stdout := &answer{out: cmd.OutOrStdout()}
	file := &sideFile{path: to}
	var left picture.Left
	if to == "" {
		left, err = picture.Write(stdout, d, o)
	} else {
		left, err = picture.Write(file, d, o)
	}
	if unwritten := errors.Join(stdout.err, file.Close()); unwritten != nil {
		return unwritten
	}
	if err != nil {
		return exit.Usagef("%s: %w", path, err)
	}
	if text := left.String(); text != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "electlab: %s: left out: %s; --from and --to choose a shorter time, --arrows and --columns draw more\n", path, text)
	}
	return nil
}
