//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/groups"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/storm"
)

// The exit codes.
const (
	codeClean       = 0
	codeBroken      = 1
	codeUsage       = 64
	codeHarness     = 70
	codeInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one does not wait
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// flags are the command line.
type flags struct {
	options storm.Options
	faults  string
	keep    bool
	list    bool
	judge   string
	given   []string // the names of those that were given
}

// wrong returns what is wrong with the command line, before anything else is checked.
func (f *flags) wrong(schedule bool) error {
	has := func(name string) bool { return slices.Contains(f.given, name) }
	if schedule {
		for _, name := range []string{"for", "seed", "setup", "network", "faults"} {
			if has(name) {
				return fmt.Errorf("%s and a schedule: it has its own; want one of the two, or cut the schedule down by hand", strings.ToUpper(name))
			}
		}
	}
	switch names := slices.Concat(mutation.Names(), mutation.OfGroups(), []string{mutation.EarlyWord}); {
	case has("for") && f.options.For <= 0:
		return fmt.Errorf("faults for %v; want a time above 0, such as 60s", f.options.For)
	case has("faults") && len(f.options.Faults) == 0:
		return fmt.Errorf("no fault in %q; want names, separated by commas, as --list gives them", f.faults)
	case has("network") && f.options.Setup == "file":
		return fmt.Errorf("NETWORK %s and SETUP file: an election in a file has no network; want one of the two", f.options.Network)
	case f.options.Mutant != "" && !slices.Contains(names, f.options.Mutant):
		return fmt.Errorf("there is no mutant %q; want one of %s", f.options.Mutant, strings.Join(names, ", "))
	}
	return nil
}

// span is a flag's time.
type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want a time such as 60s")
	}
	*s = span(d)
	return nil
}

func parse(args []string, stderr io.Writer) (*flags, []string, error) {
	f := &flags{}
	set := flag.NewFlagSet("run", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Uint64Var(&f.options.Seed, "seed", 0, "of the schedule; 0: drawn, and said")
	f.options.For = time.Minute
	set.Var((*span)(&f.options.For), "for", "how `long` faults go on")
	set.StringVar(&f.options.Setup, "setup", "peers-lan", "peers-fast, peers-lan, file, group-peers or group-file")
	set.StringVar(&f.options.Network, "network", "", "namespaces or proxies; none: the first of these that can be had")
	set.StringVar(&f.options.Dir, "dir", "", "directory of the run; none: a temporary one")
	set.StringVar(&f.faults, "faults", "", "names of the faults that may come, separated by commas; none: all that the promises cover")
	set.StringVar(&f.options.Mutant, "mutant", "", "a rule that the nodes are to break, to see it found")
	set.BoolVar(&f.options.GoOn, "go-on", false, "go on after a promise was broken")
	set.BoolVar(&f.keep, "keep", false, "keep the directory in any case")
	set.BoolVar(&f.list, "list", false, "list the faults and the setups")
	set.StringVar(&f.judge, "judge", "", "judge the run in this directory again")
	if err := set.Parse(args); err != nil {
		return nil, nil, err
	}
	for name := range strings.SplitSeq(f.faults, ",") {
		if name = strings.TrimSpace(name); name != "" {
			f.options.Faults = append(f.options.Faults, name)
		}
	}
	set.Visit(func(g *flag.Flag) { f.given = append(f.given, g.Name) })
	return f, set.Args(), nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f, rest, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return codeClean
	case err != nil:
		return codeUsage
	case len(rest) > 1 || len(rest) == 1 && (f.list || f.judge != ""):
		fmt.Fprintf(stderr, "run: want at most one schedule, and have %q\n", rest)
		return codeUsage
	case f.list:
		list(stdout)
		return codeClean
	case f.judge != "":
		return again(f.judge, stdout, stderr)
	}
	if err := f.wrong(len(rest) == 1); err != nil {
		fmt.Fprintln(stderr, "run:", err)
		return codeUsage
	}
	o := f.options
	if strings.HasPrefix(o.Setup, "group-") {
		if o.Network != "" {
			fmt.Fprintf(stderr, "run: NETWORK %s and SETUP %s: members of a group are joined by proxies; want no NETWORK\n", o.Network, o.Setup)
			return codeUsage
		}
		return group(ctx, o, f.keep, stdout, stderr)
	}
	if len(rest) == 1 {
		if o.Schedule, err = storm.Load(rest[0]); err != nil {
			fmt.Fprintln(stderr, "run:", err)
			return codeUsage
		}
		o.Seed, o.For, o.Setup, o.Network = o.Schedule.Seed, o.Schedule.For, o.Schedule.Setup, o.Schedule.Network
	}
	if err := storm.Check(o); err != nil {
		fmt.Fprintln(stderr, "run:", err)
		return codeUsage
	}
	for o.Seed == 0 && o.Schedule == nil {
		o.Seed = uint64(rand.Uint32())
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "elect-chaos-"); err != nil {
			fmt.Fprintln(stderr, "run:", err)
			return codeHarness
		}
	}
	if o.Schedule != nil {
		return storms(ctx, o, rest[0], f.keep, stdout, stderr)
	}
	return storms(ctx, o, "", f.keep, stdout, stderr)
}

// storms runs the storm, and reports it. Schedule is the file of the given one; "" if it is drawn.
func storms(ctx context.Context, o storm.Options, schedule string, keep bool, stdout, stderr io.Writer) int {
	fmt.Fprintf(stdout, "%s, seed %d, for %v, in %s; %s\n", o.Setup, o.Seed, o.For, o.Dir, load())
	fmt.Fprintf(stdout, "again: %s\n", command(o, schedule))
	o.Progress = func(p storm.Progress) { fmt.Fprintln(stdout, p) }
	o.Step = func(what string) { fmt.Fprintln(stdout, what+"…") }
	report, err := storm.Run(ctx, o)
	interrupted := err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())
	if interrupted && errors.Is(err, storm.ErrNothing) {
		fmt.Fprintf(stdout, "interrupted before the first leader, and before any fault: nothing was judged\n")
		return leave(o.Dir, keep, codeInterrupted, stdout, stderr)
	}
	if err != nil && !interrupted {
		fmt.Fprintf(stderr, "run: %v\nthe harness failed, and so nothing is known; see %s\n", err, o.Dir)
		return codeHarness
	}
	if err := report.WriteText(stdout); err != nil {
		fmt.Fprintln(stderr, "run:", err)
		return codeHarness
	}
	overdue(stdout, &report, promise(o))
	fmt.Fprintln(stdout, load())
	if !report.OK() {
		if schedule != "" {
			schedule = filepath.Join(o.Dir, storm.ScheduleFile) // which is kept with the rest
		}
		fmt.Fprintf(stdout, "PROMISES WERE BROKEN\nthe run is kept in   %s\nto look at           %s\nto judge it again    go run ./test/chaos/run --judge %s\nto have it again     %s\n",
			o.Dir, filepath.Join(o.Dir, storm.ReportFile), o.Dir, command(o, schedule))
		return codeBroken
	}
	if keep {
		fmt.Fprintf(stdout, "to look at: %s\n", filepath.Join(o.Dir, storm.ReportFile))
	}
	if interrupted {
		return leave(o.Dir, keep, codeInterrupted, stdout, stderr)
	}
	return leave(o.Dir, keep, codeClean, stdout, stderr)
}

// group runs the storm of a group, and reports it.
func group(ctx context.Context, o storm.Options, keep bool, stdout, stderr io.Writer) int {
	if err := groups.Check(o.Setup, o.Faults); err != nil {
		fmt.Fprintln(stderr, "run:", err)
		return codeUsage
	}
	for o.Seed == 0 {
		o.Seed = uint64(rand.Uint32())
	}
	dir := o.Dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "elect-chaos-"); err != nil {
			fmt.Fprintln(stderr, "run:", err)
			return codeHarness
		}
	}
	fmt.Fprintf(stdout, "%s, seed %d, for %v, in %s; %s\nagain: %s\n", o.Setup, o.Seed, o.For, dir, load(), command(o, ""))
	var tags []string
	if o.Mutant != "" {
		tags = append(tags, "mutants")
	}
	programs, err := cluster.Build(ctx, filepath.Join(dir, "bin"), tags...)
	var report *groups.Report
	if err == nil {
		report, err = groups.Run(ctx, groups.Options{
			Setup: o.Setup, Seed: o.Seed, For: o.For, Faults: o.Faults, Mutant: o.Mutant, Worker: programs.Worker, Dir: dir,
			Progress: func(text string) { fmt.Fprintln(stdout, text) },
		})
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stdout, "interrupted: nothing was judged")
		return leave(dir, keep, codeInterrupted, stdout, stderr)
	case err != nil:
		fmt.Fprintf(stderr, "run: %v\nthe harness failed, and so nothing is known; see %s\n", err, dir)
		return codeHarness
	}
	fmt.Fprintf(stdout, "%v%s\n", report, load())
	if len(report.Violations) > 0 {
		fmt.Fprintf(stdout, "PROMISES WERE BROKEN\nthe run is kept in   %s\nto judge it again    go run ./test/chaos/run --judge %s\n", dir, dir)
		return codeBroken
	}
	return leave(dir, keep, codeClean, stdout, stderr)
}

// leave removes the directory of a run, unless it is kept, and returns the exit code.
func leave(dir string, keep bool, code int, stdout, stderr io.Writer) int {
	if keep {
		fmt.Fprintf(stdout, "the run is kept in %s\n", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(stderr, "run:", err)
		return codeHarness
	}
	return code
}

// command repeats a storm: a drawn one by its seed and its options, and a given one by its
// schedule, which no seed may give.
func command(o storm.Options, schedule string) string {
	words := []string{"make chaos"}
	add := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+value)
		}
	}
	add("SCHEDULE", schedule)
	if schedule == "" {
		add("SEED", fmt.Sprint(o.Seed))
		add("FOR", o.For.String())
		add("SETUP", o.Setup)
		add("NETWORK", o.Network)
		add("FAULTS", strings.Join(o.Faults, ","))
	}
	add("MUTANT", o.Mutant)
	return strings.Join(words, " ")
}

// promise is the promise of a storm's election.
func promise(o storm.Options) time.Duration {
	if o.Schedule != nil {
		return o.Schedule.Promise
	}
	for _, s := range storm.Setups() {
		if s.Name == o.Setup {
			return s.Promise
		}
	}
	return 0
}

// overdue lists each time without a leader for more than three promises, while a majority was
// connected and well, with the faults in progress.
func overdue(w io.Writer, report *judge.Report, promise time.Duration) {
	const most = 3
	var all []string
	for _, l := range report.Leaderless {
		if l.Length > most*promise {
			all = append(all, fmt.Sprintf("  at %v: %v\n", time.Duration(l.From-report.From).Round(time.Millisecond), l))
		}
	}
	fmt.Fprintf(w, "overdue       %d times without a leader for more than %d promises, %v, while a majority was connected and well\n%s", len(all), most, most*promise, strings.Join(all, ""))
}

// again judges a kept run.
func again(dir string, stdout, stderr io.Writer) int {
	if _, err := os.Stat(filepath.Join(dir, groups.FaultsFile)); err == nil {
		report, err := groups.Judge(dir)
		if err != nil {
			fmt.Fprintln(stderr, "run:", err)
			return codeHarness
		}
		fmt.Fprint(stdout, report)
		if len(report.Violations) > 0 {
			return codeBroken
		}
		return codeClean
	}
	report, err := storm.Judge(dir)
	if err == nil {
		err = cmp.Or(report.WriteText(stdout), report.WriteHTML(filepath.Join(dir, storm.ReportFile)))
	}
	if err == nil {
		var s *storm.Schedule
		if s, err = storm.Load(filepath.Join(dir, storm.ScheduleFile)); err == nil {
			overdue(stdout, &report, s.Promise)
		}
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "run:", err)
		return codeHarness
	case !report.OK():
		return codeBroken
	}
	return codeClean
}

// list lists the faults and the setups.
func list(w io.Writer) {
	fmt.Fprintln(w, "setups:")
	for _, s := range storm.Setups() {
		fmt.Fprintf(w, "  %-22s %s\n", s.Name, s.Text)
	}
	for _, s := range groups.Setups() {
		fmt.Fprintf(w, "  %-22s %s\n", s.Name, s.Text)
	}
	fmt.Fprintln(w, "faults:")
	for _, f := range storm.Faults() {
		var notes []string
		for _, n := range f.Needs {
			notes = append(notes, "needs "+string(n))
		}
		if f.Peers {
			notes = append(notes, "peers only")
		}
		if f.Asked {
			notes = append(notes, "only if asked for")
		}
		text := f.Text
		if len(notes) > 0 {
			text += " (" + strings.Join(notes, "; ") + ")"
		}
		fmt.Fprintf(w, "  %-22s %s\n", f.Name, text)
	}
	fmt.Fprintln(w, "faults of groups:")
	for _, f := range groups.Faults() {
		fmt.Fprintf(w, "  %-22s %s\n", f.Name, f.Text)
	}
}

// load is the load of the machine, without which figures mean little.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load not known"
	}
	return "load " + strings.Join(strings.Fields(string(text))[:3], " ")
}
