package supervise_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/long"
)

// How long a packet may be on its way through this machine, from the guard to the receiver's clock. A process that has
// stopped was not in the middle of a send. One that runs may lose the processor in a send: to interrupts, to softirqs,
// which take up to net.core.netdev_budget_usecs, to other processes where the kernel is preemptible, and to the
// hypervisor. The worst of 50 million datagrams took 114 ms, at a load of up to 540 on two processors. What a stopped
// writer sends later cannot hide in this time, because it goes on after more than twice as long. A datagram of a writer
// that runs on cannot hide either: an observer notes when it came to the guard, or had just passed it.
const standing, running = time.Millisecond, 50 * time.Millisecond

// judge fails the test if something arrived after the end of a lease, or if a commit that had not arrived before was
// carried out.
func (c *count) judge(t *testing.T, boxes []*inbox, end clock.Boot, underway time.Duration) (bytes int64) {
	t.Helper()
	for _, i := range boxes {
		n, commits, last := i.drain()
		late := time.Duration(last - realtime(end))
		if late > underway {
			t.Errorf("%s: the last of %d bytes has arrived %v after the end", i.name, n, late)
		}
		if i.committed != nil {
			if rows := i.committed(); rows > commits {
				t.Errorf("%s: %d transactions are committed, of which %d had arrived", i.name, rows, commits)
			}
		}
		i.mu.Lock()
		if i.lastSeen.Sub(end) > i.behind {
			t.Errorf("%s: a datagram was sent %v after the end, and has arrived", i.name, i.lastSeen.Sub(end))
		}
		c.latest(i.name, late, i.took)
		i.took = nil
		i.mu.Unlock()
		bytes += n
	}
	return bytes
}

// count is what the freezes of a test came to.
type count struct {
	mu      sync.Mutex
	freezes map[string]int
	after   map[string][]time.Duration // the latest arrivals, by server, where they were after the end of the lease
	took    []time.Duration            // of datagrams, from the guard to the receiver's clock
	bytes   int64
}

func (c *count) latest(server string, late time.Duration, took []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if late > 0 {
		c.after[server] = append(c.after[server], late)
	}
	c.took = append(c.took, took...)
}

// add counts a freeze, unless nothing had arrived before it.
func (c *count) add(what string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > 0 {
		c.freezes[what]++
		c.bytes += bytes
	}
}

// means are ways to keep from running the processes and, if it is not "", those of a cgroup. Each returns when they are
// kept or, for starve, when they have almost no processor.
type means struct {
	name     string
	keep     func(t *testing.T, group string, pids ...int) (thaw func())
	underway time.Duration
}

var allMeans = []means{{"SIGSTOP", halt, standing}, {"freezer", freezer, standing}, {"starved", starve, running}}

func halt(t *testing.T, _ string, pids ...int) (thaw func()) {
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGSTOP)
		eventually(t, "it is stopped", func() bool { return stopped(pid) || !alive(pid) })
	}
	return func() {
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
}

// freezer freezes the cgroup or, without one, puts the processes in another one, and freezes that.
func freezer(t *testing.T, group string, pids ...int) (thaw func()) {
	if group == "" {
		_, own, err := supervise.OwnCgroup()
		if err != nil {
			t.Fatal(err)
		}
		group = groupOf(t, own, pids)
	}
	write := func(text string) { _ = os.WriteFile(group+"/cgroup.freeze", []byte(text), 0) } // it may be removed
	write("1")
	thaw = func() { write("0") }
	t.Cleanup(thaw)
	eventually(t, "it is frozen", func() bool {
		text, err := os.ReadFile(group + "/cgroup.events")
		return err != nil || strings.Contains(string(text), "frozen 1")
	})
	return thaw
}

// starve leaves the processes 1 % of a processor or, where no cgroup can limit them, what loops leave to those of the
// policy SCHED_IDLE.
func starve(t *testing.T, _ string, pids ...int) (thaw func()) {
	const quotas = "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(quotas + "/cpu.cfs_quota_us"); err == nil && os.Getuid() == 0 {
		group := groupOf(t, quotas, nil)
		if err := os.WriteFile(group+"/cpu.cfs_quota_us", []byte("1000"), 0); err != nil { // of 100 ms
			t.Fatal(err)
		}
		join(t, group, pids)
		thaw = func() { join(t, quotas, pids) }
		t.Cleanup(thaw)
		return thaw
	}
	policy := func(policy uint32) {
		for _, pid := range pids {
			tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
			for _, task := range tasks {
				id, _ := strconv.Atoi(filepath.Base(task))
				_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0)
			}
		}
	}
	policy(unix.SCHED_IDLE)
	var over atomic.Bool
	for range runtime.NumCPU() {
		go func() {
			for !over.Load() {
			}
		}()
	}
	thaw = func() { over.Store(true); policy(unix.SCHED_NORMAL) }
	t.Cleanup(thaw)
	return thaw
}

// groupOf makes a cgroup with these processes.
func groupOf(t *testing.T, parent string, pids []int) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0) // v1 has none
		eventually(t, "the cgroup is empty", func() bool { return unix.Rmdir(dir) == nil })
	})
	join(t, dir, pids)
	return dir
}

func join(t *testing.T, group string, pids []int) {
	t.Helper()
	for _, pid := range pids {
		eventually(t, "it is in the cgroup", func() bool { // a keeper that counts is SCHED_FIFO for a moment, and refused
			return os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0) == nil || !alive(pid)
		})
	}
}

// holdAt has one of the writers wait before one of the steps of a write, or lets all go on for a while.
func holdAt(t *testing.T, b *board, boxes []*inbox, n int) (what string, release func()) {
	t.Helper()
	writer := int(b.Members[0].PID.Load())
	type hold struct{ box, step int }
	holds := []hold{{}, {}, {}} // at no step
	for k, i := range boxes {
		for step := range i.steps {
			holds = append(holds, hold{k, step})
		}
	}
	h := holds[n%len(holds)]
	if h.box == 0 {
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
		return "at random", func() {}
	}
	p, step := &b.Members[h.box], int64(h.step+1)
	p.PID.Store(step)
	eventually(t, "it is held", func() bool { return p.Alive.Load() == step || !alive(writer) })
	return fmt.Sprintf("%s, before step %d", boxes[h.box].name, step), func() { p.PID.Store(0) }
}

// freezeWriter keeps a writer from running while its guard closes, in each of some rounds. Nobody else knows of its
// lease. Between the rounds the guard is open.
func (c *count) freezeWriter(t *testing.T, n, rounds int, m means) {
	g := newGuarded(t, nil)
	inner := newGuarded(t, g) // its programs run first
	inner.Until(forever)
	seen := observe(t, inner.Path())
	path, b, boxes := servers(t)
	boxes[0].observe(seen, 0)
	cmd := exec.Command(executable(t), "board="+path)
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = partEnv("pour"), os.Stderr, &syscall.SysProcAttr{}
	inner.Enter(cmd.SysProcAttr)
	g.Until(forever)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	before := int64(0)
	for r := range rounds {
		awaitAll(t, b, boxes)
		what, release := holdAt(t, b, boxes, n+r)
		thaw := m.keep(t, g.Path(), cmd.Process.Pid)
		end := clock.Now().Add(time.Duration(rand.IntN(3000)) * time.Microsecond)
		g.Until(end)
		if now := clock.Now(); now > end { // this process lost the processor, and the guard was open until now
			t.Logf("the end was set %v late", now.Sub(end))
			end = now
		}
		// What it sends when it goes on is late by more than may be underway.
		eventually(t, "the lease is over", func() bool { return clock.Now() > end.Add(2*m.underway) })
		release()
		thaw()
		thawed := clock.Now()
		eventually(t, "it goes on, and is refused", func() bool {
			held := false
			for k := range boxes {
				held = held || k > 0 && b.Members[k].Alive.Load() != 0
			}
			return !held && clock.Boot(b.Members[0].Alive.Load()) > thawed
		})
		wait := 10 * time.Millisecond
		if (n+r)%20 == 0 {
			wait = 500 * time.Millisecond // the kernel sends again
		}
		<-time.After(wait)
		if r == rounds-1 {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			inner.Remove()
			g.Remove()
		}
		sum := c.judge(t, boxes, end, m.underway)
		c.add(m.name+", the writer alone, "+what, sum-before)
		before = sum
		if r < rounds-1 {
			g.Until(forever)
		}
	}
}

// freezeParents keeps parent and keeper from running until their lease is over, and the writer, too, if n is not
// negative. Then the writer goes on and, after wait, parent and keeper. The freeze does not count if it came too late.
func (c *count) freezeParents(t *testing.T, n int, m means, wait time.Duration) {
	_, name := guardNetwork(t)
	path, b, boxes := servers(t)
	lock := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(lock, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	parent := startPart(t, executable(t), "parent", nil, "board="+path, "lock="+lock, "command=pour", "contain="+name, "network=yes", "lease=2s")
	eventually(t, "the parent has told", func() bool { return b.Parent.Load() != 0 && b.Keeper.Load() != 0 })
	if list := cgroups(t, name); len(list) == 1 { // else it is dead
		boxes[0].observe(observe(t, list[0]), standing) // it runs after the guard
	}
	awaitAll(t, b, boxes)
	writer := int(b.Members[0].PID.Load())
	what, release, thaw, until := "", func() {}, func() {}, running
	if n >= 0 {
		until = m.underway
		what, release = holdAt(t, b, boxes, n)
	}
	b.Arm.Store(1) // it does not renew its lease any more
	parents := m.keep(t, "", parent.Process.Pid, int(b.Keeper.Load()))
	if list := cgroups(t, name); n >= 0 && len(list) == 1 {
		thaw = m.keep(t, list[0], writer)
	}
	end := clock.Boot(b.Deadline.Load())
	early := clock.Now() < end && alive(writer)
	eventually(t, "the lease is over", func() bool { return clock.Now() > end.Add(2*m.underway) })
	release()
	thaw()
	lived := alive(writer)
	if n < 0 && lived {
		eventually(t, "it is refused", func() bool { return clock.Boot(b.Members[0].Alive.Load()) > end || !alive(writer) })
	}
	<-time.After(wait)
	parents()
	_ = parent.Wait()
	eventually(t, "the cgroup is removed", func() bool { return len(cgroups(t, name)) == 0 })
	sum := c.judge(t, boxes, max(end, clock.Boot(b.Deadline.Load())), until)
	if early && lived {
		c.add(m.name+", with its parents, "+what, sum)
	} else {
		t.Log("the family was dead before the end of its lease")
	}
}

// newCount makes a count, and logs it when the test ends. It keeps servers and a guard until then: the kernel patches
// itself when the first one begins and when the last one ends, which takes longer than a freeze.
func newCount(t *testing.T) *count {
	newGuarded(t, nil)
	inboxes(t)
	c := &count{freezes: map[string]int{}, after: map[string][]time.Duration{}}
	t.Cleanup(func() {
		sum := 0
		for _, what := range slices.Sorted(maps.Keys(c.freezes)) {
			t.Logf("%5d %s", c.freezes[what], what)
			sum += c.freezes[what]
		}
		t.Logf("%5d freezes; %d bytes arrived", sum, c.bytes)
		if n := len(c.took); n > 0 {
			slices.Sort(c.took)
			t.Logf("from the guard to the receiver's clock %d datagrams took %v (median), %v (one in 1,000), %v (worst)", n, c.took[n/2], c.took[n-1-n/1000], c.took[n-1])
		}
		for server, late := range c.after {
			t.Logf("%5d times something arrived after the end at %s, at most %v", len(late), server, slices.Max(late))
		}
	})
	return c
}

// TestGuardFreezes: a writer is frozen before each of the steps of a write, or at some point, its lease ends, and it
// goes on. Nothing arrives after the end at servers for datagrams, HTTP, mail and, if SUPERVISE_POSTGRES is the address
// of one, PostgreSQL, by the kernel's clock. Either the writer alone is frozen, and nobody kills it, or parent and
// keeper are, too, and go on after it.
func TestGuardFreezes(t *testing.T) {
	c := newCount(t)
	const rounds = 11
	for n := range long.FullOr(1728, 6) { // of each six, three are one freeze: 10,368, or 36
		m, all := allMeans[n%3], n/3%2 == 1
		t.Run(fmt.Sprintf("%d,%s,all=%t", n, m.name, all), func(t *testing.T) {
			t.Parallel()
			if all {
				c.freezeParents(t, n/6+5*(n%3), m, 10*time.Millisecond)
			} else {
				c.freezeWriter(t, n/6*rounds+5*(n%3), rounds, m)
			}
		})
	}
}

// TestGuardOverlaps: on a starved machine keepers were seen to be late by these times, so that a family overlapped with
// its successor. Parent and keeper get no processor for so long, and the family runs on: nothing of it arrives after
// the end.
func TestGuardOverlaps(t *testing.T) {
	c := newCount(t)
	for _, late := range []time.Duration{310 * time.Millisecond, 44 * time.Millisecond, 9 * time.Millisecond} {
		for _, m := range allMeans {
			t.Run(fmt.Sprintf("%v,%s", late, m.name), func(t *testing.T) {
				t.Parallel()
				c.freezeParents(t, -1, m, late)
			})
		}
	}
}
