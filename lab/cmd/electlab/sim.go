package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/story"
)

const simHelp = `Run election protocols, the same code that runs in production, in a simulated world
of failing networks, clocks, disks, stores and processes, and check their promises
after every event. A seed decides everything: the same seed, or the same schedule,
gives the same run to the bit.

Exit codes:
  0    nothing was violated
  64   the command line or a file is wrong
  73   a file or stdout cannot be written
  80   safety was violated, or a required failure was not found
  81   liveness was violated
  82   a machine crashed
  130  interrupted
80, 81 and 82 take precedence over all others, and 130 over 73.`

func newSim() *cobra.Command {
	return cli.Group("sim VERB", "run the protocols in a simulated world of faults", simHelp,
		newSimRun(), newSimReplay(), newSimShrink(), newSimList(), newSimCompare(), newSimCount(), newSimGroup(), newSimBench())
}

// protocolNamed finds a protocol, or names the known ones in its error.
func protocolNamed(name string) (*sim.Protocol, error) {
	if p, ok := protocols.ByName(name); ok {
		return p, nil
	}
	var names []string
	for _, p := range slices.Concat(protocols.All(), protocols.Naive()) {
		names = append(names, p.Name)
	}
	return nil, exit.Usagef("protocol %q; want one of: %s", name, strings.Join(names, ", "))
}

// codeOf is the exit code for a violation; OK for nil.
func codeOf(v *sim.Violation) int {
	switch {
	case v == nil:
		return exit.OK
	case v.Invariant == sim.Live:
		return exit.Liveness
	case v.Invariant == sim.NoPanic:
		return exit.Crash
	}
	return exit.Safety
}

// violation is a [sim.Violation] as -o json shows it.
type violation struct {
	Invariant sim.Invariant `json:"invariant"`
	Node      string        `json:"node,omitempty"`
	At        int64         `json:"at_ns"`
	Event     uint64        `json:"event"`
	Says      string        `json:"says"`
}

func showViolation(v *sim.Violation) *violation {
	if v == nil {
		return nil
	}
	return &violation{v.Invariant, string(v.Node), int64(v.At), v.Event, v.Says}
}

// saysOf is the text of a violation, with its node.
func saysOf(v *violation) string {
	if v.Node != "" {
		return v.Node + ": " + v.Says
	}
	return v.Says
}

func digits(hash uint64) string { return fmt.Sprintf("%016x", hash) }

// ran is a run, which may have been interrupted.
type ran struct {
	*sim.Result
	interrupted bool
}

// play runs a world to its end, to event number until if that is not 0, or to the
// end of ctx.
func play(ctx context.Context, w *sim.World, until uint64) *ran {
	const look = 1 << 12 // events between two looks at ctx
	r := new(ran)
	for n := uint64(1); (until == 0 || n <= until) && w.Step(); n++ {
		if n%look == 0 && ctx.Err() != nil {
			r.interrupted = true
			break
		}
	}
	r.Result = w.Result()
	return r
}

// traced plays the world of a schedule, and writes its trace.
func traced(ctx context.Context, p *sim.Protocol, s *sim.Schedule, until uint64, out io.Writer) (*ran, error) {
	w, err := sim.New(p, s)
	if err != nil {
		return nil, err
	}
	rec, err := sim.NewRecorder(out, w, cli.Program())
	if err != nil {
		return nil, err
	}
	w.Trace(rec)
	r := play(ctx, w, until)
	return r, rec.Close()
}

// traceTo writes the trace of a run to a file.
func traceTo(ctx context.Context, path string, p *sim.Protocol, s *sim.Schedule, until uint64) (*ran, error) {
	f := &sideFile{path: path}
	r, err := traced(ctx, p, s, until, f)
	return r, errors.Join(unwritten(path, err), f.Close())
}

// unwritten is an error of a recorder, which writes no trace that cannot be read.
func unwritten(path string, err error) error {
	if err != nil {
		return exit.With(exit.CannotCreate, fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

// tellStory runs a schedule again and writes its story. The trace that it is made of goes to also,
// too, if that is not nil. out keeps its own errors.
func tellStory(ctx context.Context, out *answer, also *sideFile, p *sim.Protocol, s *sim.Schedule, until uint64, o story.Options) (*ran, error) {
	r, w := io.Pipe()
	var all io.Writer = w
	if also != nil {
		all = io.MultiWriter(also, w)
	}
	var result *ran
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		result, err = traced(ctx, p, s, until, all)
		w.CloseWithError(err)
	}()
	d, err := trace.NewDecoder(r)
	if err == nil {
		err = story.Write(out, d, o)
	}
	_ = r.Close() // a recorder that is not heard any more writes no more
	<-done
	fmt.Fprintln(out)
	if out.err != nil {
		err = nil
	}
	return result, err
}

// oneFile is for verbs that take one file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usagef("%s takes one file, and %d were given; see %s --help", cmd.CommandPath(), len(args), cmd.CommandPath())
	}
	return nil
}

var errInterrupted = errors.New("interrupted")
