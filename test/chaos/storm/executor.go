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

// cast is the processes that a storm goes over: a [cluster.Cluster], or in this
// package's tests one that only takes notes.
type cast interface {
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

// stage is all that the executor acts upon.
type stage struct {
	cast    cast
	wires   wires // nil: no network
	disks   []disk.Disk
	clocks  []dial
	burn    func(n int) (end func() error, err error) // has n processes spin
	leader  func() int                                // who leads now, or who did last; -1: nobody ever did
	tenures func(since int64) []tenure                // that began after that time, as the work has stamped them
	keep    func(i int, lost bool) error              // copies what is worth it of a disk aside; lost: it is about to be
	note    func(judge.Event)
	now     func() int64 // as the history counts
}

// tenure is that a node works as leader.
type tenure struct {
	node   int
	token  int64
	lasted time.Duration // so far
}

// limits of what one fault may take beside the time that it is planned for.
const (
	undoTime   = 20 * time.Second // of one step of undoing
	repairTime = 90 * time.Second // until a node is a voter again
)

// executor carries a schedule out.
type executor struct {
	stage
	plan *Schedule
	set  Setup

	mu       sync.Mutex
	links    map[int]network.Links // by the number of the fault that wants them
	linksMu  sync.Mutex            // one at a time sets the network
	faults   map[int][]disk.Fault  // of each disk, by the number of the fault and by node
	extra    []disk.Fault          // of each disk, for a power loss
	ill      []int                 // how many faults make a node ill
	voters   []bool
	claimed  []int          // the fault that has the processes of a node; 0: none
	alone    map[string]int // the fault that has a class to itself
	stepped  time.Time      // when a clock was stepped last
	forgot   []int          // how often the disk of a node was emptied or replaced
	lent     bool           // the node that was added may be befallen, too
	active   map[int]string // faults that go on
	begun    map[string]int
	skipped  map[string]int
	failures []error
	broken   []judge.Violation // promises that the executor saw broken
}

func newExecutor(s *Schedule, on stage) (*executor, error) {
	set, err := setup(s.Setup)
	if err != nil {
		return nil, err
	}
	x := &executor{
		stage: on, plan: s, set: set,
		links: map[int]network.Links{}, faults: map[int][]disk.Fault{}, extra: make([]disk.Fault, s.Size), ill: make([]int, s.Size), forgot: make([]int, s.Size), voters: make([]bool, s.Size),
		claimed: make([]int, s.Size), alone: map[string]int{}, active: map[int]string{}, begun: map[string]int{}, skipped: map[string]int{},
	}
	for i := range s.Voters {
		x.voters[i] = true
	}
	return x, nil
}

// run carries out the schedule until it is over or ctx ends, and returns when all
// faults are undone. It fails if the harness did.
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
				cancel() // a harness that has failed has nothing more to show
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

// errSkip is of a fault that cannot be had now, with the reason around it.
var errSkip = errors.New("not now")

func skip(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSkip, fmt.Sprintf(format, args...))
}

// act is one fault that goes on. It belongs to one goroutine.
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

// act does one fault, waits, and undoes it.
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

// order is the nodes in the order in which a fault takes them. One that was added is
// among them, at a place that the number of the fault says.
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

// begin writes down that the fault begins. Node is whom it befalls, or
// [judge.Nobody]. Nothing was done before.
func (a *act) begin(node int, format string, args ...any) { a.beginAt(0, node, format, args...) }

// beginAt writes down that the fault began at a time that has passed since.
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
	a.x.note(judge.Event{Kind: judge.Note, Node: judge.Nobody, Text: fmt.Sprintf("fault %d, %s, is left out: %v", a.Number, a.Fault, why)})
}

func (a *act) note(format string, args ...any) {
	a.x.note(judge.Event{Kind: judge.Note, Fault: a.Fault, ID: a.Number, Node: judge.Nobody, Text: fmt.Sprintf("%s (%d): %s", a.Fault, a.Number, fmt.Sprintf(format, args...))})
}

// undo has something done when the fault is over, whatever became of it. What is
// put on the list last is done first. Each has undoTime.
func (a *act) undo(what string, do func(ctx context.Context) error) {
	a.undos = append(a.undos, undo{what, do})
}

// undoAll undoes what was done so far.
func (a *act) undoAll() error { return a.undoTo(0) }

// undoTo undoes what was done since the list had so many entries.
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

// end undoes all, and writes down that the fault is over.
func (a *act) end() error {
	err := a.undoAll()
	if a.begun {
		a.x.note(judge.Event{Kind: judge.Heal, Fault: a.Fault, ID: a.Number, Node: judge.Nobody})
		a.x.mu.Lock()
		delete(a.x.active, a.Number)
		a.x.mu.Unlock()
	}
	return err
}

// wait lets the fault last, and reports whether the storm still goes on.
func (a *act) wait(d time.Duration) bool { return sleep(a.ctx, d) }

// hold lets the fault last for as long as it is planned to.
func (a *act) hold() { a.wait(a.For) }

// claim takes the processes of a node, so that no other fault kills or stops them
// meanwhile: some pairs are beyond what is promised, such as a stopped keeper and a
// killed elect. The claim is given back when the fault is over.
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

// one claims the first node of the order that is free and whose process is there.
func (a *act) one() (int, error) {
	for _, i := range a.Order {
		if a.x.cast.Up(i) && a.claim(i) {
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
	x.note(judge.Event{Kind: judge.Health, Node: judge.Nobody, Healthy: healthy})
}

// wire has the links be as said, beside what other faults want, until the fault is
// over or it wants others. Nil is nothing.
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

// rewire changes what one fault wants of the links. The judge is told before a link
// goes, and after one comes: it must never count on one that is not there.
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
	x.note(judge.Event{Kind: judge.Links, Node: judge.Nobody, Links: worst})
	if err := x.wires.Set(after); err != nil || maps.Equal(worst, after) {
		return err
	}
	x.note(judge.Event{Kind: judge.Links, Node: judge.Nobody, Links: after})
	return nil
}

// spoil has a disk be as said, beside what other faults do to it, until the fault
// is over.
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

// mend has a disk be as all faults together want it. x.mu is held.
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

// complain writes down a promise that the executor itself saw broken, for the judge:
// whoever judges the run again must come to the same.
func (x *executor) complain(check, format string, args ...any) {
	v := judge.Violation{Check: check, At: x.now(), Node: judge.Nobody, Text: fmt.Sprintf(format, args...)}
	x.mu.Lock()
	x.broken = append(x.broken, v)
	x.mu.Unlock()
	x.note(judge.Event{At: v.At, Kind: judge.Broken, Node: v.Node, Check: check, Text: v.Text})
}

// members writes down who votes.
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
	x.note(judge.Event{Kind: judge.Voters, Node: judge.Nobody, Voters: voters})
}

// quiet reports whether no fault but that one goes on, and how many have begun so far.
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

// going lists the faults that go on.
func (x *executor) going() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Values(x.active))
}

// total is how many faults have begun, and how many were left out.
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
