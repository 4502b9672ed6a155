//go:build linux

package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/register"
	"github.com/electd/elect/test/chaos/skew"
)

// smallDisk is the size of a disk that is filled.
const smallDisk = 16 << 20

// rig is what a storm needs in addition to its schedule: made by setUp, removed by tearDown.
type rig struct {
	dir      string
	plan     *Schedule
	history  *judge.History
	ledger   *lives.Ledger
	net      network.Network // nil: none
	disks    []disk.Disk     // by node; of the setup file one, for all
	clocks   []*skew.Clock   // by node; nil: none
	register *register.Server
	cluster  *cluster.Cluster
	worker   string
	elect    string

	copies []*flightCopies // by node

	mu    sync.Mutex
	burns int

	ended error // why the storm ended early, such as a broken promise; nil: it did not
}

// sources is the input of setUp.
type sources struct {
	dir      string
	plan     *Schedule
	net      network.Network // made before; it belongs to the rig from now on
	programs cluster.Programs
	next     *cluster.Programs
	mutant   string
}

// setUp makes everything and starts nothing. After an error it removes what was made.
func setUp(src sources) (r *rig, err error) {
	s := src.plan
	r = &rig{dir: src.dir, plan: s, net: src.net, worker: src.programs.Worker, elect: src.programs.Elect}
	for i := range s.Size {
		r.copies = append(r.copies, newFlightCopies(src.dir, i))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.tearDown())
			r = nil
		}
	}()
	set, err := setup(s.Setup)
	if err != nil {
		return r, err
	}
	if r.history, err = judge.NewHistory(r.dir); err != nil {
		return r, err
	}
	if r.ledger, err = lives.Open(filepath.Join(r.dir, judge.LedgerFile)); err != nil {
		return r, err
	}
	if err := r.makeDisks(set); err != nil {
		return r, err
	}
	if r.register, err = register.Serve(filepath.Join(r.dir, register.Socket)); err != nil {
		return r, err
	}
	cfg := cluster.Config{
		Dir: r.dir, Network: r.net, Programs: src.programs, Next: src.next, Voters: s.Voters, Size: s.Size,
		Kind: func(i int) cluster.Kind { return kindNamed(s.Nodes[i].Kind) }, Observe: r.history.Add,
	}
	if set.File {
		cfg.Election = cluster.File
	} else {
		cfg.Profile, cfg.Promise, cfg.Heartbeat = set.Profile, s.Promise, s.Heartbeat
		cfg.Disk = func(i int) disk.Disk { return r.disks[i] }
		cfg.Namespace = func(i int) (time.Duration, time.Duration) { return s.Nodes[i].Boot, s.Nodes[i].Mono }
	}
	if s.has(Clocks) && !set.File {
		if err := os.Mkdir(filepath.Join(r.dir, "clock"), 0o755); err != nil {
			return r, err
		}
		for i, n := range s.Nodes {
			c, err := skew.New(filepath.Join(r.dir, "clock", "n"+strconv.Itoa(i+1)))
			if err != nil {
				return r, err
			}
			c.Rate(1 + float64(n.Rate)/1e6)
			r.clocks = append(r.clocks, c)
		}
		cfg.Clock = func(i int) *skew.Clock { return r.clocks[i] }
	}
	if src.mutant != "" {
		cfg.Env = func(int) []string { return []string{"ELECT_MUTANT=" + src.mutant} }
	}
	r.cluster, err = cluster.New(cfg)
	return r, err
}

// makeDisks makes a disk for each node, or one for an election in a file: of the most capable kind.
func (r *rig) makeDisks(set Setup) error {
	make := func(dir string) (disk.Disk, error) {
		switch {
		case r.plan.has(FUSE) && !set.File:
			return disk.NewFUSE(dir)
		case r.plan.has(Filling):
			return disk.NewTmpfs(dir, smallDisk)
		}
		return disk.NewPlain(dir)
	}
	if set.File {
		d, err := make(filepath.Join(r.dir, "elections"))
		if err == nil {
			r.disks = append(r.disks, d)
		}
		return err
	}
	if err := os.MkdirAll(filepath.Join(r.dir, "data"), 0o755); err != nil {
		return err
	}
	for i := range r.plan.Size {
		d, err := make(filepath.Join(r.dir, "data", "n"+strconv.Itoa(i+1)))
		if err != nil {
			return err
		}
		r.disks = append(r.disks, d)
	}
	return nil
}

// kindNamed is the kind with that name in schedules.
func kindNamed(name string) cluster.Kind {
	for _, k := range []cluster.Kind{cluster.Library, cluster.Guarded} {
		if k.String() == name {
			return k
		}
	}
	return cluster.Command
}

// tearDown ends and removes everything that setUp has made, except for the files. The content of
// disks is copied first.
func (r *rig) tearDown() error {
	var errs []error
	if r.cluster != nil {
		errs = append(errs, r.cluster.Close())
	}
	if r.register != nil {
		errs = append(errs, r.register.Close())
	}
	if r.cluster != nil && r.net != nil {
		for i := range r.disks {
			errs = append(errs, r.keep(i, false))
		}
	}
	for _, d := range r.disks {
		errs = append(errs, d.Close())
	}
	for _, c := range r.clocks {
		errs = append(errs, c.Close())
	}
	if r.net != nil {
		errs = append(errs, r.net.Close())
	}
	if r.ledger != nil {
		errs = append(errs, r.ledger.Close())
	}
	if r.history != nil {
		errs = append(errs, r.history.Close())
	}
	return errors.Join(errs...)
}

// keep copies a node's flight record and its other files.
func (r *rig) keep(i int, lost bool) error { return r.copies[i].copy(r.disks[i].Path(), lost) }

// target is the target of the executor.
func (r *rig) target() target {
	st := target{processes: clusterProcesses{r.cluster}, disks: r.disks, burn: r.burn, leader: r.leader, tenures: r.tenures, keep: r.keep, note: r.history.Add, now: r.ledger.Now}
	if r.net != nil {
		st.wires = r.net
	}
	for _, c := range r.clocks {
		st.clocks = append(st.clocks, c)
	}
	return st
}

// clocksAre tells the judge how the clocks of the nodes run at first.
func (r *rig) clocksAre() {
	if r.net == nil {
		return // a file election counts no leases
	}
	for i, n := range r.plan.Nodes {
		e := judge.Event{At: r.ledger.Now(), Kind: judge.Clock, Node: i, Ahead: n.Boot, Rate: 1}
		if i < len(r.clocks) {
			ahead, _ := r.clocks[i].Ahead()
			e.Ahead, e.Rate = n.Boot+ahead, 1+float64(n.Rate)/1e6
		}
		r.history.Add(e)
	}
}

// clusterProcesses is the cluster with the executor's interface.
type clusterProcesses struct{ *cluster.Cluster }

// Twin implements processes.
func (p clusterProcesses) Twin(i int, elsewhere bool) (twin, error) {
	return p.Cluster.Twin(i, elsewhere)
}

// Add implements processes.
func (p clusterProcesses) Add(ctx context.Context, i int) error {
	_, err := p.Operator(ctx, "member", "add", p.ID(i)+"@"+p.Addr(i))
	return err
}

// Replace implements processes.
func (p clusterProcesses) Replace(ctx context.Context, i int) error {
	_, err := p.Operator(ctx, "member", "replace", p.ID(i))
	if err != nil && strings.Contains(err.Error(), "elect member add "+p.ID(i)) {
		return p.Add(ctx, i) // an earlier try has already removed the old vote
	}
	return err
}

// burn starts that many spinning processes for each processor.
func (r *rig) burn(n int) (func() error, error) {
	r.mu.Lock()
	r.burns++
	name := fmt.Sprintf("burn%d", r.burns)
	r.mu.Unlock()
	b, err := r.cluster.StartAuxiliary(name, nil, r.worker, "burn", strconv.Itoa(n*processors()))
	if err != nil {
		return nil, err
	}
	return b.End, nil
}

// leader is the node whose work stamped last, or -1.
func (r *rig) leader() int {
	var last lives.Life
	for _, l := range r.ledger.Since(r.ledger.Len() - 64) {
		if l.Kind != lives.Descendant && cmp.Or(cmp.Compare(l.Last, last.Last), cmp.Compare(l.Token, last.Token)) > 0 {
			last = l
		}
	}
	if last.Last == 0 {
		return -1
	}
	return int(last.Node)
}

// tenures are those that began after that time.
func (r *rig) tenures(since int64) (all []tenure) {
	type key struct{ node, token int64 }
	spans := map[key][2]int64{}
	for _, l := range r.ledger.Lives() {
		if l.Kind == lives.Descendant {
			continue
		}
		k := key{l.Node, l.Token}
		at, ok := spans[k]
		if !ok {
			at = [2]int64{l.Start, l.Last}
		}
		spans[k] = [2]int64{min(at[0], l.Start), max(at[1], l.Last)}
	}
	for k, at := range spans {
		if at[0] > since {
			all = append(all, tenure{int(k.node), k.token, time.Duration(at[1] - at[0])})
		}
	}
	return all
}
