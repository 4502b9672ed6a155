//go:build linux

package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
)

// processes are the processes of a storm: a [cluster.Cluster], or in this package's tests a recorder.
type processes interface {
	Start(i int) error
	Up(i int) bool
	Pid(i int) int // of its main process; 0: it is down
	Down(i int) error
	Kill(i int, part cluster.Part) error
	Stop(i int, part cluster.Part) error
	Cont(i int, part cluster.Part) error
	Hold(i int)
	Release(i int) error
	Join(i int, on bool)
	Upgrade(i int, next bool) error
	Twin(i int, elsewhere bool) (twin, error)
	Starve(i, percent int) error
	Feed(i int) error
	Operator(ctx context.Context, args ...string) ([]byte, error)
	ID(i int) string
	Add(ctx context.Context, i int) error     // elect member add
	Replace(ctx context.Context, i int) error // elect member replace
}

// twin is a second process of a node.
type twin interface {
	Refused(ctx context.Context) (string, error)
	End() error
}

// wires is what the executor needs of a network.
type wires interface {
	Set(network.Links) error
	Reset(a, b int) error
}

// dial is what it needs of a clock.
type dial interface {
	Rate(f float64)
	StepBoth(d time.Duration)
	Suspend(d time.Duration)
	Ahead() (boottime, monotonic time.Duration)
}

// target is everything that the executor acts upon.
type target struct {
	processes processes
	wires     wires // nil: no network
	disks     []disk.Disk
	clocks    []dial
	burn      func(n int) (end func() error, err error) // starts n spinning processes
	leader    func() int                                // the present leader, or the last one; -1: there was none
	tenures   func(since int64) []tenure                // that began after that time, by the stamps of their work
	keep      func(i int, lost bool) error              // copies the relevant content of a disk; lost: the disk is about to lose it
	note      func(judge.Event)
	now       func() int64 // by the clock of the history
}

// tenure is a time in which a node works as leader.
type tenure struct {
	node   int
	token  int64
	lasted time.Duration // so far
}

// Limits of a fault beyond its planned time.
const (
	undoTime   = 20 * time.Second // of one step of undoing
	repairTime = 90 * time.Second // until a node is a voter again
)

// executor carries out a schedule.
type executor struct {
	target
	plan *Schedule
	set  Setup

	mu       sync.Mutex
	links    map[int]network.Links // by the number of the fault that cuts them
	linksMu  sync.Mutex            // one at a time sets the network
	faults   map[int][]disk.Fault  // of each disk, by the number of the fault and by node
	extra    []disk.Fault          // of each disk, for a power loss
	ill      []int                 // by node, the number of faults that make it ill
	voters   []bool
	claimed  []int          // by node, the fault that has its processes; 0: none
	alone    map[string]int // by class, the fault that excludes others of it
	stepped  time.Time      // when a clock was stepped last
	forgot   []int          // how often the disk of a node was emptied or replaced
	lent     bool           // faults may affect the added node, too
	active   map[int]string // faults in progress
	begun    map[string]int
	skipped  map[string]int
	failures []error
	broken   []judge.Violation // broken promises seen by the executor
}

func newExecutor(s *Schedule, on target) (*executor, error) {
	set, err := setup(s.Setup)
	if err != nil {
		return nil, err
	}
	x := &executor{
		target: on, plan: s, set: set,
		links: map[int]network.Links{}, faults: map[int][]disk.Fault{}, extra: make([]disk.Fault, s.Size), ill: make([]int, s.Size), forgot: make([]int, s.Size), voters: make([]bool, s.Size),
		claimed: make([]int, s.Size), alone: map[string]int{}, active: map[int]string{}, begun: map[string]int{}, skipped: map[string]int{},
	}
	for i := range s.Voters {
		x.voters[i] = true
	}
	return x, nil
}

// run carries out the schedule until it is over or ctx ends, and returns when all faults are
// undone. It fails if the harness did.
func (x *executor) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	var going sync.WaitGroup
	for _, p := range x.plan.Events {
		if !sleep(ctx, p.At-time.Since(began)) {
			break
		}
		going.Go(func() {
			if err := x.act(ctx, p); err != nil {
				x.mu.Lock()
				x.failures = append(x.failures, fmt.Errorf("fault %d, %s: %w", p.Number, p.Fault, err))
				x.mu.Unlock()
				cancel() // after a failure of the harness the rest shows nothing
			}
		})
	}
	sleep(ctx, x.plan.For-time.Since(began))
	going.Wait()
	return errors.Join(x.failures...)
}

// sleep waits for d, and reports whether ctx still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// errSkip is wrapped by the reason why a fault is not possible now.
var errSkip = errors.New("not now")

func skip(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSkip, fmt.Sprintf(format, args...))
}

// act is one fault in progress. It belongs to one goroutine.
type act struct {
	Planned
	x     *executor
	ctx   context.Context
	begun bool
	undos []undo // to be done from the last to the first
}

type undo struct {
	what string
	do   func(ctx context.Context) error
}

// act carries out one fault, waits, and undoes it.
func (x *executor) act(ctx context.Context, p Planned) (err error) {
	f, ok := faultNamed(p.Fault)
	if !ok {
		return errors.New("there is no such fault")
	}
	a := &act{Planned: p, x: x, ctx: ctx}
	a.Order = x.order(p)
	if f.alone != "" {
		x.mu.Lock()
		other := cmp.Or(x.alone[f.alone], p.Number)
		x.alone[f.alone] = other
		x.mu.Unlock()
		if other != p.Number {
			a.skipped(skip("fault %d has not ended", other))
			return nil
		}
		a.undo("", func(context.Context) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			delete(x.alone, f.alone)
			return nil
		})
	}
	err = f.do(a)
	if errors.Is(err, errSkip) {
		a.skipped(err)
		err = nil
	}
	return errors.Join(err, a.end())
}

// order is the nodes in the order in which a fault takes them. It includes an added node, at a
// place given by the number of the fault.
func (x *executor) order(p Planned) []int {
	order := slices.Clone(p.Order)
	x.mu.Lock()
	if x.lent {
		order = slices.Insert(order, p.Number%(len(order)+1), x.plan.Voters)
	}
	x.mu.Unlock()
	if p.First == "" {
		return order
	}
	leads := slices.Index(order, x.leader())
	if leads < 0 {
		return order
	}
	node := order[leads]
	order = slices.Delete(order, leads, leads+1)
	if p.First == leader {
		return slices.Insert(order, 0, node)
	}
	return append(order, node)
}

// begin records that the fault begins. Node is the affected node, or [judge.NoNode]. It is called
// before anything is done.
func (a *act) begin(node int, format string, args ...any) { a.beginAt(0, node, format, args...) }

// beginAt records that the fault began at a past time.
func (a *act) beginAt(at int64, node int, format string, args ...any) {
	a.begun = true
	a.x.mu.Lock()
	a.x.active[a.Number] = a.Fault
	a.x.begun[a.Fault]++
	a.x.mu.Unlock()
	a.x.note(judge.Event{At: at, Kind: judge.Fault, Fault: a.Fault, ID: a.Number, Node: node, Text: fmt.Sprintf(format, args...)})
}

func (a *act) skipped(why error) {
	if a.begun {
		a.note("given up: %v", why)
		return
	}
	a.x.mu.Lock()
	a.x.skipped[a.Fault]++
	a.x.mu.Unlock()
	a.x.note(judge.Event{Kind: judge.Note, Node: judge.NoNode, Text: fmt.Sprintf("fault %d, %s, is left out: %v", a.Number, a.Fault, why)})
}

func (a *act) note(format string, args ...any) {
	a.x.note(judge.Event{Kind: judge.Note, Fault: a.Fault, ID: a.Number, Node: judge.NoNode, Text: fmt.Sprintf("%s (%d): %s", a.Fault, a.Number, fmt.Sprintf(format, args...))})
}

// undo registers a function that runs when the fault is over, whatever its outcome. The last
// registered runs first. Each has undoTime.
func (a *act) undo(what string, do func(ctx context.Context) error) {
	a.undos = append(a.undos, undo{what, do})
}

// undoAll runs all of them.
func (a *act) undoAll() error { return a.undoTo(0) }

// undoTo runs those beyond the first n.
func (a *act) undoTo(n int) error {
	var errs []error
	for len(a.undos) > n {
		u := a.undos[len(a.undos)-1]
		a.undos = a.undos[:len(a.undos)-1]
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), undoTime)
		if err := u.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", u.what, err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

// end undoes the fault, and records that it is over.
func (a *act) end() error {
	err := a.undoAll()
	if a.begun {
		a.x.note(judge.Event{Kind: judge.Heal, Fault: a.Fault, ID: a.Number, Node: judge.NoNode})
		a.x.mu.Lock()
		delete(a.x.active, a.Number)
		a.x.mu.Unlock()
	}
	return err
}

// wait waits for d, and reports whether the storm still goes on.
func (a *act) wait(d time.Duration) bool { return sleep(a.ctx, d) }

// hold waits for the planned length of the fault.
func (a *act) hold() { a.wait(a.For) }

// claim takes the processes of a node, so that no other fault kills or stops them meanwhile: some
// pairs are beyond the promises, such as a stopped keeper and a killed elect. The claim ends with
// the fault.
func (a *act) claim(i int) bool {
	a.x.mu.Lock()
	taken := a.x.claimed[i] == 0 && (i < a.x.plan.Voters || a.x.lent || a.Fault == addMemberFault)
	if taken {
		a.x.claimed[i] = a.Number
	}
	a.x.mu.Unlock()
	if taken {
		a.undo("", func(context.Context) error { a.x.unclaim(i, a.Number); return nil })
	}
	return taken
}

func (x *executor) unclaim(i, number int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.claimed[i] == number {
		x.claimed[i] = 0
	}
}

// one claims the first node of the order that is free and whose process runs.
func (a *act) one() (int, error) {
	for _, i := range a.Order {
		if a.x.processes.Up(i) && a.claim(i) {
			return i, nil
		}
	}
	return 0, skip("other faults have all nodes")
}

// sicken marks nodes as ill until the fault is over.
func (a *act) sicken(nodes ...int) {
	a.x.illness(nodes, 1)
	a.undo("", func(context.Context) error { a.x.illness(nodes, -1); return nil })
}

// sickenAll marks all nodes as ill.
func (a *act) sickenAll() {
	var all []int
	for i := range a.x.plan.Size {
		all = append(all, i)
	}
	a.sicken(all...)
}

func (x *executor) illness(nodes []int, by int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, i := range nodes {
		x.ill[i] += by
	}
	healthy := make([]bool, len(x.ill))
	for i, n := range x.ill {
		healthy[i] = n == 0
	}
	x.note(judge.Event{Kind: judge.Health, Node: judge.NoNode, Healthy: healthy})
}

// wire adds cuts of the links to those of other faults, until the fault is over or it sets others.
// Nil is none.
func (a *act) wire(links network.Links) error {
	if _, on := a.x.has(a.Number); !on {
		a.undo("links", func(context.Context) error { return a.x.rewire(a.Number, nil) })
	}
	return a.x.rewire(a.Number, links)
}

func (x *executor) has(number int) (network.Links, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	links, ok := x.links[number]
	return links, ok
}

// rewire changes the cuts of one fault. The judge is told before a link is cut, and after one is
// restored: it must never count on a link that is cut.
func (x *executor) rewire(number int, links network.Links) error {
	x.linksMu.Lock()
	defer x.linksMu.Unlock()
	x.mu.Lock()
	before := network.Merge(slices.Collect(maps.Values(x.links))...)
	if links == nil {
		delete(x.links, number)
	} else {
		x.links[number] = links
	}
	after := network.Merge(slices.Collect(maps.Values(x.links))...)
	x.mu.Unlock()
	if maps.Equal(before, after) {
		return nil
	}
	worst := network.Merge(before, after)
	x.note(judge.Event{Kind: judge.Links, Node: judge.NoNode, Links: worst})
	if err := x.wires.Set(after); err != nil || maps.Equal(worst, after) {
		return err
	}
	x.note(judge.Event{Kind: judge.Links, Node: judge.NoNode, Links: after})
	return nil
}

// spoil adds a fault of a disk to those of other faults, until the fault is over.
func (a *act) spoil(i int, f disk.Fault) error {
	a.sicken(i)
	a.undo("disk", func(context.Context) error { return a.x.damage(a.Number, i, disk.Fault{}) })
	return a.x.damage(a.Number, i, f)
}

func (x *executor) damage(number, i int, f disk.Fault) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.faults[number] == nil {
		x.faults[number] = make([]disk.Fault, x.plan.Size)
	}
	x.faults[number][i] = f
	return x.mend(i)
}

// mend gives a disk the combination of all faults. x.mu is held.
func (x *executor) mend(i int) error {
	all := x.extra[i]
	for _, fs := range x.faults {
		f := fs[i]
		all.SyncDelay = max(all.SyncDelay, f.SyncDelay)
		all.SyncError = all.SyncError || f.SyncError
		all.WriteError = all.WriteError || f.WriteError
		all.Full = all.Full || f.Full
		all.ReadOnly = all.ReadOnly || f.ReadOnly
	}
	return x.disks[i].Fault(all)
}

// complain records a promise that the executor itself saw broken, for the judge: a later judgement
// must come to the same result.
func (x *executor) complain(check, format string, args ...any) {
	v := judge.Violation{Check: check, At: x.now(), Node: judge.NoNode, Text: fmt.Sprintf(format, args...)}
	x.mu.Lock()
	x.broken = append(x.broken, v)
	x.mu.Unlock()
	x.note(judge.Event{At: v.At, Kind: judge.Broken, Node: v.Node, Check: check, Text: v.Text})
}

// members records the voters.
func (x *executor) members(change func(voters []bool)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(x.voters)
	var voters []int
	for i, votes := range x.voters {
		if votes {
			voters = append(voters, i)
		}
	}
	x.note(judge.Event{Kind: judge.Voters, Node: judge.NoNode, Voters: voters})
}

// quiet reports whether no fault but that one is in progress, and how many have begun so far.
func (x *executor) quiet(but int) (alone bool, begun int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.begun {
		begun += n
	}
	for number := range x.active {
		if number != but {
			return false, begun
		}
	}
	return true, begun
}

// going lists the faults in progress.
func (x *executor) going() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Values(x.active))
}

// total is how many faults have begun, and how many were skipped.
func (x *executor) total() (begun, skipped int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.begun {
		begun += n
	}
	for _, n := range x.skipped {
		skipped += n
	}
	return begun, skipped
}
