// Package failover measures takeovers: it runs real elect run candidates, kills the leader in one way or another, and
// reads from the next leader's command when its first instruction ran.
//
// Run may be called once at a time in a process. All that it started is dead when it returns; otherwise its error
// says so.
package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/internal/conditions"
)

// Kill is how a leader is brought down.
type Kill string

// The ways.
const (
	Child    Kill = "child"    // SIGKILL to the command
	Parent   Kill = "parent"   // SIGKILL to the elect run that leads
	Graceful Kill = "graceful" // asked to resign, as elect resign does
	Machine  Kill = "machine"  // SIGKILL to the elect run that leads, its keeper and the command, as if the machine had died
)

// Kills are all ways for an election with or without a lease. Without one a frozen leader leads on.
func Kills(lease bool) []Kill {
	if !lease {
		return []Kill{Child, Parent, Graceful}
	}
	return []Kill{Child, Parent, Graceful, Freeze, Machine}
}

// Config configures a Run. All fields are required, except Memory and Idle.
type Config struct {
	Election   *elect.Election // that of URL and Name, for observing and recalling
	URL, Name  string
	Shown      string   // the URL without its password
	Program    string   // this program
	Fallback   []string // the command line of stamp.Main; see stamp.Build
	Kills      []Kill
	Rounds     int // of each kill
	Candidates int // at least 2
	Memory     uint64
	Idle       time.Duration // how long to measure the idle candidates; 0: not at all
	Progress   func(format string, args ...any)
}

const (
	roundTimeout = 30 * time.Second // beside two of the longest takeovers

	// settleTime lets a candidate that has reported to stand by get there.
	settleTime = 20 * time.Millisecond
)

var standingBy = regexp.MustCompile(`standing by for `)

// bench is one Run.
type bench struct {
	cfg     Config
	cluster *cluster.Cluster
	started int
	since   map[*cluster.Candidate]int // the line from which each must have reported to stand by
	records chan stamp.Record
	broken  chan error // why the records ended

	leader *cluster.Candidate
	work   stamp.Record // of its command
}

// Run measures. The report is of use even after an error: it holds what was measured until then.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	report = newReport(&cfg)
	dir, err := os.MkdirTemp("", "elect-bench-")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(dir)
	command, err := stamp.Build(dir, cfg.Memory, cfg.Fallback)
	if err != nil {
		return report, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return report, err
	}
	b := &bench{
		cfg:   cfg,
		since: map[*cluster.Candidate]int{},
		cluster: &cluster.Cluster{
			Program: cfg.Program, Command: command, Stdout: w,
			Args: []string{"run", "--election", cfg.URL, "--name", cfg.Name, "--restart", "always"},
		},
		records: make(chan stamp.Record, 16), broken: make(chan error, 1),
	}
	go b.read(r)
	defer func() {
		b.cluster.Close()
		_ = w.Close()
		err = errors.Join(err, b.awaitDeath())
		_ = r.Close()
		report.LoadAfter = conditions.Load()
	}()
	return report, b.run(ctx, report)
}

// read distributes records until every writer of the pipe is dead.
func (b *bench) read(r io.Reader) {
	for {
		record, err := stamp.Read(r)
		if err != nil {
			b.broken <- err
			return
		}
		b.records <- record
	}
}

// awaitDeath returns when no process has the commands' output open any more.
func (b *bench) awaitDeath() error {
	late := time.After(roundTimeout)
	for {
		select {
		case <-b.records:
		case err := <-b.broken:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-late:
			return fmt.Errorf("something that was started still lives after %v", roundTimeout)
		}
	}
}

func (b *bench) run(ctx context.Context, report *Report) error {
	for range b.cfg.Candidates {
		if err := b.start(); err != nil {
			return err
		}
	}
	first, cancel := context.WithTimeout(ctx, b.limit())
	defer cancel()
	if err := b.next(first, 0); err != nil {
		return err
	}
	if b.cfg.Idle > 0 {
		b.cfg.Progress("watching %d idle candidates for %v", b.cfg.Candidates-1, b.cfg.Idle)
		idle, err := b.idle(ctx)
		if err != nil {
			return err
		}
		report.Idle = idle
	}
	took := map[Kill][]time.Duration{}
	defer func() {
		for _, kill := range b.cfg.Kills {
			report.add(kill, took[kill])
		}
	}()
	for round := range b.cfg.Rounds {
		for _, kill := range b.cfg.Kills { // they take turns, so that trouble of the machine meets all of them
			if round == 0 {
				b.cfg.Progress("%s: %d rounds", kill, b.cfg.Rounds)
			}
			d, err := b.round(ctx, kill)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", kill, round+1, err)
			}
			took[kill] = append(took[kill], d)
		}
	}
	return nil
}

// limit is how long a step may take.
func (b *bench) limit() time.Duration { return roundTimeout + 2*b.cfg.Election.Limits().Takeover }

func (b *bench) start() error {
	b.started++
	c, err := b.cluster.Start("c" + strconv.Itoa(b.started))
	if err == nil {
		b.since[c] = 0
	}
	return err
}

// round brings the leader down, and returns how long it took until another's command ran.
func (b *bench) round(ctx context.Context, kill Kill) (time.Duration, error) {
	if err := b.settle(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limit())
	defer cancel()
	old, work := b.leader, b.work.PID
	b.since[old] = old.Said()
	var err error
	before := stamp.Now()
	switch kill {
	case Child:
		err = cluster.Kill(b.work.PID)
	case Parent:
		err = old.Signal(syscall.SIGKILL)
	case Graceful:
		err = b.cfg.Election.Resign(ctx, 0)
	case Freeze, Machine:
		err = b.strikeStopped(kill)
	}
	if err != nil {
		return 0, err
	}
	if err := b.next(ctx, work); err != nil {
		return 0, err
	}
	if kill != Machine && running(work) {
		return 0, fmt.Errorf("process %d runs while process %d leads", work, b.work.PID)
	}
	took := b.work.At - before
	if kill == Freeze {
		if err := goOn(old); err != nil {
			return 0, err
		}
	}
	if kill == Parent || kill == Machine {
		delete(b.since, old)
		if err := b.start(); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// next waits for the command of another leader than before, and finds out which candidate runs it.
func (b *bench) next(ctx context.Context, before int) error {
	record, err := b.record(ctx)
	if err != nil {
		return err
	}
	if record.PID == before || record.Ready {
		return fmt.Errorf("process %d spoke twice", record.PID)
	}
	if b.cfg.Memory > 0 {
		full, err := b.record(ctx)
		if err != nil {
			return err
		}
		if full.PID != record.PID || !full.Ready {
			return fmt.Errorf("process %d started before process %d had its memory", full.PID, record.PID)
		}
	}
	b.work = record
	if runner := runnerOf(record.PID); runner != 0 { // what the store shows may be older
		for c := range b.since {
			if c.PID == runner {
				b.leader = c
				return nil
			}
		}
	}
	leader, err := b.cfg.Election.Leader(ctx)
	if err != nil {
		return fmt.Errorf("process %d runs, and no leader is known: %w", record.PID, err)
	}
	for c := range b.since {
		if c.ID == leader.ID {
			b.leader = c
			return nil
		}
	}
	return fmt.Errorf("%s leads, and is not one of the candidates", leader.ID)
}

func (b *bench) record(ctx context.Context) (stamp.Record, error) {
	select {
	case r := <-b.records:
		return r, nil
	case err := <-b.broken:
		b.broken <- err
		return stamp.Record{}, fmt.Errorf("the candidates are gone: %w", err)
	case <-ctx.Done():
		return stamp.Record{}, fmt.Errorf("no candidate took over: %w", context.Cause(ctx))
	}
}

// settle waits until all candidates but the leader stand by.
func (b *bench) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit())
	defer cancel()
	for c, from := range b.since {
		if c == b.leader {
			continue
		}
		if err := c.Await(ctx, from, standingBy); err != nil {
			return err
		}
	}
	select {
	case <-time.After(settleTime):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
