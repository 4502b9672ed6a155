package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/scenario"
	"github.com/electd/elect/lab/sim/story"
)

// allScenarios is the value of --scenario for all of them.
const allScenarios = "all"

// fixedByScenario are the flags of sim run that say what a scenario says itself.
var fixedByScenario = [...]string{"seed", "seeds", "profile", "nodes", "observers", "spares", "faults", "beyond", "shrink"}

// mostColumns is how many participants a story may have.
const mostColumns = 27

// played is the result of a scenario with one protocol, as -o json shows it. Fields are added, and
// never renamed or removed.
type played struct {
	Scenario string            `json:"scenario"`
	Protocol string            `json:"protocol"`
	Says     string            `json:"says"`
	Source   string            `json:"source,omitempty"`
	Steps    []string          `json:"steps,omitempty"`
	Expected string            `json:"expected"`
	Outcome  string            `json:"outcome"`
	Held     bool              `json:"held"`
	Wrong    []string          `json:"wrong"`
	Runs     int               `json:"runs"`
	Events   uint64            `json:"events"` // of the first run, as what follows
	Virtual  float64           `json:"virtual_seconds"`
	Hash     string            `json:"hash"`
	Tenures  []scenario.Tenure `json:"tenures"`

	report *scenario.Report
}

// pairing is a scenario with a protocol.
type pairing struct {
	scenario *scenario.Scenario
	protocol string
}

func (p pairing) play(ctx context.Context) (*played, error) {
	r, err := p.scenario.Run(ctx, p.protocol)
	if err != nil {
		return nil, err
	}
	got := &played{
		Scenario: r.Scenario, Protocol: r.Protocol, Says: p.scenario.Says, Source: p.scenario.Source, Steps: p.scenario.Steps, Expected: r.Expected,
		Outcome: r.Outcome, Held: r.Held, Wrong: r.Wrong, Runs: r.Runs, Events: r.Result.Events, Virtual: r.Result.Virtual.Seconds(),
		Hash: digits(r.Result.Hash), Tenures: r.Tenures, report: r,
	}
	if got.Wrong == nil {
		got.Wrong = []string{}
	}
	return got, nil
}

// runScenario is sim run with --scenario.
func (r *simRun) runScenario(cmd *cobra.Command) error {
	for _, name := range fixedByScenario {
		if cmd.Flags().Changed(name) {
			return exit.Usagef("--scenario and --%s contradict each other: the scenario says what happens, to how many, and with which seeds; leave one of them out", name)
		}
	}
	if r.jobs < 1 || r.jobs > 1024 {
		return exit.Usagef("--jobs is %d; want 1 to 1024", r.jobs)
	}
	one := ""
	if cmd.Flags().Changed("protocol") {
		if _, err := protocolNamed(r.protocol); err != nil {
			return err
		}
		one = r.protocol
	}
	pairs, err := pairings(r.scenario, one)
	if err != nil {
		return err
	}
	if r.scenario != allScenarios && one != "" {
		return r.tellScenario(cmd, pairs[0])
	}
	for _, name := range [...]string{"trace", "keep", "story", "full"} {
		if cmd.Flags().Changed(name) {
			return exit.Usagef("--%s is of one run; want --scenario NAME and --protocol PROTOCOL with it, such as --scenario rejoin --protocol raft", name)
		}
	}
	return r.tableScenarios(cmd, pairs)
}

// pairings are the requested scenarios, each with the requested protocols: all to which it applies
// if none is named.
func pairings(name, protocol string) ([]pairing, error) {
	var pairs []pairing
	var names []string
	for _, s := range scenario.All() {
		names = append(names, s.Name)
		if name != allScenarios && name != s.Name {
			continue
		}
		for _, p := range s.Protocols() {
			if protocol == "" || protocol == p {
				pairs = append(pairs, pairing{s, p})
			}
		}
		if name == s.Name && len(pairs) == 0 {
			return nil, exit.Usagef("scenario %s does not apply to protocol %s; it does to: %s", name, protocol, strings.Join(s.Protocols(), ", "))
		}
	}
	if len(pairs) == 0 {
		return nil, exit.Usagef("scenario %q; want %s, or one of: %s", name, allScenarios, strings.Join(names, ", "))
	}
	return pairs, nil
}

// tellScenario runs one, and tells the story of its first run.
func (r *simRun) tellScenario(cmd *cobra.Command, of pairing) error {
	if r.story && r.format == "json" {
		return exit.Usagef("--story and --output=json contradict each other; want one of them")
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	got, err := of.play(ctx)
	switch {
	case ctx.Err() != nil:
		return ending(cmd, exit.OK, byInterrupt())
	case err != nil:
		return exit.With(exit.Usage, err)
	}
	p, _ := protocols.ByName(of.protocol)
	schedule := got.report.Result.Schedule
	out := &answer{out: cmd.OutOrStdout()}
	var errs []error
	if r.keep != "" {
		errs = append(errs, keepSchedule(r.keep, schedule, got.report.Result))
	}
	if r.format == "json" {
		if r.trace != "" {
			_, err := traceTo(ctx, r.trace, p, schedule, 0)
			errs = append(errs, err)
		}
		_ = cli.WriteJSON(out, got) // out keeps the error
	} else {
		var also *sideFile
		switch {
		case schedule.Nodes > mostColumns:
			fmt.Fprintf(out, "A story has a column for each participant, and %d are too many; --trace FILE has it all.\n\n", schedule.Nodes)
			if r.trace != "" {
				_, err := traceTo(ctx, r.trace, p, schedule, 0)
				errs = append(errs, err)
			}
			got.write(out)
			return ending(cmd, got.code(), append(errs, out.err)...)
		case r.trace != "":
			also = &sideFile{path: r.trace}
		}
		_, err := tellStory(ctx, out, also, p, schedule, 0, story.Options{Full: r.full, Colour: cli.Colour(os.Stdout)})
		errs = append(errs, err)
		if also != nil {
			errs = append(errs, also.Close())
		}
		got.write(out)
	}
	return ending(cmd, got.code(), append(errs, out.err)...)
}

func (p *played) code() int {
	if !p.Held {
		return exit.Safety
	}
	return exit.OK
}

// write writes it for people, after the story.
func (p *played) write(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, text string) {
		for _, line := range wrapped(text, textWidth) {
			fmt.Fprintf(t, "%s\t%s\n", name, line)
			name = ""
		}
	}
	row("scenario", p.Scenario+": "+p.Says)
	if p.Source != "" {
		row("source", p.Source)
	}
	for i, step := range p.Steps {
		row("step "+strconv.Itoa(i+1), step)
	}
	runs := "1"
	if p.Runs > 1 {
		runs = fmt.Sprintf("%d, and the story is of the first", p.Runs)
	}
	row("protocol", p.Protocol)
	row("runs", runs)
	row("expected", p.Expected)
	row("outcome", p.Outcome)
	if p.Held {
		row("held", "yes")
	} else {
		row("held", "no: "+p.Wrong[0])
		for _, w := range p.Wrong[1:min(len(p.Wrong), 5)] {
			row("", w)
		}
		if more := len(p.Wrong) - 5; more > 0 {
			row("", fmt.Sprintf("and %d more", more))
		}
	}
	_ = t.Flush() // out keeps the error
}

// How wide texts are: those that are told in full, and those in a table's row.
const (
	textWidth = 100
	cellWidth = 80
)

// wrapped breaks a text between words. It has one line at least.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// tableScenarios runs many, some at a time, and shows a line of each, in order.
func (r *simRun) tableScenarios(cmd *cobra.Command, pairs []pairing) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	all := make([]*played, len(pairs))
	errs := make([]error, len(pairs))
	var next, ran atomic.Int64
	var workers sync.WaitGroup
	progress(func() (uint64, uint64, string) { return uint64(ran.Load()), uint64(len(pairs)), "" }).during(cmd.ErrOrStderr(), func() {
		for range min(r.jobs, len(pairs)) {
			workers.Go(func() {
				for i := next.Add(1) - 1; i < int64(len(pairs)) && ctx.Err() == nil; i = next.Add(1) - 1 {
					all[i], errs[i] = pairs[i].play(ctx)
					ran.Add(1)
				}
			})
		}
		workers.Wait()
	})
	if ctx.Err() != nil {
		return ending(cmd, exit.OK, byInterrupt())
	}
	if err := errors.Join(errs...); err != nil {
		return exit.With(exit.Usage, err)
	}
	out := &answer{out: cmd.OutOrStdout()}
	code := exit.OK
	for _, p := range all {
		if !p.Held {
			code = exit.Safety
		}
	}
	if r.format == "json" {
		_ = cli.WriteJSON(out, struct {
			Scenarios []*played `json:"scenarios"`
		}{all}) // out keeps the error
	} else {
		writeScenarios(out, all)
	}
	return ending(cmd, code, out.err)
}

func writeScenarios(out io.Writer, all []*played) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SCENARIO\tPROTOCOL\tHELD\tOUTCOME")
	failed, cut := 0, false
	for _, p := range all {
		held, says := "yes", p.Outcome
		if !p.Held {
			failed++
			held, says = "NO", p.Wrong[0]
		}
		if lines := wrapped(says, cellWidth); len(lines) > 1 {
			says, cut = lines[0]+" …", true
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.Scenario, p.Protocol, held, says)
	}
	_ = t.Flush() // out keeps the error
	if cut {
		fmt.Fprintln(out, "\nWhat ends with … is told in full by -o json, and with one --scenario and --protocol.")
	}
	fmt.Fprintf(out, "\n%d of %d came to what is expected\n", len(all)-failed, len(all))
}
