package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/exit"
	"github.com/electd/elect/sim"
	"github.com/electd/elect/sim/story"
)

const simReplayHelp = `Run a schedule again: one that elect sim run has kept, or the one in a trace of
the simulator. FILE may be - for stdin.

It prints the hash of the run. Where the file says which hash is expected, it
compares: another hash from the same build is a defect, from another build it
says that the machines behave differently now.

Exit codes: 80, 81, 82 if something is violated, as for elect sim run; else 1 if
the hash or the violated invariant is not the expected one; else 0.

-o json writes one object: protocol, seed, nodes, operations, events,
virtual_seconds, hash, expected {hash, build, invariant} or null, build, same
(null without an expectation), and violation: null or {invariant, node, at_ns,
event, says}.`

func newSimReplay() *cobra.Command {
	var format output
	var until uint64
	var tell, full bool
	var traceFile string
	cmd := &cobra.Command{
		Use:     "replay [flags] FILE",
		Short:   "run a kept schedule again",
		Long:    simReplayHelp,
		Example: "  elect sim replay --story elect-sim-quorum-17.json\n  elect sim replay --until 4000 --story run.ndjson",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd); err != nil {
				return err
			}
			p, s, err := readSchedule(args[0])
			if err != nil {
				return err
			}
			if tell && format == "json" {
				return exit.Usagef("--story and --output=json contradict each other; want one of them")
			}
			if tell {
				if err := tellStory(cmd.OutOrStdout(), p, s, until, story.Options{Full: full, Colour: colour(os.Stdout)}); err != nil {
					return exit.With(exit.Usage, err)
				}
				fmt.Fprintln(cmd.OutOrStdout())
			}
			if traceFile != "" {
				if err := traceTo(traceFile, p, s); err != nil {
					return err
				}
			}
			return replay(cmd, p, s, until, format)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&until, "until", 0, "stop after event `N`")
	f.BoolVar(&tell, "story", false, "tell what happens")
	f.BoolVar(&full, "full", false, "with --story: every event")
	f.StringVar(&traceFile, "trace", "", "write the trace to `FILE`")
	format.flag(f)
	return cmd
}

// replayed is what came of a replay, as -o json shows it.
type replayed struct {
	Protocol   string        `json:"protocol"`
	Seed       uint64        `json:"seed"`
	Nodes      int           `json:"nodes"`
	Operations int           `json:"operations"`
	Events     uint64        `json:"events"`
	Virtual    float64       `json:"virtual_seconds"`
	Hash       string        `json:"hash"`
	Expected   *sim.Expected `json:"expected"`
	Build      string        `json:"build"`
	Same       *bool         `json:"same"`
	Violation  *violation    `json:"violation"`
}

func replay(cmd *cobra.Command, p *sim.Protocol, s *sim.Schedule, until uint64, format output) error {
	w, err := sim.New(p, s)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	play(w, until)
	r := w.Result()
	got := replayed{
		Protocol: p.Name, Seed: s.Seed, Nodes: s.Nodes, Operations: len(s.Ops), Events: r.Events, Virtual: r.Virtual.Seconds(), Hash: digits(r.Hash),
		Expected: s.Expected, Build: program(), Violation: showViolation(r.Violation),
	}
	var invariant sim.Invariant
	if r.Violation != nil {
		invariant = r.Violation.Invariant
	}
	if s.Expected != nil && until == 0 {
		same := s.Expected.Hash == got.Hash && s.Expected.Invariant == invariant
		got.Same = &same
	}
	if format == "json" {
		err = writeJSON(cmd.OutOrStdout(), got)
	} else {
		err = got.write(cmd)
	}
	switch {
	case err != nil:
		return err
	case r.Violation != nil:
		return exit.Silent(codeOf(r.Violation))
	case got.Same != nil && !*got.Same:
		return exit.Silent(1)
	}
	return nil
}

func (r *replayed) write(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s, seed %d, %d nodes, %d operations: %s events in %v of virtual time\n",
		r.Protocol, r.Seed, r.Nodes, r.Operations, thousands(r.Events), time.Duration(r.Virtual*float64(time.Second)).Round(time.Millisecond))
	if v := r.Violation; v != nil {
		fmt.Fprintf(out, "violated: %s at event %d, %.4f s: %s\n", v.Invariant, v.Event, float64(v.At)/1e9, saysOf(v))
	} else {
		fmt.Fprintln(out, "violated: nothing")
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
	_, err := fmt.Fprintf(out, "hash: %s%s\n", r.Hash, verdict)
	return err
}
