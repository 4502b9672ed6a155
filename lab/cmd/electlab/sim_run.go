package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/story"
)

const simRunHelp = `Run a protocol in the simulated world, one seed after the other, on all cores, until a
seed violates what the protocol promises. Each seed draws its own schedule: how noisy
the world is, which faults occur, and when.

A violation is shrunk to the few faults that it needs, kept in a file (--keep, or
elect-sim-PROTOCOL-SEED.json in this directory), and written as a story. electlab sim
replay runs the file again.

Which seeds run:
  --seed X            X alone
  --seeds N           1 to N
  --seed X --seeds N  N seeds from X on
  neither             1 to 100

--scenario NAME runs a scenario of electlab sim list instead, with its own schedules,
and judges the outcome: exit code 0 if it is the expected one, else 80. With --protocol
it writes the story of the first run. Without --protocol, or with --scenario all, it
shows one line for each scenario and protocol.

-o json writes one object: protocol, profile, nodes (0: drawn), beyond, seed, seeds,
runs, interrupted, events, virtual_seconds, wall_seconds, events_per_second, hash (of a
single run), stats {messages, elections, tenures, leader_changes, availability,
takeovers, takeover_median_ms, takeover_p99_ms, writes, stale_refused, stale_accepted,
overruns}, failures (of what may or must fail: a list of {invariant, expected, runs,
first_seed}), seen and missing (situations), and violation: null, or {seed, invariant,
node, at_ns, event, says, operations, kept, kept_operations, kept_nodes, kept_hash}.
kept is empty if the file could not be written.

With --scenario the object has scenario, protocol, says, source, expected, outcome,
held, wrong (a list of what is not as expected), runs, and of the first run events,
virtual_seconds, hash and tenures {who, token, from, until, proven: a list of {from,
until}; all in ns}. If there may be more than one, they are a list called scenarios.`

// simRun is the command line of sim run.
type simRun struct {
	protocol    string
	scenario    string
	options     sim.Options
	seed, seeds uint64
	jobs        int
	trace, keep string
	shrink      bool
	story, full bool
	format      cli.Output
}

func newSimRun() *cobra.Command {
	r := &simRun{}
	cmd := &cobra.Command{
		Use:   "run [flags]",
		Short: "run seeds until one violates what the protocol promises",
		Long:  simRunHelp,
		Example: "  electlab sim run --seeds 1000\n  electlab sim run --protocol queue --profile stores --seeds 200\n" +
			"  electlab sim run --seed 17 --trace run.ndjson\n  electlab sim run --scenario rejoin --protocol raft",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("scenario") {
				return r.runScenario(cmd)
			}
			return r.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.protocol, "protocol", "quorum", "the `PROTOCOL`; electlab sim list names them")
	f.StringVar(&r.scenario, "scenario", "", "run the scenario `NAME`, or all; electlab sim list names them")
	f.StringVar(&r.options.Profile, "profile", "swarm", "the `PROFILE` of faults; electlab sim list names them")
	f.Uint64Var(&r.seed, "seed", 0, "the `SEED` to run, or the first one")
	f.Uint64Var(&r.seeds, "seeds", 0, "run `N` seeds")
	f.IntVar(&r.options.Nodes, "nodes", 0, "`N` voters or candidates (default: the seed draws 3 or 5)")
	f.IntVar(&r.options.Observers, "observers", 0, "`N` observers beside them")
	f.IntVar(&r.options.Spares, "spares", 0, "`N` nodes that are no members and may become voters (default: the seed draws the number)")
	f.Var(span{&r.options.Faults}, "faults", "virtual `TIME` during which faults occur (default: about 60 times the longest takeover)")
	f.Lookup("faults").DefValue = "" // the text says it
	f.BoolVar(&r.options.Beyond, "beyond", false, "include faults beyond what is promised, such as clocks out of bounds; what they break is counted and is no failure")
	f.IntVar(&r.jobs, "jobs", runtime.GOMAXPROCS(0), "run `N` seeds at a time")
	f.StringVar(&r.trace, "trace", "", "write the trace of the run, or of the one with the violation, to `FILE`")
	f.StringVar(&r.keep, "keep", "", "write the schedule of the run, or of the one with the violation, to `FILE`")
	f.BoolVar(&r.shrink, "shrink", true, "shrink the schedule of a violation")
	f.BoolVar(&r.story, "story", false, "with --seed X alone: write the story of the run even without a violation")
	f.BoolVar(&r.full, "full", false, "include every event in the story")
	r.format.Flag(f)
	return cmd
}

// span is the value of --faults: a time that a schedule may take.
type span struct{ value *time.Duration }

func (s span) String() string { return cli.Duration(s.value).String() }
func (s span) Type() string   { return "duration" }

func (s span) Set(text string) error {
	// Package time calls a time of more than 292 years invalid.
	tooLong := regexp.MustCompile(`^\+?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`).MatchString(text)
	err := cli.Duration(s.value).Set(text)
	if err == nil && *s.value > sim.MaxSpan || err != nil && tooLong {
		return fmt.Errorf("it is too long; want %.0fh at most", sim.MaxSpan.Hours())
	}
	return err
}

func (r *simRun) run(cmd *cobra.Command) error {
	p, err := protocolNamed(r.protocol)
	if err != nil {
		return err
	}
	single := cmd.Flags().Changed("seed") && r.seeds == 0
	switch {
	case r.jobs < 1 || r.jobs > 1024:
		return exit.Usagef("--jobs is %d; want 1 to 1024", r.jobs)
	case cmd.Flags().Changed("seeds") && r.seeds == 0:
		return exit.Usagef("--seeds is 0; want 1 or more")
	case r.story && !single:
		return exit.Usagef("--story writes one run; want --seed X without --seeds, such as --seed 17")
	case r.story && r.format == "json":
		return exit.Usagef("--story and --output=json contradict each other; want one of them")
	case !cmd.Flags().Changed("seed"):
		r.seed = 1
	}
	switch {
	case single:
		r.seeds = 1
	case r.seeds == 0:
		r.seeds = 100
	}
	if _, err := sim.Generate(p, r.seed, r.options); err != nil {
		return exit.With(exit.Usage, err)
	}
	if beyond := math.MaxUint64 - r.seed; r.seeds-1 > beyond {
		return exit.Usagef("--seed %d and --seeds %d: the greatest seed is %d; want --seeds %d at most", r.seed, r.seeds, uint64(math.MaxUint64), beyond+1)
	}
	return r.search(cmd, p)
}

// search runs the seeds, and writes and keeps their results.
func (r *simRun) search(cmd *cobra.Command, p *sim.Protocol) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	h := &hunt{protocol: p, options: r.options, first: r.seed, count: r.seeds, jobs: r.jobs}
	var err error
	progress(h.progress).during(cmd.ErrOrStderr(), func() { err = h.run(ctx) })
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	interrupted := ctx.Err() != nil && h.tally.worst == nil && h.tally.runs < r.seeds
	report := r.report(h, interrupted)
	of := h.tally.worst
	if of == nil && r.seeds == 1 {
		of = h.tally.last
	}
	var errs []error
	switch {
	case of != nil:
		errs = r.after(ctx, cmd, p, of, report)
	case r.trace == "" && r.keep == "":
	case interrupted:
		fmt.Fprintln(cmd.ErrOrStderr(), "electlab: it was interrupted before anything was violated, so no run was kept")
	default:
		fmt.Fprintln(cmd.ErrOrStderr(), "electlab: nothing was violated, so no run was kept; --seed X keeps that of one seed")
	}
	out := &answer{out: cmd.OutOrStdout()}
	errs = append(errs, r.show(cmd.Context(), out, p, h, report), out.err)
	code := exit.OK
	switch {
	case h.tally.worst != nil:
		code = codeOf(h.tally.worst.Violation)
	case interrupted:
		errs = append([]error{byInterrupt()}, errs...)
	case report.toothless():
		code = exit.Safety
	}
	return ending(cmd, code, errs...)
}

// after writes the files of a run: its schedule first, shrunk if it violates an invariant, and then
// its trace. A file that cannot be written does not affect the rest.
func (r *simRun) after(ctx context.Context, cmd *cobra.Command, p *sim.Protocol, of *sim.Result, report *simReport) (errs []error) {
	report.kept = of
	path := r.keep
	if v := report.Violation; v != nil {
		if path == "" {
			path = "elect-sim-" + p.Name + "-" + strconv.FormatUint(of.Schedule.Seed, 10) + ".json"
		}
		if r.shrink {
			fmt.Fprintf(cmd.ErrOrStderr(), "electlab: seed %d violates %s; shrinking it\n", of.Schedule.Seed, v.Invariant)
			small, result, err := shrink(ctx, cmd, p, of.Schedule)
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "electlab: it was not shrunk: %s\n", cli.OneLine(err.Error()))
			} else {
				result.Schedule = small
				report.kept = result
			}
		}
	}
	if path != "" {
		kept := report.kept
		err := keepSchedule(path, kept.Schedule, kept)
		if v := report.Violation; v != nil && err == nil {
			v.Kept, v.KeptOperations, v.KeptNodes, v.KeptHash = path, len(kept.Schedule.Ops), kept.Schedule.Nodes, digits(kept.Hash)
		}
		errs = append(errs, err)
	}
	if r.trace != "" {
		if ctx.Err() != nil {
			ctx = cmd.Context() // that was for the shrinking; the trace of a violation is whole
		}
		traced, err := traceTo(ctx, r.trace, p, of.Schedule, 0)
		if traced != nil && traced.interrupted {
			fmt.Fprintf(cmd.ErrOrStderr(), "electlab: %s: interrupted at event %d: the trace has no end\n", r.trace, traced.Events)
		}
		errs = append(errs, err)
	}
	return errs
}

// simReport is what came of the runs, as -o json shows it. Fields are added, and
// never renamed or removed.
type simReport struct {
	Protocol    string  `json:"protocol"`
	Profile     string  `json:"profile"`
	Nodes       int     `json:"nodes"`
	Beyond      bool    `json:"beyond"`
	Seed        uint64  `json:"seed"`
	Seeds       uint64  `json:"seeds"`
	Runs        uint64  `json:"runs"`
	Interrupted bool    `json:"interrupted"`
	Events      uint64  `json:"events"`
	Virtual     float64 `json:"virtual_seconds"`
	Wall        float64 `json:"wall_seconds"`
	Rate        float64 `json:"events_per_second"`
	Hash        string  `json:"hash,omitempty"`

	Stats     simStats      `json:"stats"`
	Failures  []simFailure  `json:"failures"`
	Seen      []string      `json:"seen"`
	Missing   []string      `json:"missing"`
	Violation *simViolation `json:"violation"`

	kept *sim.Result
}

type simStats struct {
	Messages      uint64   `json:"messages"`
	Elections     uint64   `json:"elections"`
	Tenures       uint64   `json:"tenures"`
	Changes       uint64   `json:"leader_changes"`
	Availability  float64  `json:"availability"`
	Takeovers     int      `json:"takeovers"`
	Median        *float64 `json:"takeover_median_ms,omitempty"`
	P99           *float64 `json:"takeover_p99_ms,omitempty"`
	Writes        uint64   `json:"writes"`
	StaleRefused  uint64   `json:"stale_refused"`
	StaleAccepted uint64   `json:"stale_accepted"`
	Overruns      uint64   `json:"overruns"`
}

type simFailure struct {
	Invariant sim.Invariant `json:"invariant"`
	Expected  string        `json:"expected"` // may-fail or must-fail
	Runs      uint64        `json:"runs"`
	First     *uint64       `json:"first_seed"` // null if there is none
}

type simViolation struct {
	Seed uint64 `json:"seed"`
	violation
	Operations     int    `json:"operations"`
	Kept           string `json:"kept"` // empty, as what follows, if it could not be
	KeptOperations int    `json:"kept_operations"`
	KeptNodes      int    `json:"kept_nodes"`
	KeptHash       string `json:"kept_hash"`
}

func (r *simRun) report(h *hunt, interrupted bool) *simReport {
	t := &h.tally
	s := &simReport{
		Protocol: h.protocol.Name, Profile: r.options.Profile, Nodes: r.options.Nodes, Beyond: r.options.Beyond, Seed: r.seed, Seeds: r.seeds, Runs: t.runs,
		Interrupted: interrupted, Events: t.events, Virtual: t.virtual.Seconds(), Wall: t.took.Seconds(),
		Failures: []simFailure{}, Seen: []string{}, Missing: []string{},
		Stats: simStats{
			Messages: t.stats.Messages, Elections: t.stats.Elections, Tenures: t.stats.Tenures, Changes: t.stats.Changes, Availability: t.stats.Availability(),
			Takeovers: len(t.stats.Takeovers), Median: quantile(&t.stats, .5), P99: quantile(&t.stats, .99), Writes: t.stats.Writes,
			StaleRefused: t.stats.StaleRefused, StaleAccepted: t.stats.StaleAccepted, Overruns: t.stats.Overruns,
		},
	}
	if s.Wall > 0 {
		s.Rate = float64(s.Events) / s.Wall
	}
	if r.seeds == 1 && t.last != nil {
		s.Hash = digits(t.last.Hash)
	}
	for _, inv := range failing(h) {
		f := simFailure{Invariant: inv, Expected: "may-fail", Runs: t.found[inv].runs}
		if h.protocol.Expect[inv] == sim.MustFail {
			f.Expected = "must-fail"
		}
		if f.Runs > 0 {
			f.First = new(t.found[inv].seed)
		}
		s.Failures = append(s.Failures, f)
	}
	for _, x := range sim.Situations() {
		if t.seen.Has(x) {
			s.Seen = append(s.Seen, x.String())
		}
	}
	for _, x := range t.seen.Missing(h.protocol) {
		s.Missing = append(s.Missing, x.String())
	}
	if w := t.worst; w != nil {
		s.Violation = &simViolation{Seed: w.Schedule.Seed, violation: *showViolation(w.Violation), Operations: len(w.Schedule.Ops)}
	}
	return s
}

func quantile(s *sim.Stats, q float64) *float64 {
	d, ok := s.Takeover(q)
	if !ok {
		return nil
	}
	ms := float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
	return &ms
}

// show writes the report, and before it the story of a violation, or of a single run, up to an
// interruption. Its error is of the story.
func (r *simRun) show(ctx context.Context, out *answer, p *sim.Protocol, h *hunt, s *simReport) error {
	if r.format == "json" {
		_ = cli.WriteJSON(out, s) // out keeps the error
		return nil
	}
	var tell *sim.Schedule
	until := uint64(0)
	switch {
	case s.Violation != nil || r.story && s.kept != nil:
		tell = s.kept.Schedule
	case r.story && h.tally.cut != nil:
		tell, until = h.tally.cut.Schedule, h.tally.cut.Events
	}
	var err error
	if tell != nil {
		_, err = tellStory(ctx, out, nil, p, tell, until, story.Options{Full: r.full, Colour: cli.Colour(os.Stdout)})
	}
	s.write(out)
	return err
}

// An invariant that must fail must do so within that many seeds of that profile. Fewer, or others,
// may show it or not.
const (
	showingSeeds   = 200
	showingProfile = "partitions"
)

// shows reports whether these runs are required to find the failure.
func (s *simReport) shows() bool {
	return !s.Interrupted && s.Seeds >= showingSeeds && s.Profile == showingProfile
}

// toothless reports whether a required failure was not found.
func (s *simReport) toothless() bool {
	return s.shows() && slices.ContainsFunc(s.Failures, func(f simFailure) bool { return f.Expected == "must-fail" && f.Runs == 0 })
}

// write writes the report for people.
func (s *simReport) write(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	seeds := fmt.Sprintf("seed %d", s.Seed)
	if s.Seeds > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", s.Seed, s.Seed+s.Seeds-1)
	}
	row("protocol", "%s, profile %s, %s", s.Protocol, s.Profile, seeds)
	row("runs", "%d, %s events in %.1f s: %s a second", s.Runs, thousands(s.Events), s.Wall, thousands(uint64(s.Rate)))
	row("virtual time", "%v", time.Duration(s.Virtual*float64(time.Second)).Round(time.Second))
	if s.Hash != "" {
		row("hash", "%s", s.Hash)
	}
	row("elections", "%s, of which %s came to a proven lease; %s leader changes", thousands(s.Stats.Elections), thousands(s.Stats.Tenures), thousands(s.Stats.Changes))
	led := fmt.Sprintf("there was a leader %.2f %% of the time", 100*s.Stats.Availability)
	if s.Stats.Median != nil {
		led += fmt.Sprintf("; takeover median %.1f ms, p99 %.1f ms, n = %d", *s.Stats.Median, *s.Stats.P99, s.Stats.Takeovers)
	}
	row("led", "%s", led)
	row("guarded writes", "%s, %s stale ones refused, %s accepted", thousands(s.Stats.Writes), thousands(s.Stats.StaleRefused), thousands(s.Stats.StaleAccepted))
	never := 0
	for _, f := range s.Failures {
		how := "may fail, and did"
		if f.Expected == "must-fail" {
			how = "must be found failing, and was"
			if f.First == nil && !s.shows() {
				how = fmt.Sprintf("must be found failing by %d seeds of profile %s, and was", showingSeeds, showingProfile)
			}
		}
		if f.First == nil && f.Expected != "must-fail" {
			never++
		} else if f.First == nil {
			row(string(f.Invariant), "%s not in %d runs", how, s.Runs)
		} else {
			row(string(f.Invariant), "%s in %d of %d runs, first with seed %d", how, f.Runs, s.Runs, *f.First)
		}
	}
	if never > 0 {
		row("", "%d more invariants may fail, and did not", never)
	}
	if s.Seeds == 1 {
		row("situations", "%d seen", len(s.Seen))
	} else {
		row("situations", "%d seen, %d of those expected of a suite missing%s", len(s.Seen), len(s.Missing), listed(s.Missing))
	}
	if v := s.Violation; v != nil {
		row("violated", "%s, seed %d, event %d, %.4f s: %s", v.Invariant, v.Seed, v.Event, float64(v.At)/1e9, saysOf(&v.violation))
		if v.Kept != "" {
			row("kept", "%s: %d of %d operations, %d nodes, hash %s", v.Kept, v.KeptOperations, v.Operations, v.KeptNodes, v.KeptHash)
			row("", "electlab sim replay --story %s", v.Kept)
		}
	} else {
		row("violated", "nothing")
	}
	switch {
	case s.Interrupted && s.Seeds == 1:
		row("interrupted", "at event %d", s.Events)
	case s.Interrupted:
		row("interrupted", "after %d of %d runs", s.Runs, s.Seeds)
	}
	_ = t.Flush() // out keeps the error
}

func listed(names []string) string {
	const most = 6
	switch n := len(names); {
	case n == 0:
		return ""
	case n > most:
		return ": " + strings.Join(names[:most], ", ") + ", …"
	}
	return ": " + strings.Join(names, ", ")
}

// failing lists, in order, the invariants that need not hold: those that the protocol does not
// promise, and those that the schedules excused and that failed.
func failing(h *hunt) []sim.Invariant {
	all := slices.AppendSeq(expectedToFail(h.protocol), maps.Keys(h.tally.found))
	slices.Sort(all)
	return slices.Compact(all)
}

// expectedToFail lists the invariants that p does not promise, in order.
func expectedToFail(p *sim.Protocol) []sim.Invariant {
	var all []sim.Invariant
	for inv, e := range p.Expect {
		if e != sim.MustHold {
			all = append(all, inv)
		}
	}
	slices.Sort(all)
	return all
}
