package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/compare"
)

const simCompareHelp = `Run the same faults through several protocols, on all cores, and compare the results:
the time with a leader, the length of failovers, the messages of an election, the time
with two leaders, and the stale writes that followed.

With FILE it runs that schedule (- is stdin). Otherwise it draws --seeds schedules of
--profile, one for each seed from --seed on. Each protocol gets the faults in its own
form: stores are replicated on the participants' machines, and fail with them. The
acts of operators are left out for all. The documentation of package lab/sim/compare
has all the rules.

Each protocol runs with its own defaults, which differ. --detection D gives each one a
configuration that notices a silent leader after about D. The actual time, in the column
silence, may differ from D: raft draws its timeout from two thirds to four thirds of D,
and the sessions of queue last at least 2 s, etcd's least TTL.

The columns:
  silence        the longest time until a silent leader is noticed
  led            the part of the time with a leader that was alive and not frozen
  by             whether a leader counts by a proven lease or by its election
  failover p50   and p99: from the death, freeze, stop or lapse of a leader until the
                 next one led
  changes        of the leader
  msgs/election  messages and store requests for each election that was won, without
                 heartbeats and renewals
  msgs/s         all messages and store requests a second
  two leaders    for how long two led at once
  stale offered  writes that reached the resource after it had accepted one of a later
                 term; then how many of them it accepted and refused
The resource refuses a token that is less than the greatest that it has accepted. It
accepts an equal one. So stale writes get in if two terms have the same token.

The same build gives the same report, byte by byte, for any --jobs. --html writes it as a
page with plots that opens offline. --keep DIR writes the schedule of each protocol, of
FILE or of the one seed, into DIR, for electlab sim replay --story. DIR is made if it does
not exist.

Exit codes:
  64          the command line or FILE is wrong
  73          a file or stdout cannot be written
  80, 81, 82  a protocol violates safety, violates liveness, crashes; the report names
              the first seed
  130         interrupted; the report is of the runs that had ended

-o json writes one object: profile, nodes, seconds, seed, seeds, drawn, detection_ms,
interrupted, and protocols, a list of {protocol, config, silence_ms (the longest, the
column silence), leases, runs, virtual_seconds, availability, unavailable_ms, darkest
{seed, ms}, failovers, failover_p50_ms, failover_p99_ms, failover_longest_ms,
failover_quantiles [{part, ms}], elections, messages_per_election, messages, requests,
messages_per_second, leader_changes, two_leaders_ms, two_leaders_runs, two_leaders_most
{seed, ms}, writes, stale_offered, stale_accepted, stale_refused, violated_runs,
violation {seed, invariant, says}}.`

// simCompare is the command line of sim compare.
type simCompare struct {
	options    compare.Options
	names      []string
	page, keep string
	format     cli.Output
}

func newSimCompare() *cobra.Command {
	r := &simCompare{}
	cmd := &cobra.Command{
		Use:   "compare [flags] [FILE]",
		Short: "run the same faults through several protocols",
		Long:  simCompareHelp,
		Example: "  electlab sim compare --seeds 1000\n  electlab sim compare --detection 1s --html report.html\n" +
			"  electlab sim compare --protocol quorum,raft --profile partitions\n  electlab sim compare --protocol all schedule.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("%s takes one file, and %d were given; see %[1]s --help", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			return r.run(cmd, args)
		},
	}
	f, o := cmd.Flags(), &r.options
	f.StringSliceVar(&r.names, "protocol", nil, "the `PROTOCOLS`, such as quorum,raft, or all (default: "+strings.Join(compare.Default(), ",")+")")
	f.Uint64Var(&o.Seeds, "seeds", compare.DefaultSeeds, "draw `N` schedules")
	f.Uint64Var(&o.First, "seed", 1, "the first `SEED`; without --seeds the only one")
	f.IntVar(&o.Nodes, "nodes", compare.DefaultNodes, "`N` voters or candidates")
	f.StringVar(&o.Profile, "profile", compare.DefaultProfile, "the `PROFILE` of faults; electlab sim list names them")
	o.For = compare.DefaultFor
	f.Var(span{&o.For}, "for", "virtual `TIME` during which faults occur in each run")
	f.Var(span{&o.Detection}, "detection", "give each protocol a configuration that notices a silent leader after about `TIME` (default: its own)")
	f.Lookup("detection").DefValue = "" // the text says it
	f.IntVar(&o.Jobs, "jobs", runtime.GOMAXPROCS(0), "make `N` runs at a time")
	f.StringVar(&r.page, "html", "", "write the report with plots to `FILE`")
	f.StringVar(&r.keep, "keep", "", "write the schedule of each protocol, of one seed or of FILE, to `DIR`")
	r.format.Flag(f)
	return cmd
}

func (r *simCompare) run(cmd *cobra.Command, args []string) error {
	if err := r.complete(cmd, args); err != nil {
		return err
	}
	schedules, err := compare.Schedules(r.options)
	if err != nil {
		return cannotCompare(err)
	}
	if r.keep != "" {
		if err := r.keepAll(schedules); err != nil {
			return err
		}
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	var ran atomic.Uint64
	all := max(r.options.Seeds, 1) * uint64(len(schedules)) // one each of a schedule that is given
	r.options.Progress = func(_, _ uint64) { ran.Add(1) }
	var report *compare.Report
	progress(func() (uint64, uint64, string) { return ran.Load(), all, "" }).
		during(cmd.ErrOrStderr(), func() { report, err = compare.Run(ctx, r.options) })
	if err != nil {
		return cannotCompare(err)
	}
	return r.show(cmd, report)
}

// complete reads what the command line says.
func (r *simCompare) complete(cmd *cobra.Command, args []string) error {
	o := &r.options
	changed := cmd.Flags().Changed
	for _, name := range r.names {
		if name == "all" {
			if len(r.names) > 1 {
				return exit.Usagef("--protocol %s; want all, or names", strings.Join(r.names, ","))
			}
			r.names = compare.Names()
			break
		}
	}
	o.Protocols = r.names
	switch {
	case changed("protocol") && len(r.names) == 0:
		return exit.Usagef("--protocol is empty; want all, or names such as quorum,raft")
	case o.Jobs < 1 || o.Jobs > 1024:
		return exit.Usagef("--jobs is %d; want 1 to 1024", o.Jobs)
	case changed("detection") && o.Detection <= 0:
		return exit.Usagef("--detection is %v; want more than 0, such as 1s", o.Detection)
	}
	if len(args) == 1 {
		for _, flag := range []string{"seeds", "seed", "nodes", "profile", "for"} {
			if changed(flag) {
				return exit.Usagef("--%s and a file contradict each other: the schedule says it; want one of them", flag)
			}
		}
		_, s, err := readSchedule(args[0])
		if err != nil {
			return err
		}
		o.Schedule, o.Seeds, o.First, o.Nodes, o.Profile, o.For = s, 0, 0, 0, "", 0
		return nil
	}
	if changed("seed") && !changed("seeds") {
		o.Seeds = 1
	}
	switch {
	case o.Seeds == 0:
		return exit.Usagef("--seeds is 0; want 1 or more")
	case o.First == 0:
		return exit.Usagef("--seed is 0; want 1 or more")
	case o.Nodes < 1:
		return exit.Usagef("--nodes is %d; want 1 or more", o.Nodes)
	case o.For <= 0:
		return exit.Usagef("--for is %v; want more than 0, such as 60s", o.For)
	case r.keep != "" && o.Seeds > 1:
		return exit.Usagef("--keep is for one schedule, and --seeds is %d; want --seed X alone, or a file", o.Seeds)
	case o.Seeds-1 > math.MaxUint64-o.First:
		return exit.Usagef("--seed %d and --seeds %d: the greatest seed is %d; want --seeds %d at most", o.First, o.Seeds, uint64(math.MaxUint64), math.MaxUint64-o.First+1)
	}
	return nil
}

// cannotCompare says what is wrong with the command line. Here --for is how long faults go on.
func cannotCompare(err error) error {
	return exit.Usagef("%s", strings.NewReplacer("compare: ", "", "--faults", "--for").Replace(err.Error()))
}

// keepAll writes the schedules.
func (r *simCompare) keepAll(all []*sim.Schedule) error {
	if err := os.MkdirAll(r.keep, 0o777); err != nil {
		return exit.With(exit.CannotCreate, fmt.Errorf("--keep: %w; want a directory, or where one can be made", err))
	}
	for _, s := range all {
		text, err := s.Encode()
		if err != nil {
			return exit.With(exit.CannotCreate, err)
		}
		f := &sideFile{path: filepath.Join(r.keep, s.Protocol+".json")}
		_, _ = f.Write(text) // Close returns the error
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// show writes the report, wherever it is wanted.
func (r *simCompare) show(cmd *cobra.Command, report *compare.Report) error {
	var errs []error
	if report.Interrupted {
		errs = append(errs, byInterrupt())
	}
	if r.page != "" {
		f := &sideFile{path: r.page}
		errs = append(errs, unwritten(r.page, report.HTML(f)), f.Close())
	}
	out := &answer{out: cmd.OutOrStdout()}
	if r.format == "json" {
		_ = cli.WriteJSON(out, report) // out keeps the error
	} else {
		_ = report.Table(out)
	}
	return ending(cmd, codeOfReport(report), append(errs, out.err)...)
}

// codeOfReport is the exit code for what was violated: safety before all else.
func codeOfReport(report *compare.Report) int {
	code := exit.OK
	for _, l := range report.Violations() {
		switch c := codeOf(&sim.Violation{Invariant: l.Violation.Invariant}); {
		case code == exit.OK, c < code:
			code = c
		}
	}
	return code
}
