// Package steady measures the cost of an idle election among peers: CPU time, memory and messages of each node, and
// how often they elected another leader without a reason.
//
// Run may be called once at a time in a process. All that it started is dead when it returns. A leader that changed
// is an error of the [Report], not of Run.
package steady

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/localpeers"
	"github.com/electd/elect/cmd/elect/internal/probe"
	"github.com/electd/elect/internal/conditions"
	"github.com/electd/elect/peer"
)

// Config configures Run. All fields are required, except Observers and Busy.
type Config struct {
	Program   string // this program
	Node      string // its verb that runs probe.Run
	Dir       string // exists, and belongs to this run alone
	Voters    int
	Observers int
	Profile   string
	For       time.Duration
	Busy      bool // a busy loop on each core
	Progress  func(format string, args ...any)
}

const (
	// look is the interval between two checks of an election that is coming to rest.
	look = 50 * time.Millisecond

	// settle is the time after that before the measurement: the garbage collection after the nodes' start belongs to the
	// start.
	settle = 2 * time.Second

	restTimeout = time.Minute
)

// bench is one Run.
type bench struct {
	cfg     Config
	local   *localpeers.Peers
	client  *peer.Client
	plan    peer.Plan
	cluster *cluster.Cluster
	pids    map[string]int
	inputs  []*os.File

	actives atomic.Int64 // of the reported ones
	readers sync.WaitGroup
	broken  chan error
}

// Run measures.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	const name = "bench-steady"
	b := &bench{cfg: cfg, cluster: &cluster.Cluster{Program: cfg.Program}, pids: map[string]int{}, broken: make(chan error, cfg.Voters+cfg.Observers)}
	if b.local, err = localpeers.New(localpeers.Config{Dir: cfg.Dir, Profile: cfg.Profile, Voters: cfg.Voters, Observers: cfg.Observers}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.local.Close()) }()
	voters, at, err := b.local.Config()
	if err != nil {
		return nil, err
	}
	if b.plan, err = at.Plan(voters); err != nil {
		return nil, err
	}
	if b.client, err = peer.NewClient(voters, name, at); err != nil {
		return nil, err
	}
	defer b.client.Close()
	report = newReport(&cfg, b.plan)
	defer func() {
		b.cluster.Close()
		for _, in := range b.inputs {
			_ = in.Close()
		}
		b.readers.Wait()
		report.LoadAfter = conditions.Load()
	}()
	for _, id := range b.local.Voters() {
		if err := b.start(id, name); err != nil {
			return nil, err
		}
	}
	for _, id := range b.local.Observers() {
		if err := b.start(id, name, "--observe"); err != nil {
			return nil, err
		}
	}
	if err := b.rest(ctx); err != nil {
		return nil, err
	}
	return report, b.watch(ctx, report)
}

func (b *bench) start(id, name string, flags ...string) error {
	in, stdin, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	b.inputs = append(b.inputs, stdin)
	cmd := exec.Command(b.cfg.Program, append([]string{b.cfg.Node, "--election", b.local.URL(id), "--name", name, "--id", id}, flags...)...)
	cmd.Stdin = in
	c, stdout, err := b.cluster.SpawnRead(id, cmd)
	if err != nil {
		return err
	}
	b.pids[id] = c.PID
	b.readers.Go(func() {
		defer stdout.Close()
		err := probe.Read(stdout, func(r probe.Report) {
			if r.Event == probe.Active {
				b.actives.Add(1)
			}
		})
		if err == nil {
			err = fmt.Errorf("%s has ended; it said last: %q", id, c.Lines(3))
		}
		b.broken <- err
	})
	return nil
}

// rest waits until the election is idle.
func (b *bench) rest(ctx context.Context) error {
	late := time.After(restTimeout + 2*b.plan.WorstTakeover)
	for {
		_, unready := localpeers.Unready(b.client.Statuses(ctx))
		if unready == nil {
			break
		}
		select {
		case <-time.After(look):
		case err := <-b.broken:
			return err
		case <-late:
			return fmt.Errorf("the election does not come to rest: %w", unready)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return b.wait(ctx, settle)
}

func (b *bench) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case err := <-b.broken:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sight is the state of the nodes at one moment.
type sight struct {
	at      time.Time // when used was read
	seen    time.Time // when status was read
	status  map[string]*peer.NodeStatus
	used    map[string]time.Duration
	actives int64
}

func (b *bench) see(ctx context.Context) (sight, error) {
	s := sight{status: map[string]*peer.NodeStatus{}, used: map[string]time.Duration{}, actives: b.actives.Load(), seen: time.Now()}
	for _, r := range b.client.Statuses(ctx) {
		if r.Err != nil {
			return s, fmt.Errorf("%s does not answer: %w", r.Peer.ID, r.Err)
		}
		s.status[string(r.Peer.ID)] = r.Status
	}
	return s, nil
}

// clock reads the CPU clocks: after the requests at the beginning, and before them at the end, so that the figures do
// not include the requests.
func (b *bench) clock(s *sight) error {
	s.at = time.Now()
	for id, pid := range b.pids {
		used, err := conditions.CPUTime(pid)
		if err != nil {
			return err
		}
		s.used[id] = used
	}
	return nil
}

func (b *bench) watch(ctx context.Context, report *Report) error {
	if b.cfg.Busy {
		b.cfg.Progress("a busy loop on each of %d cores", runtime.NumCPU())
		defer burn(runtime.NumCPU())()
	}
	before, err := b.see(ctx)
	if err != nil {
		return err
	}
	if err := b.wait(ctx, settle); err != nil { // until the connections of the requests are closed
		return err
	}
	if err := b.clock(&before); err != nil {
		return err
	}
	b.cfg.Progress("watching %d voters and %d observers for %v", b.cfg.Voters, b.cfg.Observers, b.cfg.For)
	if err := b.wait(ctx, b.cfg.For); err != nil {
		return err
	}
	after := sight{used: map[string]time.Duration{}}
	if err := b.clock(&after); err != nil {
		return err
	}
	memory := map[string]conditions.Memory{}
	for id, pid := range b.pids {
		if memory[id], err = conditions.MemoryOf(pid); err != nil {
			return err
		}
	}
	asked, err := b.see(ctx)
	if err != nil {
		return err
	}
	after.seen, after.status, after.actives = asked.seen, asked.status, asked.actives
	for _, id := range b.local.IDs() {
		report.add(id, &before, &after, memory[id])
	}
	report.sum(&before, &after)
	return nil
}

// burn runs n busy loops until the returned function is called.
func burn(n int) (stop func()) {
	var over atomic.Bool
	var work sync.WaitGroup
	for range n {
		work.Go(func() {
			runtime.LockOSThread()
			for !over.Load() {
			}
		})
	}
	return func() {
		over.Store(true)
		work.Wait()
	}
}
