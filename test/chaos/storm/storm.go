//go:build linux

package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/skew"
)

// Options describe a storm.
type Options struct {
	Seed    uint64        // of the schedule; the same seed gives the same one on computers with the same abilities
	For     time.Duration // how long faults go on; 0: a minute
	Setup   string        // a name of [Setups]; "": peers-lan
	Network string        // "namespaces" or "proxies"; "": the first of these that is available
	Dir     string        // of the run; it is created, or must be empty, and is kept

	// Programs have been built with the tag chaos. If empty, they are built, and so is Next.
	Programs cluster.Programs
	Next     *cluster.Programs // another version, to upgrade to and downgrade from; nil: no such fault

	// Faults are the names of the faults to draw from; empty: all that are available and within the
	// promises.
	Faults []string

	// Mutant, if not empty, is the rule that the nodes break (ELECT_MUTANT).
	// Programs must have been built with the tag mutants, too.
	Mutant string

	// GoOn continues the storm after a broken promise. Otherwise it ends then, so that the flight
	// recorders still have the cause.
	GoOn bool

	// Schedule, if not nil, is carried out instead of a drawn one. Its Seed, For, Setup, Network
	// and Faults apply then.
	Schedule *Schedule

	// Step, if not nil, is called for each step before the faults begin.
	Step func(what string)

	// Progress, if not nil, is called every 10 s, and at the end.
	Progress func(Progress)
}

// The files of a storm in the directory of its run, in addition to those of the packages that it
// uses.
const (
	ScheduleFile = "schedule.json"
	ReportFile   = "report.html"
)

const (
	checkLive  = judge.CheckLive  // what should have happened did not
	checkWatch = judge.CheckWatch // watchers go on

	interval = 10 * time.Second // of progress
	calmTime = 60 * time.Second // until all is as it should be, at the beginning and at the end
	lastLook = 3 * time.Second  // time for watchers to see the leader at the end

	seenWithin = 10 // promises within which watchers must have seen a leader
)

// ErrNothing is returned for a storm that ended before its first fault, when there was nothing to
// judge.
var ErrNothing = errors.New("storm: it was ended before anything could be judged")

// Run runs a storm over an election, and returns the judge's report. When ctx ends, the faults are
// undone, what exists so far is judged, and the error is that of ctx with a valid report. Before
// the first fault the error is also ErrNothing, and there is no report. Any other error means that
// the harness failed, and the report is not valid.
func Run(ctx context.Context, o Options) (judge.Report, error) {
	err := Check(o)
	if err != nil {
		return judge.Report{}, err
	}
	o.For, o.Setup = cmp.Or(o.For, time.Minute), cmp.Or(o.Setup, "peers-lan")
	if o.Dir, err = prepare(o.Dir); err != nil {
		return judge.Report{}, err
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	// Before faults begin there is nothing to judge.
	early := func(err error) error {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrNothing, ctx.Err())
		}
		return err
	}
	if o.Programs == (cluster.Programs{}) {
		o.Step("building the programs")
		if o.Programs, o.Next, err = Build(ctx, filepath.Join(o.Dir, "bin"), o.Mutant != ""); err != nil {
			return judge.Report{}, early(err)
		}
	}
	o.Step("making networks and disks")
	s, net, err := plan(o)
	if err != nil {
		return judge.Report{}, err
	}
	if err := s.Save(filepath.Join(o.Dir, ScheduleFile)); err != nil {
		return judge.Report{}, errors.Join(err, closeNetwork(net))
	}
	r, err := setUp(sources{dir: o.Dir, plan: s, net: net, programs: o.Programs, next: o.Next, mutant: o.Mutant})
	if err != nil {
		return judge.Report{}, fmt.Errorf("storm: %w", err)
	}
	err = r.run(ctx, o)
	ended := r.ended
	if down := r.tearDown(); err != nil || down != nil {
		if down == nil && errors.Is(err, ErrNothing) {
			return judge.Report{}, err
		}
		return judge.Report{}, fmt.Errorf("storm: %w", errors.Join(err, down))
	}
	report, err := judge.Judge(o.Dir, options(s))
	if err != nil {
		return judge.Report{}, fmt.Errorf("storm: %w", err)
	}
	if err := unfounded(ended, &report); err != nil {
		return judge.Report{}, fmt.Errorf("storm: %w", err)
	}
	if err := report.WriteHTML(filepath.Join(o.Dir, ReportFile)); err != nil {
		return judge.Report{}, fmt.Errorf("storm: %w", err)
	}
	return report, ctx.Err()
}

// Check returns an error if options are invalid, before anything is made.
func Check(o Options) error {
	set, err := setup(cmp.Or(o.Setup, "peers-lan"))
	if err != nil {
		return err
	}
	if o.For != 0 && o.For < 10*set.Promise {
		return fmt.Errorf("storm: faults for %v; want at least 10 promises, %v", o.For, 10*set.Promise)
	}
	if o.Network != "" && o.Network != string(Namespaces) && o.Network != string(Proxies) {
		return fmt.Errorf("storm: there is no network %q; want %s or %s", o.Network, Namespaces, Proxies)
	}
	for _, name := range o.Faults {
		f, ok := faultNamed(name)
		if !ok {
			return fmt.Errorf("storm: there is no fault %q; want one of those that --list gives", name)
		}
		if f.peersOnly && set.File {
			return fmt.Errorf("storm: the fault %s needs an election among peers", name)
		}
	}
	return nil
}

// Judge judges the storm in dir again.
func Judge(dir string) (judge.Report, error) {
	s, err := Load(filepath.Join(dir, ScheduleFile))
	if err != nil {
		return judge.Report{}, err
	}
	return judge.Judge(dir, options(s))
}

// Build builds the programs of a storm into dir, and those of the next version of the wire format.
// Only programs built with mutants can break a rule, and those have no next version.
func Build(ctx context.Context, dir string, mutants bool) (cluster.Programs, *cluster.Programs, error) {
	if mutants {
		programs, err := cluster.Build(ctx, filepath.Join(dir, "mutants"), "chaos", "mutants")
		return programs, nil, err
	}
	programs, err1 := cluster.Build(ctx, filepath.Join(dir, "this"), "chaos")
	next, err2 := cluster.Build(ctx, filepath.Join(dir, "next"), "chaos", "chaosnext")
	return programs, &next, errors.Join(err1, err2)
}

// prepare makes the directory of a run.
func prepare(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("storm: want a directory for the run")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "bin" }) {
		err = fmt.Errorf("storm: %s is not empty", dir)
	}
	return dir, err
}

// plan determines the available abilities, and makes the schedule and its network.
func plan(o Options) (*Schedule, network.Network, error) {
	kind := o.Network
	if o.Schedule != nil {
		o.Setup, o.Seed, kind = o.Schedule.Setup, o.Schedule.Seed, o.Schedule.Network
		if err := o.Schedule.check(); err != nil {
			return nil, nil, fmt.Errorf("storm: %w", err)
		}
	}
	set, err := setup(o.Setup)
	if err != nil {
		return nil, nil, err
	}
	var net network.Network
	if !set.File {
		_, size := crowd(o.Seed, set)
		if o.Schedule != nil {
			size = o.Schedule.Size
		}
		if net, err = makeNetwork(o.Dir, kind, size); err != nil {
			return nil, nil, err
		}
		kind = string(Proxies)
		if net.Can(network.Link{Delay: time.Millisecond}) != nil {
			kind = string(Namespaces)
		}
	}
	abilities := look(o, set, kind)
	s := o.Schedule
	if s == nil {
		s, err = Draw(Plan{Seed: o.Seed, For: o.For, Setup: o.Setup, Network: kind, Abilities: abilities, Faults: o.Faults})
	} else {
		var lacks []string
		for _, a := range s.Abilities {
			if !slices.Contains(abilities, a) {
				lacks = append(lacks, string(a))
			}
		}
		if len(lacks) > 0 {
			err = fmt.Errorf("storm: the schedule was drawn for a machine with %s, which this one cannot do", strings.Join(lacks, ", "))
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeNetwork(net))
	}
	return s, net, nil
}

func closeNetwork(net network.Network) error {
	if net == nil {
		return nil
	}
	return net.Close()
}

// makeNetwork makes a network of a kind, or of the first that is available.
func makeNetwork(dir, kind string, n int) (network.Network, error) {
	dir = filepath.Join(dir, "network")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	switch kind {
	case string(Namespaces):
		return network.NewNamespaces(dir, n)
	case string(Proxies):
		return network.NewProxies(dir, n)
	case "":
		net, err := network.NewNamespaces(dir, n)
		if errors.Is(err, network.ErrUnable) {
			return network.NewProxies(dir, n)
		}
		return net, err
	}
	return nil, fmt.Errorf("storm: there is no network %q", kind)
}

// look determines what this computer can do.
func look(o Options, set Setup, kind string) []Ability {
	var can []Ability
	if kind != "" {
		can = append(can, Ability(kind), Clocks)
	}
	try := filepath.Join(o.Dir, "try")
	if !set.File {
		if d, err := disk.NewFUSE(try); err == nil {
			_ = d.Close() // the next one says what is wrong
			can = append(can, FUSE, Filling)
		}
	}
	if !slices.Contains(can, FUSE) {
		if d, err := disk.NewTmpfs(try, smallDisk); err == nil {
			_ = d.Close()
			can = append(can, Filling)
		}
	}
	_ = os.RemoveAll(try) // an empty directory, if it is still there
	if skew.Able() == nil && !set.File {
		can = append(can, Zones)
	}
	if cluster.Quota() == nil {
		can = append(can, Quota)
	}
	if o.Next != nil && !set.File {
		can = append(can, Next)
	}
	return can
}

// options are how strictly a storm is judged. A node counts as well again when its process has run
// for a promise: a program starts within that, and what its boot residual costs beyond is the
// election's own. Watchers are as quick as the election.
func options(s *Schedule) judge.Options {
	return judge.Options{Boot: s.Promise, Promise: s.Promise, Seen: seenWithin * s.Promise}
}

// errBroken ends a storm with a broken promise.
var errBroken = errors.New("a promise was broken")

// run starts the nodes, carries out the faults, and waits until all is well again. It records
// promises that it saw broken itself. An early end is an error, unless a promise was broken or ctx
// has ended.
func (r *rig) run(ctx context.Context, o Options) error {
	s := r.plan
	var all []int
	for i := range s.Voters {
		all = append(all, i)
	}
	begin := judge.Event{Kind: judge.Run, Node: judge.NoNode, Nodes: s.Size, Voters: all, Wall: time.Now(),
		Text: fmt.Sprintf("%s %s, seed %d", s.Setup, s.Network, s.Seed), Material: []string{judge.Writes, judge.Watches}}
	if r.net == nil {
		begin.Majority = 1
	} else {
		begin.Material = append(begin.Material, judge.Flights, judge.Leases)
	}
	r.history.Add(begin)
	r.clocksAre()
	o.Step("starting the nodes")
	for _, i := range all {
		if err := r.cluster.Start(i); err != nil {
			return err
		}
	}
	o.Step("waiting for the first leader")
	calm, cancel := context.WithTimeout(ctx, calmTime)
	_, err := r.cluster.Calm(calm)
	cancel()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrNothing, ctx.Err())
	case err != nil:
		return fmt.Errorf("before anything was broken: %w", err)
	}
	w, err := r.watch()
	if err != nil {
		return err
	}
	o.Step("the faults begin")
	x, err := newExecutor(s, r.target())
	if err != nil {
		return err
	}
	storm, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var beside sync.WaitGroup
	looking, enough := context.WithCancel(context.WithoutCancel(ctx))
	beside.Go(func() { r.pulse(looking) })
	beside.Go(func() { r.sample(looking) })
	if r.net != nil {
		beside.Go(func() { r.record(looking) })
	}
	beside.Go(func() { r.report(looking, o, x, stop) })
	err = x.run(storm)
	if err == nil {
		x.settle(clusterProcesses{r.cluster}, r.net != nil)
	}
	enough()
	beside.Wait()
	var failed error
	r.ended, failed = untimely(ctx, storm)
	err = errors.Join(err, failed)
	if ctx.Err() == nil && r.ended == nil {
		err = errors.Join(err, x.idle())
	}
	for _, lost := range w.end() {
		x.complain(checkWatch, "%s", lost)
	}
	r.history.Add(judge.Event{Kind: judge.Over, Node: judge.NoNode})
	return err
}

// untimely is why a storm ended early, unless ctx has ended: ended is set in any case, and failed
// if the reason is not a broken promise.
func untimely(ctx, storm context.Context) (ended, failed error) {
	if ctx.Err() != nil {
		return nil, nil
	}
	ended = context.Cause(storm)
	if errors.Is(ended, errBroken) {
		return ended, nil
	}
	return ended, ended
}

// idle is the error of a storm in which none of the planned faults was possible.
func (x *executor) idle() error {
	if begun, left := x.total(); begun == 0 && left > 0 {
		return fmt.Errorf("none of the %d faults of the schedule could be had; want more time, or other faults", left)
	}
	return nil
}

// unfounded is the error of a storm that ended early because a promise seemed broken, of which the
// judge finds nothing in the whole run. It did not last as long as planned, and so says too little.
func unfounded(ended error, report *judge.Report) error {
	if ended == nil || !report.OK() {
		return nil
	}
	return fmt.Errorf("it ended before its time, and in all of it the judge finds nothing: %w", ended)
}

// settled tells whether everything is as it was.
type settled interface {
	Calm(ctx context.Context) (cluster.Leader, error)
	Members(ctx context.Context) (*cluster.Members, error)
}

// settle waits until everything is as it was before the faults, and stays so, and tells the judge
// the leader. Among peers the voters must be those of the beginning, too.
func (x *executor) settle(all settled, peers bool) {
	ctx, cancel := context.WithTimeout(context.Background(), calmTime)
	defer cancel()
	began := time.Now()
	var why error
	for {
		l, err := all.Calm(ctx)
		if err != nil {
			x.complain(checkLive, "all faults have been undone for %v, and: %v", calmTime, cmp.Or(why, err))
			return
		}
		at := x.now()
		took := time.Since(began).Round(time.Millisecond)
		sleep(ctx, lastLook)
		again, err := all.Calm(ctx)
		if err != nil || again.Token != l.Token {
			continue
		}
		if peers {
			if why = x.electorate(ctx, all); why != nil {
				continue
			}
		}
		x.note(judge.Event{Kind: judge.Note, Node: judge.NoNode, Text: fmt.Sprintf("calm after %v", took)})
		x.note(judge.Event{At: at, Kind: judge.Final, Node: l.Node, Token: l.Token})
		return
	}
}

// electorate returns an error if the voters differ: a fault that took a vote must have given it
// back.
func (x *executor) electorate(ctx context.Context, all settled) error {
	m, err := all.Members(ctx)
	switch {
	case err != nil:
		return err
	case m.Membership == nil:
		return errors.New("no node tells its voters")
	}
	var have, want []string
	for _, v := range m.Membership.Voters {
		have = append(have, v.ID)
	}
	x.mu.Lock()
	for i, votes := range x.voters {
		if votes {
			want = append(want, x.processes.ID(i))
		}
	}
	x.mu.Unlock()
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		return fmt.Errorf("the voters are %s; want %s", strings.Join(have, " "), strings.Join(want, " "))
	}
	return nil
}

// report reports progress until ctx ends, and stops the storm when a promise was broken.
func (r *rig) report(ctx context.Context, o Options, x *executor, stop context.CancelCauseFunc) {
	began := time.Now()
	for wait := interval; ; {
		over := !sleep(ctx, wait)
		looked := time.Now()
		p := Progress{Elapsed: time.Since(began), Now: x.going()}
		p.Faults, p.LeftOut = x.total()
		quick := options(r.plan)
		quick.Quick = true
		report, err := judge.Judge(r.dir, quick)
		if err == nil && !report.OK() && !over {
			// What excuses it may not have been recorded yet.
			sleep(ctx, time.Second)
			report, err = judge.Judge(r.dir, quick)
		}
		if err != nil {
			stop(fmt.Errorf("the judge, while it went on: %w", err))
			p.Now = append(p.Now, "the judge: "+err.Error())
		}
		p.Elections, p.Changes, p.Availability, p.Longest = report.Elections, report.LeaderChanges, report.AvailabilityHealthy, report.Longest
		p.Violations = report.All()
		if o.Progress != nil {
			o.Progress(p)
		}
		if over {
			return
		}
		if p.Violations > 0 && !o.GoOn {
			stop(fmt.Errorf("%w, after %v: %s", errBroken, time.Since(began).Round(time.Millisecond), first(report.Violations)))
		}
		// A long history takes a while to judge.
		wait = max(interval-time.Since(looked), 9*time.Since(looked), time.Second)
	}
}

// first describes the first violation.
func first(all []judge.Violation) string {
	return all[0].Check + ": " + all[0].Text
}

// Progress is the state of a storm.
type Progress struct {
	Elapsed      time.Duration
	Faults       int           // begun so far
	LeftOut      int           // faults that were not possible when they should have begun
	Elections    int           // terms that were won
	Changes      int           // of the leader
	Availability float64       // the part with a leader of the time in which a majority was connected and well; 0 to 1
	Longest      time.Duration // without a leader while a majority was connected and well
	Violations   int
	Now          []string // faults in progress
}

// String is one line.
func (p Progress) String() string {
	now := "nothing"
	if len(p.Now) > 0 {
		now = strings.Join(p.Now, ", ")
	}
	return fmt.Sprintf("%7s  %d faults, %d elections, %d leader changes, led %.2f %%, longest without %v, %d violations; now %s",
		p.Elapsed.Round(time.Second), p.Faults, p.Elections, p.Changes, 100*p.Availability, p.Longest.Round(time.Millisecond), p.Violations, now)
}
