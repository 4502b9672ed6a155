//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Without control groups, a node is starved by other processes: its threads have the lowest
// priority, if that can be undone, and programs that burn run beside it.

// groups are the starved nodes, and their means.
type groups struct {
	once  sync.Once
	place *hierarchy // nil: there are none
	why   error      // the reason if place is nil

	mu        sync.Mutex
	throttled map[int]throttle
}

// throttle is the means that starves one node of processor time.
type throttle struct {
	percent int
	group   string       // directory of its control group; "" without
	burners []*Auxiliary // without a control group
}

// Quota is nil where control groups can limit the processors of a node, and otherwise the reason.
// Starve uses other means there.
func Quota() error {
	h, err := findHierarchy()
	if err == nil {
		err = h.try()
	}
	return err
}

// Starve leaves node i, with all its processes, that many per cent of one processor, 1 to 100,
// until Feed, across restarts. Without control groups it competes with programs that burn; then all
// other processes do, too.
func (c *Cluster) Starve(i, percent int) error {
	if percent < 1 || percent > 100 {
		return fmt.Errorf("cluster: %d%% of a processor; want 1 to 100", percent)
	}
	g := &c.groups
	g.once.Do(func() {
		if g.place, g.why = findHierarchy(); g.why == nil {
			if g.why = g.place.try(); g.why != nil {
				g.place = nil
			}
		}
	})
	if err := c.Feed(i); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var h throttle
	var err error
	if g.place != nil {
		h.group, err = g.place.bound(c.mark, c.ID(i), percent)
	} else {
		h.burners, err = c.burn(c.ID(i), percent)
	}
	h.percent = percent
	if g.throttled == nil {
		g.throttled = map[int]throttle{}
	}
	g.throttled[i] = h
	if err != nil {
		return fmt.Errorf("cluster: %s cannot be starved: %w", c.ID(i), err)
	}
	return c.weaken(i, h)
}

// weaken starves all processes of a node.
func (c *Cluster) weaken(i int, h throttle) error {
	done := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		all := c.find(func(p *process) bool { return p.node == i })
		for _, p := range all {
			if done[p.pid] {
				continue
			}
			done[p.pid], fresh = true, true // it may have started others before
			if err := c.groups.take(p, h.group); err != nil {
				closeAll(all)
				return fmt.Errorf("cluster: %s cannot be starved: %w", c.ID(i), err)
			}
		}
		closeAll(all)
	}
	return nil
}

// enroll starves a process that was just started in a starved node.
func (c *Cluster) enroll(i, pid int) error {
	g := &c.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	h, ok := g.throttled[i]
	if !ok {
		return nil
	}
	// It is a child of this process: until it is waited for, which may be now, the id is its own.
	// Its children are in its group.
	if h.group != "" {
		err := write(filepath.Join(h.group, procs), strconv.Itoa(pid))
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return err
	}
	if unix.Geteuid() == 0 {
		return nice(pid, hungry)
	}
	return nil
}

// hungry is the priority of a starved thread without control groups.
const hungry = 19

// take starves one process.
func (g *groups) take(p *process, group string) error {
	if group == "" {
		if unix.Geteuid() != 0 {
			return nil // it could not be given back
		}
		return nice(p.pid, hungry)
	}
	err := write(filepath.Join(group, procs), strconv.Itoa(p.pid))
	if p.ended(0) {
		return g.place.back(p.pid) // in case the id belongs to another process by now
	}
	return err
}

// Feed undoes Starve.
func (c *Cluster) Feed(i int) error {
	g := &c.groups
	g.mu.Lock()
	h, ok := g.throttled[i]
	delete(g.throttled, i)
	g.mu.Unlock()
	if !ok {
		return nil
	}
	if h.group != "" {
		if err := g.place.lift(h.group); err != nil {
			return fmt.Errorf("cluster: %s: %w", c.ID(i), err)
		}
		return nil
	}
	var errs []error
	for _, b := range h.burners {
		errs = append(errs, b.End())
	}
	if unix.Geteuid() == 0 {
		all := c.find(func(p *process) bool { return p.node == i })
		for _, p := range all {
			errs = append(errs, nice(p.pid, 0))
		}
		closeAll(all)
	}
	return errors.Join(errs...)
}

// dissolve removes the remaining groups.
func (c *Cluster) dissolve() error {
	if c.groups.place == nil {
		return nil
	}
	return c.groups.place.remove(c.mark)
}

// most is the greatest number of burning programs for each processor.
const most = 8

// burn starts as many programs as leave a competing process about that share of a processor.
func (c *Cluster) burn(id string, percent int) ([]*Auxiliary, error) {
	each := 1
	if unix.Geteuid() != 0 { // without priorities each of them gets as much
		each = max(1, min(most, 100/percent-1))
	}
	var all []*Auxiliary
	for n := range each * runtime.NumCPU() {
		b, err := c.StartAuxiliary(fmt.Sprintf("%s-burn%d", id, n+1), nil, c.cfg.Programs.Worker, "burn")
		if err != nil {
			return all, err
		}
		all = append(all, b)
	}
	return all, nil
}

// nice sets the priority of all threads of a process. Threads that they start inherit it.
func nice(pid, to int) error {
	for range 2 { // again for threads started meanwhile
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return nil // it has ended
		}
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, tid, to); err != nil && err != unix.ESRCH {
				return fmt.Errorf("the priority of thread %d: %w", tid, err)
			}
		}
	}
	return nil
}

// The files of control groups, and the directory of all groups of a cluster.
const (
	procs       = "cgroup.procs"
	groupPrefix = "elect-chaos-"
)

// hierarchy is a tree of control groups that limit processors.
type hierarchy struct {
	version int    // 1 or 2
	root    string // of the tree
	home    string // the group of this process
}

// findHierarchy looks for a hierarchy. If version 1 has the controller, version 2 does not.
func findHierarchy() (*hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return chooseHierarchy(string(mounts), string(own))
}

func chooseHierarchy(mounts, own string) (*hierarchy, error) {
	var found *hierarchy
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch {
		case f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "cpu"):
			found = &hierarchy{version: 1, root: f[1]}
		case f[2] == "cgroup2" && found == nil:
			found = &hierarchy{version: 2, root: f[1]}
		}
	}
	if found == nil {
		return nil, errors.New("no control groups are mounted")
	}
	for line := range strings.Lines(own) { // such as 3:cpu,cpuacct:/path, and 0::/path in version 2
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (found.version == 2 && f[0] == "0" || found.version == 1 && slices.Contains(strings.Split(f[1], ","), "cpu")) {
			found.home = filepath.Join(found.root, f[2])
			return found, nil
		}
	}
	return nil, fmt.Errorf("this process is in no group below %s", found.root)
}

// base is the parent group of a cluster's groups. In version 2, groups with processes cannot have
// limited subgroups, so it is at the root.
func (h *hierarchy) base(mark string) string {
	if h.version == 2 {
		return filepath.Join(h.root, groupPrefix+mark)
	}
	return filepath.Join(h.home, groupPrefix+mark)
}

// try makes a limited group and removes it.
func (h *hierarchy) try() error {
	mark, err := ownMark(uint64(time.Now().UnixNano()))
	if err != nil {
		return err
	}
	if _, err = h.bound(mark, "try", 50); err == nil {
		return h.remove(mark)
	}
	return errors.Join(fmt.Errorf("control groups cannot be used: %w", err), h.remove(mark))
}

// period is the time of a quota, in microseconds.
const period = 100_000

// bound makes a group with that many per cent of one processor.
func (h *hierarchy) bound(mark, name string, percent int) (group string, err error) {
	base := h.base(mark)
	group = filepath.Join(base, name)
	if err := os.MkdirAll(group, 0o755); err != nil {
		return "", err
	}
	quota := strconv.Itoa(period / 100 * percent)
	if h.version == 1 {
		if err := write(filepath.Join(group, "cpu.cfs_period_us"), strconv.Itoa(period)); err != nil {
			return "", err
		}
		return group, write(filepath.Join(group, "cpu.cfs_quota_us"), quota)
	}
	for _, above := range []string{h.root, base} {
		if err := write(filepath.Join(above, "cgroup.subtree_control"), "+cpu"); err != nil {
			return "", err
		}
	}
	return group, write(filepath.Join(group, "cpu.max"), quota+" "+strconv.Itoa(period))
}

// back moves a process to the group of this one.
func (h *hierarchy) back(pid int) error {
	err := write(filepath.Join(h.home, procs), strconv.Itoa(pid))
	if errors.Is(err, syscall.ESRCH) {
		return nil // it has ended
	}
	return err
}

// lift moves all processes of a group to the group of this process, and removes it.
func (h *hierarchy) lift(group string) error {
	late := time.Now().Add(settle)
	for {
		text, err := os.ReadFile(filepath.Join(group, procs))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			if err := h.back(pid); err != nil {
				return err
			}
		}
		if err = os.Remove(group); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Now().After(late) { // a dead process stays in it until it is waited for
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// remove removes a cluster's groups.
func (h *hierarchy) remove(mark string) error {
	base := h.base(mark)
	entries, err := os.ReadDir(base)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, h.lift(filepath.Join(base, e.Name())))
		}
	}
	return errors.Join(err, os.Remove(base))
}

// sweepGroups removes the groups of clusters whose harness has gone.
func sweepGroups() {
	h, err := findHierarchy()
	if err != nil {
		return
	}
	all, _ := filepath.Glob(h.base("*")) // the pattern is valid
	for _, dir := range all {
		if mark := strings.TrimPrefix(filepath.Base(dir), groupPrefix); orphaned(mark) {
			_ = h.remove(mark) // a remaining group does no harm
		}
	}
}

// write writes to a file of the kernel.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
