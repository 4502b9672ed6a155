//go:build linux

package address

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/chaos/network"
)

// mover is what moves the address: a process on each machine.
type mover interface {
	start(i int)
	// faults are what can be done to the process of the machine that has the address.
	faults() []fault
}

// fault is one of them. undo makes the machine whole again.
type fault struct {
	name string
	do   func(i int)
	undo func(i int)
	// dead is whether nobody can remove the address of that machine: it must only not answer.
	dead bool
	// lease is whether the keeper has until the end of the lease to remove it: on a machine whose load leaves it no
	// processor for that time the address is still there then, and must not answer.
	lease bool
}

// elects are three candidates of elect run, among themselves.
type elects struct {
	s       *rig
	program string
	profile string
	env     []string
	all     [machines]*os.Process
}

func (e *elects) url() string {
	var voters []string
	for i := range machines {
		voters = append(voters, fmt.Sprintf("n%d@%s", i+1, e.s.net.Addr(i)))
	}
	return "peer://" + strings.Join(voters, ",") + "?insecure=true"
}

func (e *elects) start(i int) {
	id := fmt.Sprint("n", i+1)
	cmd := e.s.net.Command(i, e.program, "run", "--election", e.url(), "--name", "address", "--id", id, "--profile", e.profile,
		"--data", filepath.Join(e.s.dir, "data", id), "--restart", "always", "--log-time", "--grace", "50ms",
		"--address", ipv4+"/24@eth0", "--address", ipv6+"/64@eth0", "--", "sleep", "infinity")
	e.launch(i, cmd)
}

// launch starts the process of a machine, with a log.
func (e *elects) launch(i int, cmd *exec.Cmd) {
	cmd.Env = append(cmd.Env, e.env...)
	log, err := os.OpenFile(filepath.Join(e.s.dir, fmt.Sprint("n", i+1, ".log")), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.s.t.Fatal(err)
	}
	cmd.Stderr = log
	e.all[i] = e.s.start(cmd)
	_ = log.Close()
}

// keeper is the pid of the keeper of the command on a machine; 0 if there is none.
func (e *elects) keeper(i int) int {
	for _, pid := range harness.Children(e.all[i].Pid) {
		if len(harness.Children(pid)) > 0 {
			return pid
		}
	}
	e.s.t.Errorf("machine %d: elect run has no keeper with a command", i)
	return 0
}

// verb runs a verb of an operator.
func (e *elects) verb(args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	cmd := e.s.net.Command(network.Operator, e.program, append(args, "--election", e.url(), "address")...)
	out := make(chan error, 1)
	go func() {
		text, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%v: %w: %s", args, err, text)
		}
		out <- err
	}()
	select {
	case err := <-out:
		if err != nil {
			e.s.t.Log(err) // on a busy machine another one than was named may lead
		}
	case <-ctx.Done():
		e.s.t.Errorf("%v hangs", args)
	}
}

// signal signals processes; a pid of 0 is none.
func signal(sig syscall.Signal, pids ...int) {
	for _, pid := range pids {
		if pid > 0 {
			_ = syscall.Kill(pid, sig)
		}
	}
}

func (e *elects) faults() []fault {
	nothing := func(int) {}
	var keeper int
	isolate := func(i int) { e.s.set(network.Isolate(machines, i)) }
	return []fault{
		{name: "the command is killed", undo: nothing, do: func(i int) { signal(syscall.SIGKILL, harness.Children(e.keeper(i))...) }},
		{name: "elect is killed", undo: e.start, do: func(i int) { signal(syscall.SIGKILL, e.all[i].Pid) }},
		{name: "the keeper is killed", undo: nothing, do: func(i int) { signal(syscall.SIGKILL, e.keeper(i)) }},
		{name: "both are killed", dead: true, undo: e.start, do: func(i int) { signal(syscall.SIGKILL, e.all[i].Pid, e.keeper(i)) }},
		{name: "elect is stopped", lease: true, undo: func(i int) { signal(syscall.SIGCONT, e.all[i].Pid) }, do: func(i int) { signal(syscall.SIGSTOP, e.all[i].Pid) }},
		{name: "both are stopped", dead: true, undo: func(i int) { signal(syscall.SIGCONT, e.all[i].Pid, keeper) },
			do: func(i int) { keeper = e.keeper(i); signal(syscall.SIGSTOP, e.all[i].Pid, keeper) }},
		{name: "cut off from the others", lease: true, undo: func(int) { e.s.set(nil) }, do: isolate},
		{name: "elect transfer", undo: nothing, do: func(i int) { e.verb("transfer", "--to", fmt.Sprint("n", (i+1)%machines+1)) }},
		{name: "elect resign", undo: nothing, do: func(int) { e.verb("resign") }},
		{name: "SIGTERM", undo: e.start, do: func(i int) { signal(syscall.SIGTERM, e.all[i].Pid) }},
	}
}

func (s *rig) set(links network.Links) {
	if err := s.net.Set(links); err != nil {
		s.t.Error(err)
	}
}

// keepaliveds are three of keepalived, which speak VRRP 3 among themselves without multicast.
type keepaliveds struct {
	s        *rig
	interval string // advert_int
	all      [machines]*os.Process
	before   [machines][]int // the processes of an earlier life
}

// start waits until nothing of an earlier life is left, and removes its files: keepalived ends at once if a process of
// them is there, dead or alive, and the next fault would be that of a machine without a rival.
func (k *keepaliveds) start(i int) {
	harness.Eventually(k.s.t, "the earlier keepalived ends", func() bool { return !slices.ContainsFunc(k.before[i], alive) })
	program := harness.Need(k.s.t, "keepalived", "keepalived")
	host := func(i int) netip.Addr { return netip.MustParseAddrPort(k.s.net.Addr(i)).Addr() }
	var b bytes.Buffer
	fmt.Fprintf(&b, "global_defs {\n  vrrp_version 3\n  vrrp_garp_master_delay 1\n}\nvrrp_instance a {\n  state BACKUP\n  nopreempt\n  interface eth0\n  virtual_router_id 51\n  priority %d\n  advert_int %s\n", 150-10*i, k.interval)
	fmt.Fprintf(&b, "  unicast_src_ip %v\n  unicast_peer {\n", host(i))
	for o := range machines {
		if o != i {
			fmt.Fprintf(&b, "    %v\n", host(o))
		}
	}
	fmt.Fprintf(&b, "  }\n  virtual_ipaddress {\n    %s/24\n  }\n  virtual_ipaddress_excluded {\n    %s/64\n  }\n}\n", ipv4, ipv6)
	base := filepath.Join(k.s.dir, fmt.Sprint("keepalived", i))
	if err := os.WriteFile(base+".conf", b.Bytes(), 0o600); err != nil {
		k.s.t.Fatal(err)
	}
	for _, end := range []string{".pid", ".vrrp"} {
		_ = os.Remove(base + end)
	}
	cmd := k.s.net.Command(i, program, "--dont-fork", "--log-console", "--vrrp", "-f", base+".conf", "-p", base+".pid", "-r", base+".vrrp")
	log, err := os.OpenFile(base+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		k.s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	k.all[i] = k.s.start(cmd)
	_ = log.Close()
	harness.Eventually(k.s.t, "keepalived runs", func() bool { return len(harness.Children(cmd.Process.Pid)) > 0 })
}

func (k *keepaliveds) faults() []fault {
	var pids []int
	both := func(i int) []int {
		k.before[i] = append([]int{k.all[i].Pid}, harness.Children(k.all[i].Pid)...)
		return k.before[i]
	}
	return []fault{
		{name: "its parent is killed", undo: k.start, do: func(i int) { signal(syscall.SIGKILL, both(i)[0]) }},
		{name: "its child is killed", undo: func(int) {}, do: func(i int) { signal(syscall.SIGKILL, harness.Children(k.all[i].Pid)...) }},
		{name: "both are killed", undo: k.start, do: func(i int) { pids = both(i); signal(syscall.SIGKILL, pids...) }},
		{name: "both are stopped", undo: func(int) { signal(syscall.SIGCONT, pids...) }, do: func(i int) { pids = both(i); signal(syscall.SIGSTOP, pids...) }},
		{name: "cut off from the others", undo: func(int) { k.s.set(nil) }, do: func(i int) { k.s.set(network.Isolate(machines, i)) }},
		{name: "SIGTERM", undo: k.start, do: func(i int) { signal(syscall.SIGTERM, both(i)[0]) }},
	}
}

// outcome is what came of one fault.
type outcome struct {
	taken bool                   // another machine answers
	gap   map[byte]time.Duration // without answers, by family
	twice time.Duration          // two machines sent from the address
	both  time.Duration          // two machines had the address
	left  int                    // how many have it in the end
}
