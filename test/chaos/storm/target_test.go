//go:build linux

package storm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
)

// dummies is a target without real processes: it records what is done to it, and reports what is
// beyond the promises.
type dummies struct {
	mu      sync.Mutex
	nodes   []dummy
	spare   int // number of the added node
	links   network.Links
	events  []judge.Event
	burns   int
	wrong   []string
	leads   int
	tenures []tenure // of all times
	fail    string   // what fails, always
}

type dummy struct {
	wanted, held, up, join, next bool
	stopped                      map[cluster.Part]bool
	starved                      int
	fault                        disk.Fault
	snapshots                    map[string]bool
	lives                        int  // that were ended
	wiped                        bool // and its vote was not given back
	removed                      bool
	paused                       bool
	twins                        int
	rate                         float64
}

func newDummies(s *Schedule) *dummies {
	d := &dummies{nodes: make([]dummy, s.Size), spare: s.Voters}
	for i := range d.nodes {
		d.nodes[i] = dummy{up: i < s.Voters, wanted: i < s.Voters, stopped: map[cluster.Part]bool{}, snapshots: map[string]bool{}, rate: 1 + float64(s.Nodes[i].Rate)/1e6}
	}
	return d
}

func (d *dummies) target(s *Schedule) target {
	st := target{
		processes: d, wires: d, leader: func() int { d.mu.Lock(); defer d.mu.Unlock(); d.leads = (d.leads + 1) % s.Voters; return d.leads },
		burn:    func(n int) (func() error, error) { d.add(n); return func() error { d.add(-n); return nil }, nil },
		keep:    func(int, bool) error { return nil },
		tenures: func(int64) []tenure { d.mu.Lock(); defer d.mu.Unlock(); return d.tenures },
		note:    func(e judge.Event) { d.mu.Lock(); defer d.mu.Unlock(); d.events = append(d.events, e) },
		now:     func() int64 { return time.Now().UnixNano() },
	}
	for i := range d.nodes {
		st.disks = append(st.disks, &dummyDisk{d, i})
		st.clocks = append(st.clocks, &dummyClock{d, i})
	}
	return st
}

func (d *dummies) add(n int) { d.mu.Lock(); defer d.mu.Unlock(); d.burns += n }

// with does something to a node, unless the call is to fail.
func (d *dummies) with(i int, what string, do func(n *dummy)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	do(&d.nodes[i])
	if d.fail == what {
		return errors.New(what + " fails")
	}
	return nil
}

func (d *dummies) complain(format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Sprintf(format, args...))
}

func (d *dummies) Start(i int) error {
	return d.with(i, "start", func(n *dummy) { n.wanted, n.up = true, true })
}

func (d *dummies) Up(i int) bool { d.mu.Lock(); defer d.mu.Unlock(); return d.nodes[i].up }

func (d *dummies) Pid(i int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.nodes[i].up {
		return 0
	}
	return 1 + d.nodes[i].lives
}

func (d *dummies) Down(i int) error {
	return d.with(i, "down", func(n *dummy) {
		if len(n.stopped) > 0 {
			d.complain("node %d is told to end while %v is stopped", i, n.stopped)
		}
		n.wanted, n.up = false, false
	})
}

// end is the end of a node's main process.
func (n *dummy) end() {
	clear(n.stopped)
	n.lives++
	n.up = n.wanted && !n.held
}

func (d *dummies) Kill(i int, part cluster.Part) (err error) {
	return errors.Join(d.with(i, "kill", func(n *dummy) {
		switch {
		case !n.up:
			err = cluster.ErrNone
		case n.twins > 0:
			d.complain("node %d is killed while it has a twin, which may then take its place", i)
		case part != cluster.Family && part != cluster.Child && n.stopped[cluster.Keeper]:
			d.complain("part %d of node %d is killed while its keeper is stopped", part, i)
		case part == cluster.Keeper && len(n.stopped) > 0:
			d.complain("the keeper of node %d is killed while %v is stopped", i, n.stopped)
		case part == cluster.Family || part == cluster.Node || part == cluster.Voter:
			n.end()
		}
	}), err)
}

func (d *dummies) Stop(i int, part cluster.Part) (err error) {
	return errors.Join(d.with(i, "stop", func(n *dummy) {
		if !n.up {
			err = cluster.ErrNone
			return
		}
		if len(n.stopped) > 0 && (part == cluster.Keeper || n.stopped[cluster.Keeper]) {
			d.complain("part %d of node %d is stopped while %v is", part, i, n.stopped)
		}
		n.stopped[part] = true
	}), err)
}

func (d *dummies) Cont(i int, part cluster.Part) error {
	return d.with(i, "cont", func(n *dummy) { delete(n.stopped, part) })
}

func (d *dummies) Hold(i int) { _ = d.with(i, "", func(n *dummy) { n.held = true }) }

func (d *dummies) Release(i int) error {
	return d.with(i, "release", func(n *dummy) { n.held, n.up = false, n.wanted })
}

func (d *dummies) Join(i int, on bool) { _ = d.with(i, "", func(n *dummy) { n.join = on }) }

func (d *dummies) Upgrade(i int, next bool) error {
	return d.with(i, "upgrade", func(n *dummy) { n.next = next })
}

type dummyTwin struct {
	d *dummies
	i int
}

func (d *dummies) Twin(i int, _ bool) (twin, error) {
	err := d.with(i, "twin", func(n *dummy) {
		n.twins++
		if !n.up || len(n.stopped) > 0 {
			d.complain("node %d gets a twin while it is not well itself", i)
		}
	})
	return &dummyTwin{d, i}, err
}

func (t *dummyTwin) Refused(ctx context.Context) (string, error) {
	if t.d.fail == "refused" {
		<-ctx.Done()
		return "", ctx.Err()
	}
	sleep(ctx, 100*time.Millisecond)
	return "exit status 69", ctx.Err()
}

func (t *dummyTwin) End() error { return t.d.with(t.i, "end", func(n *dummy) { n.twins-- }) }

func (d *dummies) Starve(i, percent int) error {
	return d.with(i, "starve", func(n *dummy) { n.starved = percent })
}

func (d *dummies) Feed(i int) error { return d.with(i, "feed", func(n *dummy) { n.starved = 0 }) }

func (d *dummies) Operator(ctx context.Context, args ...string) ([]byte, error) {
	if !sleep(ctx, 20*time.Millisecond) {
		return nil, ctx.Err()
	}
	last := args[len(args)-1]
	i, _ := strconv.Atoi(last[1:])
	switch args[0] {
	case "transfer":
		if d.fail == "work" { // it is said to have succeeded
			return []byte(`{"to": {"id": "n1", "token": "7"}}`), nil
		}
	case "pause":
		return nil, d.with(i, "pause", func(n *dummy) { n.paused = true })
	case "resume":
		return nil, d.with(i, "resume", func(n *dummy) { n.paused = false })
	case "member": // remove
		return nil, d.with(i, "remove", func(n *dummy) { n.removed = true })
	}
	return nil, errors.New("refused")
}

func (d *dummies) ID(i int) string { return "n" + strconv.Itoa(i) }

func (d *dummies) Add(ctx context.Context, i int) error {
	return d.with(i, "add", func(n *dummy) {
		if !n.join {
			d.complain("node %d is added and does not wait for it", i)
		}
		n.removed = false
	})
}

func (d *dummies) Replace(ctx context.Context, i int) error {
	var down error
	return errors.Join(d.with(i, "replace", func(n *dummy) {
		if !n.up {
			down = errors.New("it does not answer")
			return
		}
		n.wiped = false
	}), down)
}

func (d *dummies) Set(l network.Links) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links = l
	if d.fail == "set" {
		return errors.New("set fails")
	}
	return nil
}

func (d *dummies) Reset(a, b int) error { return d.with(a, "reset", func(*dummy) {}) }

type dummyClock struct {
	d *dummies
	i int
}

func (c *dummyClock) Rate(f float64)                             { _ = c.d.with(c.i, "", func(n *dummy) { n.rate = f }) }
func (c *dummyClock) StepBoth(time.Duration)                     {}
func (c *dummyClock) Ahead() (boottime, monotonic time.Duration) { return 0, 0 }
func (c *dummyClock) Suspend(time.Duration) {
	_ = c.d.with(c.i, "", func(n *dummy) {
		if !n.stopped[cluster.Family] {
			c.d.complain("node %d was suspended and not frozen", c.i)
		}
	})
}

type dummyDisk struct {
	d *dummies
	i int
}

func (k *dummyDisk) Path() string         { return "" }
func (k *dummyDisk) Can(disk.Fault) error { return nil }
func (k *dummyDisk) Fault(f disk.Fault) error {
	return k.d.with(k.i, "fault", func(n *dummy) { n.fault = f })
}

func (k *dummyDisk) Snapshot(name string) error {
	return k.d.with(k.i, "snapshot", func(n *dummy) { n.snapshots[name] = true })
}

func (k *dummyDisk) Restore(name string) error {
	return k.down("restore", func(n *dummy) {
		if !n.snapshots[name] {
			k.d.complain("node %d has no copy %s", k.i, name)
		}
		n.wiped = n.wiped && name != "restored"
	})
}

func (k *dummyDisk) Wipe() error { return k.down("wipe", func(n *dummy) { n.wiped = k.i < k.d.spare }) }

func (k *dummyDisk) PowerLoss() error { return k.down("power-loss", func(*dummy) {}) }
func (k *dummyDisk) Close() error     { return nil }

func (k *dummyDisk) down(what string, do func(n *dummy)) error {
	return k.d.with(k.i, what, func(n *dummy) {
		if n.up {
			k.d.complain("%s of node %d, which is up", what, k.i)
		}
		do(n)
	})
}

// undone fails the test if anything is not as it was at the beginning.
func (d *dummies) undone(t *testing.T, x *executor) {
	t.Helper()
	for _, w := range d.wrong {
		t.Error(w)
	}
	if len(d.links) > 0 || d.burns != 0 || len(x.links) > 0 || len(x.active) > 0 || len(x.alone) > 0 {
		t.Errorf("left: links %v, %d burners, wanted links %v, active %v, alone %v", d.links, d.burns, x.links, x.active, x.alone)
	}
	for i, n := range d.nodes {
		rate := 1 + float64(x.plan.Nodes[i].Rate)/1e6
		if n.held || n.up != (i < d.spare) || len(n.stopped) > 0 || n.starved != 0 || n.fault != (disk.Fault{}) ||
			n.wiped || n.removed != (i == d.spare && n.removed) || n.paused || n.twins != 0 || n.next || n.rate != rate {
			t.Errorf("node %d is left as %+v", i, n)
		}
		if x.claimed[i] != 0 || x.ill[i] != 0 || x.voters[i] != (i < d.spare) {
			t.Errorf("node %d: claimed by %d, ill %d times, voter %t", i, x.claimed[i], x.ill[i], x.voters[i])
		}
	}
	begun, healed := map[int]int{}, map[int]int{}
	for _, e := range d.events {
		switch e.Kind {
		case judge.Fault:
			begun[e.ID]++
		case judge.Heal:
			healed[e.ID]++
		}
	}
	for id, n := range begun {
		if n != 1 || healed[id] != 1 {
			t.Errorf("fault %d was begun %d times and healed %d times", id, n, healed[id])
		}
	}
	if i := slices.IndexFunc(d.events, func(e judge.Event) bool { return e.Kind == judge.Heal && begun[e.ID] == 0 }); i >= 0 {
		t.Errorf("healed and not begun: %+v", d.events[i])
	}
}
