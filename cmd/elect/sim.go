package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/electd/elect/cmd/elect/internal/exit"
	"github.com/electd/elect/protocol/trace"
	"github.com/electd/elect/sim"
	"github.com/electd/elect/sim/protocols"
	"github.com/electd/elect/sim/story"
)

const simHelp = `Run election protocols, the very code that runs in production, in a simulated world
of broken networks, clocks, disks, stores and processes, and check after every
event what they promise. A seed decides everything: the same seed, or the same
schedule, gives the same run to the bit.

Exit codes: 0 nothing was violated; 80 safety was; 81 liveness was; 82 a machine
crashed; 64 the command line or a file is wrong; 130 interrupted.`

func newSim() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim VERB",
		Short: "run the protocols in a simulated world of faults",
		Long:  simHelp,
		Args:  verbOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Silent(exit.Usage)
		},
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newSimRun(), newSimReplay(), newSimShrink(), newSimList(), newSimBench())
	return cmd
}

// protocolNamed finds a protocol, or says which ones there are.
func protocolNamed(name string) (*sim.Protocol, error) {
	if p, ok := protocols.ByName(name); ok {
		return p, nil
	}
	var names []string
	for _, p := range protocols.All() {
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

// saysOf is what a violation says, and of whom.
func saysOf(v *violation) string {
	if v.Node != "" {
		return v.Node + ": " + v.Says
	}
	return v.Says
}

func digits(hash uint64) string { return fmt.Sprintf("%016x", hash) }

// program names this build in what is kept.
func program() string {
	b := readBuild()
	text := b.Version
	if b.Revision != "" {
		text += " " + b.Revision
	}
	if b.Modified {
		text += " modified"
	}
	return text
}

// readSchedule reads a schedule, or the one in a trace, and what came of it when
// it was written.
func readSchedule(path string) (*sim.Protocol, *sim.Schedule, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	s, err := parseSchedule(data)
	if err != nil {
		return nil, nil, exit.Usagef("%s: %w", path, err)
	}
	p, err := protocolNamed(s.Protocol)
	if err != nil {
		return nil, nil, exit.Usagef("%s: %w", path, err)
	}
	return p, s, nil
}

func parseSchedule(data []byte) (*sim.Schedule, error) {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	var kind struct{ Source trace.Source }
	if json.Unmarshal(first, &kind) != nil || kind.Source == "" {
		return sim.ParseSchedule(data)
	}
	d, err := trace.NewDecoder(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if d.Header().Schedule == nil {
		return nil, fmt.Errorf("it is a trace without a schedule (source %s); want a schedule, or a trace of the simulator", d.Header().Source)
	}
	s, err := sim.ParseSchedule(d.Header().Schedule)
	if err != nil {
		return nil, fmt.Errorf("line 1: field schedule: %w", err)
	}
	s.Expected = nil
	var violated sim.Invariant
	for e, err := range d.Events() {
		if err != nil {
			return nil, err
		}
		switch e.Kind {
		case trace.Violation:
			violated = sim.Invariant(e.Invariant)
		case trace.End:
			s.Expected = &sim.Expected{Hash: e.Hash, Build: d.Header().Build, Invariant: violated}
		}
	}
	return s, nil
}

// readFile reads a file, or stdin for "-". What cannot be read was named wrongly.
func readFile(path string) ([]byte, error) {
	if path == "-" {
		data, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, exit.Usagef("stdin: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.Usagef("%s", strings.TrimPrefix(err.Error(), "open "))
	}
	return data, nil
}

// keepSchedule writes a schedule with what came of it.
func keepSchedule(path string, s *sim.Schedule, r *sim.Result) error {
	kept := *s
	kept.Expected = &sim.Expected{Hash: digits(r.Hash), Build: program()}
	if r.Violation != nil {
		kept.Expected.Invariant = r.Violation.Invariant
	}
	text, err := kept.Encode()
	if err == nil {
		err = os.WriteFile(path, text, 0o666)
	}
	if err != nil {
		return exit.With(exit.CannotCreate, err)
	}
	return nil
}

// traced runs the world of a schedule to its end, or to event number until if
// that is not 0, and writes its trace.
func traced(p *sim.Protocol, s *sim.Schedule, until uint64, out io.Writer) (*sim.Result, error) {
	w, err := sim.New(p, s)
	if err != nil {
		return nil, err
	}
	rec, err := sim.NewRecorder(out, w, program())
	if err != nil {
		return nil, err
	}
	w.Trace(rec)
	play(w, until)
	return w.Result(), rec.Close()
}

// play runs a world to its end, or to event number until if that is not 0.
func play(w *sim.World, until uint64) {
	for n := uint64(0); (until == 0 || n < until) && w.Step(); {
		n++
	}
}

// tellStory runs a schedule again and tells what happens.
func tellStory(out io.Writer, p *sim.Protocol, s *sim.Schedule, until uint64, o story.Options) error {
	r, w := io.Pipe()
	go func() {
		_, err := traced(p, s, until, w)
		w.CloseWithError(err)
	}()
	defer r.Close() // the run ends when nobody listens any more
	d, err := trace.NewDecoder(r)
	if err != nil {
		return err
	}
	return story.Write(out, d, o)
}

// oneFile is for verbs that take one file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usagef("%s takes one file, and %d were given; see %s --help", cmd.CommandPath(), len(args), cmd.CommandPath())
	}
	return nil
}

var errInterrupted = errors.New("interrupted")
