package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/story"
)

const simReplayHelp = `Run a schedule again: one that electlab sim run has kept, or the one in a trace of the
simulator. FILE may be - for stdin.

It prints the hash of the run. If the file has an expected hash, it compares them. A
different hash from the same build is a defect. From another build it means that the
machines behave differently now.

Exit codes, the first that applies:
  80, 81, 82  something is violated, as for electlab sim run
  1           the hash or the violated invariant is not the expected one
  130         interrupted; the report has the event
  73          the trace or stdout cannot be written

-o json writes one object: protocol, seed, nodes, operations, events, virtual_seconds,
hash, interrupted, expected {hash, build, invariant} or null, build, same (null without
an expectation, and for a part of a run), violation: null or {invariant, node, at_ns,
event, says}, and found: the invariants that may fail with this protocol and did.`

func newSimReplay() *cobra.Command {
	var format cli.Output
	var until uint64
	var tell, full bool
	var traceFile string
	cmd := &cobra.Command{
		Use:     "replay [flags] FILE",
		Short:   "run a kept schedule again",
		Long:    simReplayHelp,
		Example: "  electlab sim replay --story elect-sim-quorum-17.json\n  electlab sim replay --until 4000 --story run.ndjson",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			p, s, err := readSchedule(args[0])
			if err != nil {
				return err
			}
			if tell && format == "json" {
				return exit.Usagef("--story and --output=json contradict each other; want one of them")
			}
			return (&simReplay{until, tell, full, traceFile, format}).run(cmd, p, s)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&until, "until", 0, "stop after event `N`")
	f.BoolVar(&tell, "story", false, "write the story of the run")
	f.BoolVar(&full, "full", false, "with --story: include every event")
	f.StringVar(&traceFile, "trace", "", "write the trace to `FILE`")
	format.Flag(f)
	return cmd
}

// replayed is what came of a replay, as -o json shows it.
type replayed struct {
	Protocol   string  `json:"protocol"`
	Seed       uint64  `json:"seed"`
	Nodes      int     `json:"nodes"`
	Operations int     `json:"operations"`
	Events     uint64  `json:"events"`
	Virtual    float64 `json:"virtual_seconds"`
	Hash       string  `json:"hash"`
	// Interrupted: the run was interrupted, and all this is of the part before.
	Interrupted bool          `json:"interrupted"`
	Expected    *sim.Expected `json:"expected"`
	Build       string        `json:"build"`
	Same        *bool         `json:"same"`
	Violation   *violation    `json:"violation"`
	// Found are the invariants that may fail with this protocol, and did.
	Found []sim.Invariant `json:"found"`
}

// found names the invariants that failed and may fail.
func found(all []sim.Invariant) string {
	if len(all) == 0 {
		return ""
	}
	var names []string
	for _, inv := range all {
		names = append(names, string(inv))
	}
	return " that must hold; of what may fail with this protocol, this did: " + strings.Join(names, ", ")
}

// simReplay is the command line of sim replay.
type simReplay struct {
	until      uint64
	tell, full bool
	trace      string
	format     cli.Output
}

func (c *simReplay) run(cmd *cobra.Command, p *sim.Protocol, s *sim.Schedule) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	out := &answer{out: cmd.OutOrStdout()}
	r, err := c.play(ctx, out, p, s)
	if r == nil {
		return err
	}
	got := &replayed{
		Protocol: p.Name, Seed: s.Seed, Nodes: s.Nodes, Operations: len(s.Ops), Events: r.Events, Virtual: r.Virtual.Seconds(), Hash: digits(r.Hash),
		Interrupted: r.interrupted, Expected: s.Expected, Build: cli.Program(), Violation: showViolation(r.Violation),
	}
	got.Found = []sim.Invariant{}
	for i := range r.Found {
		got.Found = append(got.Found, r.Found[i].Invariant)
	}
	var invariant sim.Invariant
	if r.Violation != nil {
		invariant = r.Violation.Invariant
	}
	if s.Expected != nil && c.until == 0 && !r.interrupted {
		got.Same = new(s.Expected.Hash == got.Hash && s.Expected.Invariant == invariant)
	}
	if c.format == "json" {
		_ = cli.WriteJSON(out, got) // out keeps the error
	} else {
		got.write(out)
	}
	code := codeOf(r.Violation)
	var ended error
	switch {
	case code != exit.OK:
	case r.interrupted:
		ended = byInterrupt()
	case got.Same != nil && !*got.Same:
		code = 1
	}
	return ending(cmd, code, ended, err, out.err)
}

// play runs the schedule, once for all outputs. Its error is of the story or the trace; without a
// result there was no run.
func (c *simReplay) play(ctx context.Context, out *answer, p *sim.Protocol, s *sim.Schedule) (*ran, error) {
	var r *ran
	var failed error
	switch {
	case c.tell:
		var also *sideFile
		if c.trace != "" {
			also = &sideFile{path: c.trace}
		}
		r, failed = tellStory(ctx, out, also, p, s, c.until, story.Options{Full: c.full, Colour: cli.Colour(os.Stdout)})
		if also != nil {
			failed = errors.Join(failed, also.Close())
		}
	case c.trace != "":
		r, failed = traceTo(ctx, c.trace, p, s, c.until)
	}
	if r == nil {
		w, err := sim.New(p, s)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		r = play(ctx, w, c.until)
	}
	return r, failed
}

// write writes it for people.
func (r *replayed) write(out io.Writer) {
	fmt.Fprintf(out, "%s, seed %d, %d nodes, %d operations: %s events in %v of virtual time\n",
		r.Protocol, r.Seed, r.Nodes, r.Operations, thousands(r.Events), time.Duration(r.Virtual*float64(time.Second)).Round(time.Millisecond))
	if v := r.Violation; v != nil {
		fmt.Fprintf(out, "violated: %s at event %d, %.4f s: %s\n", v.Invariant, v.Event, float64(v.At)/1e9, saysOf(v))
	} else {
		fmt.Fprintln(out, "violated: nothing"+found(r.Found))
	}
	if r.Interrupted {
		fmt.Fprintf(out, "interrupted: at event %d\n", r.Events)
	}
	verdict := ""
	switch {
	case r.Same == nil:
	case *r.Same:
		verdict = ", as expected"
	default:
		verdict = fmt.Sprintf("; expected %s", r.Expected.Hash)
		if r.Expected.Invariant != "" {
			verdict += " and a violation of " + string(r.Expected.Invariant)
		}
		if r.Expected.Build != "" {
			verdict += fmt.Sprintf(" (build %s; this is %s)", r.Expected.Build, r.Build)
		}
	}
	fmt.Fprintf(out, "hash: %s%s\n", r.Hash, verdict)
}
