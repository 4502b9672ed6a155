//go:build linux

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
	"github.com/electd/elect/test/chaos/skew"
)

// namespaces tests a cluster on a network that a program outside cannot reach.
func namespaces(t *testing.T, programs Programs) {
	dir := t.TempDir()
	n, err := network.NewNamespaces(dir, 3)
	if errors.Is(err, network.ErrUnable) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, and so no cluster was tested in namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	s := newRig(t, Config{Dir: dir, Network: n, Programs: programs, Voters: 3, Kind: kind, Promise: 4 * promise})
	if s.outside.there == nil {
		t.Error("the operator is in this process's network; want one of its own")
	}
	l := s.start()
	s.must(n.Set(network.Isolate(3, l.Node)))
	next := s.after(l)
	if next.Node == l.Node {
		t.Errorf("%s leads, and no other hears it", s.ID(l.Node))
	}
	if m, err := s.Members(within(t)); err != nil || m.Nodes[l.Node] == nil {
		t.Errorf("%+v, %v: want that the operator reaches %s", m, err, s.ID(l.Node))
	}
	for late := within(t); ; { // an earlier answer may be from when no node could answer
		ctx, cancel := context.WithTimeout(t.Context(), 2*promise)
		_, err := s.Calm(ctx)
		cancel()
		if err == nil {
			t.Errorf("all is calm, and %s is cut off", s.ID(l.Node))
		}
		if err == nil || strings.Contains(err.Error(), s.ID(l.Node)) {
			break
		}
		if late.Err() != nil {
			t.Fatalf("%v; want no calm because of %s", err, s.ID(l.Node))
		}
	}
	s.must(n.Set(nil))
	s.calm()
	out, err := s.Operator(within(t), "status", "-o", "json")
	if err != nil || !strings.Contains(string(out), s.ID(next.Node)) {
		t.Errorf("elect status: %s, %v", out, err)
	}
}

// skewed tests a node in a time namespace, and one whose clock is bent. (Their effects are tested
// in their packages.)
func skewed(t *testing.T, programs Programs) {
	if err := skew.Able(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, and so no cluster was tested in time namespaces: %v", err)
	}
	clock, err := skew.New(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := clock.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := newPeers(t, Config{
		Programs: programs, Voters: 3, Kind: kind,
		Namespace: func(i int) (time.Duration, time.Duration) {
			return []time.Duration{time.Hour, 0, 0}[i], []time.Duration{2 * time.Hour, 0, 0}[i]
		},
		Clock: func(i int) *skew.Clock { return []*skew.Clock{nil, clock, nil}[i] },
	})
	s.start()
	if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/timens_offsets", s.Pid(0))); !strings.Contains(string(text), "3600") {
		t.Errorf("the namespace of %s: %s", s.ID(0), text)
	}
	s.lead(0) // the leader is found by its stamps, which have this process's time
	l := s.lead(1)
	clock.StepBoth(10 * promise)
	s.after(l)
	s.calm()
}

// burned is the share of a processor that the process uses in the next span, in per cent.
func burned(t *testing.T, pid int, span time.Duration) int {
	t.Helper()
	used := func() time.Duration {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			t.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(ns)
	}
	before, begin := used(), time.Now()
	<-time.After(span)
	return int(100 * (used() - before) / time.Since(begin))
}

// starve limits the processors of a node.
func starve(t *testing.T, programs Programs) {
	if err := Quota(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, and so no quota was tested: %v", err)
	}
	s := newPeers(t, Config{Programs: programs, Voters: 3, Promise: 4 * promise})
	l := s.start()
	i := (l.Node + 1) % 3
	// A process in it that takes all that it gets. It is a child of this process with the marks of
	// a node's.
	burner := exec.Command(programs.Worker, "burn")
	fat, err := s.launch(burner, s.Log(i), nodeEnv+"="+strconv.Itoa(i))
	s.must(err)
	s.must(s.Starve(i, 5))
	all, err := s.grasp(i, Family)
	s.must(err)
	for _, p := range all {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.pid)); !strings.Contains(string(text), groupPrefix+s.mark+"/"+s.ID(i)) {
			t.Errorf("%s is in no group of the cluster's: %s", p.describe(), text)
		}
	}
	closeAll(all)
	if during := burned(t, fat.pid, time.Second); during > 15 {
		t.Errorf("it took %d%% of a processor under a quota of 5%%", during)
	}
	// The quota holds for the next life, too, and ends with Feed.
	old := s.Pid(i)
	s.must(s.Kill(i, Node))
	s.again(i, old)
	if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.Pid(i))); !strings.Contains(string(text), groupPrefix) {
		t.Errorf("%s was started again in no group of the cluster's: %s", s.ID(i), text)
	}
	s.must(s.Feed(i))
	for _, pid := range []int{fat.pid, s.Pid(i)} {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)); strings.Contains(string(text), groupPrefix) {
			t.Errorf("process %d is in a group of the cluster's yet: %s", pid, text)
		}
	}
	s.must(fat.signal(syscall.SIGKILL))
	s.calm()
	s.must(s.Starve(i, 50)) // Close undoes it
	s.must(s.Close())
	if _, err := os.Stat(s.groups.place.base(s.mark)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its groups: %v; want none", err)
	}
}

// starveWithout is the same without control groups.
func starveWithout(t *testing.T, programs Programs) {
	s := newPeers(t, Config{Programs: programs, Voters: 3, Promise: 4 * promise})
	s.groups.once.Do(func() {})
	l := s.start()
	i := (l.Node + 1) % 3
	s.must(s.Starve(i, 10))
	nices := func() (all []int) {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.Pid(i)))
		s.must(err)
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			n, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
			if err == nil {
				all = append(all, 20-n) // the form of the system call
			}
		}
		return all
	}
	if burners := len(s.auxiliaries); burners == 0 {
		t.Error("nothing contends with it")
	}
	if unix.Geteuid() == 0 {
		for _, n := range nices() {
			if n != hungry {
				t.Errorf("a thread has priority %d; want %d", n, hungry)
			}
		}
	}
	s.must(s.Feed(i))
	if len(s.auxiliaries) != 0 {
		t.Errorf("%d programs burn yet", len(s.auxiliaries))
	}
	if unix.Geteuid() == 0 {
		for _, n := range nices() {
			if n == hungry {
				t.Errorf("a thread has priority %d yet", n)
			}
		}
	}
	s.calm()
}

// closes closes a cluster in which one process ignores SIGTERM, and another is frozen.
func closes(t *testing.T, programs Programs) {
	s := newPeers(t, Config{Programs: programs, Voters: 3, Kind: kind})
	s.start()
	s.patience = 2 * time.Second
	ready := filepath.Join(t.TempDir(), "ready")
	deaf, err := s.StartAuxiliary("deaf", []string{"READY=" + ready}, "sh", "-c", `trap "" TERM; : > "$READY"; while :; do sleep 0.1; done`)
	s.must(err)
	ctx := within(t)
	for {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		select {
		case <-time.After(glance):
		case <-ctx.Done():
			t.Fatal("it does not begin")
		}
	}
	s.must(s.Stop(0, Node))
	s.must(s.Stop(2, Family))
	err = s.Close()
	if err == nil || !strings.Contains(err.Error(), "deaf did not end within 2s of SIGTERM") {
		t.Errorf("%v; want that deaf did not end", err)
	}
	if again := s.Close(); again == nil || again.Error() != err.Error() {
		t.Errorf("closed again: %v; want the same", again)
	}
	s.Cluster.closed = func() error { return nil } // the error was expected
	select {
	case <-deaf.Done():
	default:
		t.Error("deaf is there")
	}
	if left := processes(func(mark string) bool { return mark == s.mark }); len(left) > 0 {
		t.Errorf("%d processes are left, one is %s", len(left), left[0].describe())
	}
	for i := range 3 {
		if starts, ends := s.told(judge.Start, i), s.told(judge.End, i); starts != ends {
			t.Errorf("%d starts and %d ends of %s", starts, ends, s.ID(i))
		}
	}
	if err := s.Start(0); err == nil {
		t.Error("a node was started after Close")
	}
}

// The environment of a harness that is killed.
const (
	doomedDir   = "CLUSTER_TEST_DIR"
	doomedElect = "CLUSTER_TEST_ELECT"
)

// TestDoomed is not a test: it is the harness that the test sweeps kills.
func TestDoomed(t *testing.T) {
	dir := os.Getenv(doomedDir)
	if dir == "" {
		t.SkipNow()
	}
	elect := os.Getenv(doomedElect)
	c, err := New(Config{Dir: dir, Programs: Programs{elect, filepath.Join(filepath.Dir(elect), "worker")}, Election: File, Voters: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := c.Start(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Calm(within(t)); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nmark %s\n", c.mark)
	select {} // until it is killed
}

// sweeps kills a harness: the kernel kills what it has started, and the next cluster the rest.
func sweeps(t *testing.T, programs Programs) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	harness := exec.Command(self, "-test.run=^TestDoomed$", "-test.v")
	harness.Env = append(os.Environ(), doomedDir+"="+t.TempDir(), doomedElect+"="+programs.Elect)
	out, err := harness.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = harness.Process.Kill() }()
	var mark string
	lines := bufio.NewScanner(out)
	for mark == "" && lines.Scan() {
		mark, _ = strings.CutPrefix(lines.Text(), "mark ")
		if mark == lines.Text() {
			mark = ""
		}
	}
	of := func(m string) bool { return m == mark }
	alive := processes(of)
	if len(alive) < 5 {
		t.Fatalf("the harness has %d processes; mark %q", len(alive), mark)
	}
	closeAll(alive)
	// A process that is not killed with the harness.
	stray := exec.Command(programs.Worker, "burn")
	stray.Env = append(os.Environ(), clusterEnv+"="+mark)
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stray.Process.Kill(); _ = stray.Wait() }()
	if orphaned(mark) {
		t.Fatal("the harness counts as gone")
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = harness.Wait() // it was killed
	ctx := within(t)
	for {
		all := processes(of)
		n := len(all)
		closeAll(all)
		if n == 1 {
			break
		}
		select {
		case <-time.After(glance):
		case <-ctx.Done():
			t.Fatalf("%d processes are there; want only the stray one", n)
		}
	}
	newRig(t, Config{Programs: programs, Election: File, Voters: 1})
	_ = stray.Wait()
	if status := stray.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("the stray process ended with %v", stray.ProcessState)
	}
}

// refusals tests what New and the methods refuse.
func refusals(t *testing.T, programs Programs) {
	good := Config{Dir: t.TempDir(), Programs: programs, Election: File, Voters: 1}
	for want, change := range map[string]func(*Config){
		"want Dir":         func(c *Config) { c.Dir = "" },
		"at least one":     func(c *Config) { c.Voters = 0 },
		`kind "paper"`:     func(c *Config) { c.Election = "paper" },
		"wants a Network":  func(c *Config) { c.Election = "" },
		"would join later": func(c *Config) { c.Size = 2 },
	} {
		cfg := good
		change(&cfg)
		if c, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
			if err == nil {
				_ = c.Close()
			}
		}
	}
	s := newRig(t, good)
	for name, err := range map[string]error{
		"upgrade": s.Upgrade(0, true), "starve": s.Starve(0, 0), "kill": s.Kill(0, Node), "stop": s.Stop(0, Family), "cont": s.Cont(0, Family),
	} {
		if err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if n := s.told(judge.Stop, 0); n != s.told(judge.Cont, 0) {
		t.Errorf("%d stops and %d conts", n, s.told(judge.Cont, 0))
	}
	if _, err := s.Members(t.Context()); err == nil {
		t.Error("a file election has members")
	}
	s.must(s.Down(0)) // it is down
	s.must(s.Feed(0))
}

// TestHierarchy selects from the mounted hierarchies, and writes the files of version 2.
func TestHierarchy(t *testing.T) {
	const v1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n"
	const v2 = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"
	for _, c := range []struct {
		mounts, own string
		version     int
		home        string
	}{
		{v2 + v1, "4:cpu,cpuacct:/a/b\n0::/c\n", 1, "/sys/fs/cgroup/cpu,cpuacct/a/b"},
		{v1, "1:cpu,cpuacct:/\n", 1, "/sys/fs/cgroup/cpu,cpuacct"},
		{v2, "0::/user.slice/x\n", 2, "/sys/fs/cgroup/unified/user.slice/x"},
		{"cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n", "1:cpuset:/\n", 0, ""},
		{v1, "1:memory:/\n", 0, ""},
	} {
		h, err := chooseHierarchy(c.mounts, c.own)
		if (err == nil) != (c.version != 0) || err == nil && (h.version != c.version || h.home != c.home) {
			t.Errorf("%q, %q: %+v, %v; want version %d, %s", c.mounts, c.own, h, err, c.version, c.home)
		}
	}

	root := t.TempDir()
	home := filepath.Join(root, "user")
	h := &hierarchy{version: 2, root: root, home: home}
	group := filepath.Join(root, groupPrefix+"m", "n1")
	for _, dir := range []string{home, group} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(root, "cgroup.subtree_control"), filepath.Join(filepath.Dir(group), "cgroup.subtree_control"), filepath.Join(group, "cpu.max")} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.bound("m", "n1", 7)
	if err != nil || got != group {
		t.Fatalf("%q, %v; want %q", got, err, group)
	}
	for path, want := range map[string]string{
		filepath.Join(root, "cgroup.subtree_control"): "+cpu", filepath.Join(filepath.Dir(group), "cgroup.subtree_control"): "+cpu",
		filepath.Join(group, "cpu.max"): "7000 100000",
	} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v; want %q", path, text, err, want)
		}
	}
}

// TestMarks distinguishes marks of live harnesses from those of dead ones.
func TestMarks(t *testing.T) {
	mark, err := ownMark(7)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := proc.ReadAt("self")
	if !ok {
		t.Fatal("/proc does not show this process")
	}
	for m, want := range map[string]bool{
		mark: false, "": false, "7": false, "x.y.z": false,
		fmt.Sprintf("%d.%d.7", os.Getpid(), s.Start+1): true, // its number is this one's by now
		fmt.Sprintf("%d.1.7", 1<<30):                   true,
	} {
		if orphaned(m) != want {
			t.Errorf("orphaned(%q) is %v", m, !want)
		}
	}
}
