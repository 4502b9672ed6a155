package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/check"
)

const checkHelp = `Explore every interleaving of a small world: a few machines of the quorum protocol, the
same code that runs in production, and all that a network, a disk, clocks and an operator
may do to them within the bounds of the flags. The search is breadth first, so a
violation comes with the fewest steps that lead to it.

Every message may be lost, delayed and overtaken. --mode says how time passes:
  async  each clock moves by itself, whenever a timer of its node fires, so that every
         relative speed is explored. The invariants need no clock.
  timed  true time passes in ticks of a heartbeat, and in each tick a clock advances by
         one of --rates. At no instant of true time may two leases be proven or two works
         run.

A violation is printed as a transcript, and kept as a file (--keep, or elect-check.json
in this directory) that --replay repeats.

With --protocol group it is the members and coordinators of a group with one key, without
clocks: --nodes members (default: 2), --terms tenures of coordinators (default: 2), and
--crashes deaths of members (default: 0), of which a witness tells. Claims end as
--lapses says, and cover when no claim is left of an earlier coordinator, or by account.
It uses one core, and keeps no file.

Memory is the limit: a state takes 20 to 100 bytes. --memory stops the search in time.

stderr first names the world and its limits, then shows the progress. The report is on
stdout.

Exit codes:
  0    everything was explored and nothing was violated
  64   the command line or a file is wrong
  73   a file or stdout cannot be written
  80   an invariant was violated
  82   a machine crashed
  83   --limit or --memory was reached first; nothing was violated until then
  130  interrupted

-o json writes one object: ending (exhausted, violated, bounded, stopped), world (the
bounds), states, steps, queue, depth, tick, node_states, messages, node_steps, cut
(steps not taken because they go beyond --terms), won (the greatest term that a node
won), bytes, bytes_per_state, wall_seconds, states_per_second, violation: null or
{invariant, node, says}, and kept. With --replay it is what --keep writes: world,
beginning (which of the first states), steps, a list of {way, tick, node, what, came,
views}, and violation.`

// checkRun is the command line of check.
type checkRun struct {
	protocol    string
	world       check.World
	group       check.GroupWorld
	mode, begin string
	rates       []int
	voters      []string
	limit       uint64
	memory      float64
	jobs        int
	keep        string
	replay      string
	format      cli.Output
}

func newCheck() *cobra.Command {
	r := &checkRun{}
	cmd := &cobra.Command{
		Use:   "check [flags]",
		Short: "explore all interleavings of a small world",
		Long:  checkHelp,
		Example: "  electlab check\n  electlab check --begin led --fires 2 --hints 2 --crashes 0\n" +
			"  electlab check --mode timed --begin apart --crashes 0 --hints 1 --candidates 2 --ticks 5 --rates 80,120\n  electlab check --replay elect-check.json",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if r.protocol == "group" {
				return r.groups(cmd)
			}
			if r.replay != "" {
				return r.again(cmd)
			}
			return r.run(cmd)
		},
	}
	f, w := cmd.Flags(), &r.world
	f.StringVar(&r.protocol, "protocol", quorum.Name, "the `PROTOCOL`: quorum or group")
	f.StringVar(&r.mode, "mode", string(check.Async), "how time passes: `async` or timed")
	f.StringVar(&r.begin, "begin", "", "how the world begins: `idle`, cold (no node has started), led (n1 leads), or apart (n1 leads, and n2 has not heard it for long)")
	f.IntVar(&w.Nodes, "nodes", 3, "`N` nodes, 1 to 5")
	f.IntVar(&w.Voters, "voters", 0, "the first `N` of them are voters (default: all)")
	f.IntVar(&w.Candidates, "candidates", 0, "the first `N` of the nodes stand (default: all)")
	f.IntVar(&w.Terms, "terms", 0, "no node stands in a term above `N`, 1 to 7 (default: 3; timed: 2)")
	f.IntVar(&w.Messages, "messages", 0, "`N` messages in flight at most, 1 to 8 (default: 4; timed: 2)")
	f.IntVar(&w.Fires, "fires", 2, "timers fire `N` times in all")
	f.IntVar(&w.Saves, "saves", 0, "`N` saves take time; the others are durable at once")
	f.IntVar(&w.Crashes, "crashes", 1, "`N` crashes")
	f.IntVar(&w.Duplicates, "duplicates", 0, "`N` messages arrive twice")
	f.IntVar(&w.Hints, "hints", 0, "`N` times a node is told that its leader has closed its connection")
	f.IntVar(&w.Witnesses, "witnesses", 0, "`N` times a keeper reports that a dead node's work is dead")
	f.IntVar(&w.Failures, "failures", 0, "`N` saves fail")
	f.IntVar(&w.Waits, "waits", 0, "async: `N` times a clock moves past all that its node waits for")
	f.IntVar(&w.Resigns, "resigns", 0, "`N` times a leader is told to resign")
	f.IntVar(&w.Transfers, "transfers", 0, "`N` times a leader is told to transfer")
	f.IntVar(&w.Pauses, "pauses", 0, "`N` times a node is paused")
	f.IntVar(&w.Changes, "changes", 0, "`N` times a leader is told to change the membership to one that --membership names")
	f.StringArrayVar(&r.voters, "membership", nil, "voters of a membership for --changes, such as `n1,n2`; may be given several times")
	f.IntVar(&w.Ticks, "ticks", 0, "timed: true time ends after `N` ticks (default: 6)")
	f.IntSliceVar(&r.rates, "rates", nil, "timed: how far a clock may advance in a tick, in `PERCENT`, such as 80,120; each clock keeps its rate")
	f.BoolVar(&w.Swing, "swing", false, "timed: a clock may change its rate in each tick")
	f.BoolVar(&w.Outlives, "outlives", false, "timed: work goes on after its process dies, until its lease ends")
	f.IntVar(&w.Promise, "promise", 0, "a promise of `N` heartbeats (default: 4, or the least that the rates allow)")
	f.IntVar(&r.group.Versions, "versions", 3, "group: `N` versions of the registry in a tenure")
	f.IntVar(&r.group.Vouchers, "vouchers", 0, "group: `N` members vouch (default: all)")
	f.IntVar(&r.group.Settled, "settled", 0, "group: the first `N` members are admitted when the world begins")
	f.IntVar(&r.group.Cuts, "cuts", 0, "group: `N` connections are cut")
	f.IntVar(&r.group.Lapses, "lapses", 0, "group: `N` claims end")
	f.IntVar(&r.group.Moves, "moves", 0, "group: placement moves the key `N` times")
	f.Uint64Var(&r.limit, "limit", 0, "stop after `N` states (default: none)")
	f.Float64Var(&r.memory, "memory", 8, "stop when about `GIB` of memory are used; 0 is no bound")
	f.IntVar(&r.jobs, "jobs", runtime.GOMAXPROCS(0), "explore on `N` cores; the answer is the same")
	f.StringVar(&r.keep, "keep", "elect-check.json", "write the steps to a violation to `FILE`")
	f.StringVar(&r.replay, "replay", "", "repeat the steps in `FILE`, and report whether they still violate something")
	r.format.Flag(f)
	return cmd
}

// bounds is the world that the flags describe.
func (r *checkRun) bounds() (check.World, error) {
	w := r.world
	w.Mode, w.Begin, w.Rates = check.Mode(r.mode), check.Beginning(r.begin), r.rates
	if r.begin == "idle" {
		w.Begin = check.Idle
	}
	terms, messages := 3, 4
	if w.Mode == check.Timed {
		terms, messages = 2, 2
		if w.Ticks == 0 {
			w.Ticks = 6
		}
	}
	if w.Terms == 0 {
		w.Terms = terms
	}
	if w.Messages == 0 {
		w.Messages = messages
	}
	for _, text := range r.voters {
		var set []protocol.NodeID
		for id := range strings.SplitSeq(text, ",") {
			set = append(set, protocol.NodeID(id))
		}
		w.Memberships = append(w.Memberships, set)
	}
	switch {
	case r.protocol != quorum.Name:
		return w, exit.Usagef("protocol %q; want %s or group", r.protocol, quorum.Name)
	case r.jobs < 1 || r.jobs > 1024:
		return w, exit.Usagef("--jobs is %d; want 1 to 1024", r.jobs)
	case !(r.memory >= 0 && r.memory <= 1<<20):
		return w, exit.Usagef("--memory is %v; want gibibytes, such as 8, or 0", r.memory)
	case (w.Changes > 0) != (len(w.Memberships) > 0):
		return w, exit.Usagef("--changes and --membership belong together, such as --changes 1 --membership n1,n2")
	}
	if err := w.Validate(); err != nil {
		return w, exit.Usagef("%v", err)
	}
	return w, nil
}

func (r *checkRun) run(cmd *cobra.Command) error {
	w, err := r.bounds()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	fmt.Fprintf(cmd.ErrOrStderr(), "electlab: %s\n", r.sketch(&w))
	tell := newCheckProgress(cmd, w.Ticks)
	result, err := check.Explore(w, check.Options{
		Cores: r.jobs, Limit: r.limit, Memory: uint64(r.memory * (1 << 30)),
		Look: func(p check.Progress) bool { tell.look(p); return ctx.Err() == nil },
	})
	tell.end()
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	report := newCheckReport(w, result, time.Since(tell.begin))
	report.limit = r.limit
	var errs []error
	if result.Trail != nil {
		if err := keepTrail(r.keep, result.Trail); err != nil {
			errs = append(errs, err)
		} else {
			report.Kept = r.keep
		}
	}
	out := &answer{out: cmd.OutOrStdout()}
	report.show(cmd.Context(), out, r.format)
	errs = append(errs, out.err)
	switch result.Ending {
	case check.Violated:
		return ending(cmd, codeOfCheck(result.Violation), errs...)
	case check.Bounded:
		return ending(cmd, exit.NotExhausted, errs...)
	case check.Stopped:
		return ending(cmd, exit.OK, append([]error{byInterrupt()}, errs...)...)
	}
	return ending(cmd, exit.OK, errs...)
}

// sketch is the world that is about to be explored, and its limits.
func (r *checkRun) sketch(w *check.World) string { return r.bounded(w.String()) }

func (r *checkRun) bounded(world string) string {
	var bounds []string
	if r.limit > 0 {
		bounds = append(bounds, thousands(r.limit)+" states")
	}
	if r.memory > 0 {
		bounds = append(bounds, fmt.Sprintf("%v GiB", r.memory))
	}
	if len(bounds) == 0 {
		return world + "; until all is explored"
	}
	return world + "; until all is explored, or " + strings.Join(bounds, " or ")
}

// again replays a trail.
func (r *checkRun) again(cmd *cobra.Command) error {
	data, err := os.ReadFile(r.replay)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	t := &check.Trail{}
	if err := json.Unmarshal(data, t); err != nil {
		return exit.Usagef("%s: it is no trail that electlab check has kept: %v", r.replay, err)
	}
	v, err := t.Replay()
	if err != nil {
		return exit.Usagef("%s: %v", r.replay, err)
	}
	out := &answer{out: cmd.OutOrStdout()}
	if r.format == "json" {
		_ = cli.WriteJSON(out, t) // out keeps the error
	} else {
		_ = t.Write(out)
		if v == nil {
			fmt.Fprintln(out, "\nIt violates nothing any more.")
		}
	}
	return ending(cmd, codeOfCheck(v), out.err)
}

func codeOfCheck(v *check.Violation) int {
	switch {
	case v == nil:
		return exit.OK
	case v.Invariant == check.NoPanic:
		return exit.Crash
	}
	return exit.Safety
}

func keepTrail(path string, t *check.Trail) error {
	data, err := json.MarshalIndent(t, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return exit.With(exit.CannotCreate, err)
	}
	return nil
}

// checkProgress shows how far an exploration is: in one line at a terminal; elsewhere a line after
// two seconds, and then one every five.
type checkProgress struct {
	w        io.Writer
	terminal bool
	begin    time.Time
	ticks    int // of mode timed
	last     time.Duration
	shown    bool
}

func newCheckProgress(cmd *cobra.Command, ticks int) *checkProgress {
	return &checkProgress{w: cmd.ErrOrStderr(), terminal: cli.AtTerminal(os.Stderr), begin: time.Now(), ticks: ticks}
}

func (t *checkProgress) look(p check.Progress) {
	now := time.Since(t.begin)
	wait := 5 * time.Second
	switch {
	case t.terminal:
		wait = 100 * time.Millisecond
	case !t.shown:
		wait = 2 * time.Second
	}
	if now-t.last < wait {
		return
	}
	t.last, t.shown = now, true
	text := fmt.Sprintf("%s states, %s/s, depth %d", thousands(p.States), thousands(uint64(float64(p.States)/now.Seconds())), p.Depth)
	if p.Tick > 0 {
		text += fmt.Sprintf(" of tick %d of %d", p.Tick, t.ticks)
	}
	text += fmt.Sprintf(", queue %s, %.0f B/state, %.0f s", thousands(p.Queue), p.PerState(), now.Seconds())
	if t.terminal {
		fmt.Fprintf(t.w, "\r\x1b[K%s", text)
	} else {
		fmt.Fprintf(t.w, "electlab: %s\n", text)
	}
}

func (t *checkProgress) end() {
	if t.shown && t.terminal {
		fmt.Fprint(t.w, "\r\x1b[K")
	}
}

// checkReport is the result, as -o json shows it. Fields are added, and never renamed or removed.
type checkReport struct {
	Ending check.Ending `json:"ending"`
	World  check.World  `json:"world"`
	check.Progress
	PerState  float64          `json:"bytes_per_state"`
	Wall      float64          `json:"wall_seconds"`
	Rate      float64          `json:"states_per_second"`
	Violation *check.Violation `json:"violation"`
	Kept      string           `json:"kept,omitempty"`

	trail *check.Trail
	limit uint64
}

func newCheckReport(w check.World, r *check.Result, took time.Duration) *checkReport {
	return &checkReport{
		Ending: r.Ending, World: w, Progress: r.Progress, PerState: r.PerState(), Wall: took.Seconds(),
		Rate: float64(r.States) / max(took.Seconds(), 1e-9), Violation: r.Violation, trail: r.Trail,
	}
}

func (r *checkReport) show(_ context.Context, out io.Writer, format cli.Output) {
	if format == "json" {
		_ = cli.WriteJSON(out, r) // out keeps the error
		return
	}
	if r.trail != nil {
		_ = r.trail.Write(out)
		fmt.Fprintln(out)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	if r.trail == nil {
		row("world", "%s", r.World.String())
	}
	depth := "depth " + strconv.Itoa(r.Depth)
	if r.World.Mode == check.Timed {
		depth = fmt.Sprintf("tick %d of %d", r.Tick, r.World.Ticks)
	}
	row("states", "%s, %s steps between them, %s", thousands(r.States), thousands(r.Steps), depth)
	row("made of", "%s states of nodes, %s messages, %s steps of nodes", thousands(uint64(r.NodeStates)), thousands(uint64(r.Messages)), thousands(uint64(r.NodeSteps)))
	row("took", "%.1f s: %s states/s, %.0f bytes a state", r.Wall, thousands(uint64(r.Rate)), r.PerState)
	switch r.Ending {
	case check.Exhausted:
		row("violated", "nothing; all that these bounds allow was explored")
	case check.Bounded:
		bound := "--memory"
		if r.limit > 0 && r.States >= r.limit {
			bound = "--limit"
		}
		row("violated", "nothing so far; NOT EXHAUSTED: %s was reached", bound)
	case check.Stopped:
		row("violated", "nothing so far; NOT EXHAUSTED: interrupted")
	case check.Violated:
		row("violated", "%v", r.Violation)
	}
	if r.Kept != "" {
		row("kept", "%s", r.Kept)
	}
	if err := t.Flush(); err != nil && !errors.Is(err, io.EOF) {
		return // out keeps it
	}
}
