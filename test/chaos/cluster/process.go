//go:build linux

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/proc"
)

// The marks in the environment of all processes of a cluster. Workers use the first two.
const (
	dirEnv       = "CHAOS_DIR"     // of the run
	nodeEnv      = "CHAOS_NODE"    // the node's number
	clusterEnv   = "CHAOS_CLUSTER" // the cluster; see mark
	auxiliaryEnv = "CHAOS_BESIDE"  // its name, if it belongs to no node
)

// keeperName is argv[0] of a keeper.
const keeperName = "elect-keeper"

// process is a process of a cluster. A descriptor holds it, so that a signal reaches it or no
// process. close releases it.
type process struct {
	pid, ppid int
	start     int // ticks since the machine's start
	node      int // -1: none
	auxiliary string
	name      string // argv[0]
	fd        int    // a pidfd
}

func (p *process) close() { _ = unix.Close(p.fd) }

// signal sends a signal; it succeeds if the process has ended.
func (p *process) signal(sig unix.Signal) error {
	if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("%v to process %d: %w", sig, p.pid, err)
	}
	return nil
}

// ended reports whether it ends within that time; 0 checks once.
func (p *process) ended(within time.Duration) bool { return readable(p.fd, within) }

// readable reports whether a descriptor becomes readable within that time.
func readable(fd int, within time.Duration) bool {
	late := time.Now().Add(within)
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, int(max(0, time.Until(late)).Milliseconds()))
		if n > 0 || err != unix.EINTR {
			return n > 0
		}
	}
}

// still reports whether all threads of a process are stopped, or wait in the kernel without
// receiving signals, or have ended.
func (p *process) still() bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid))
	if err != nil {
		return true
	}
	for _, t := range tasks {
		s, ok := proc.ReadAt(fmt.Sprintf("%d/task/%s", p.pid, t.Name()))
		if ok && !strings.ContainsRune("TtZXD", rune(s.State)) {
			return false
		}
	}
	return true
}

// alive reports whether the process with this start time exists.
func alive(pid, start int) bool {
	s, ok := proc.Read(pid)
	return ok && s.Start == start
}

// processes returns all processes whose environment has a wanted mark in clusterEnv, by id. The
// caller closes them.
func processes(want func(mark string) bool) []*process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []*process
	var blank []int // processes without an environment, such as during an exec
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := environ(pid)
		switch {
		case err != nil:
		case len(env) == 0:
			blank = append(blank, pid)
		case want(value(env, clusterEnv)):
			if p := hold(pid); p != nil {
				// Read again, now that it certainly belongs to this process.
				env, err = environ(pid)
				if err == nil && want(value(env, clusterEnv)) && !p.ended(0) {
					p.mark(env)
					found = append(found, p)
				} else {
					p.close()
				}
			}
		}
	}
	for _, pid := range blank {
		s, ok := proc.Read(pid)
		i := slices.IndexFunc(found, func(p *process) bool { return ok && p.pid == s.Parent })
		if i < 0 || s.State == 'Z' {
			continue
		}
		if p := hold(pid); p != nil {
			if p.ppid != s.Parent || p.ended(0) {
				p.close()
				continue
			}
			p.node, p.auxiliary = found[i].node, found[i].auxiliary
			found = append(found, p)
		}
	}
	return found
}

// hold opens a process; nil if it has gone.
func hold(pid int) *process {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	p := &process{pid: pid, node: -1, fd: fd}
	s, ok := proc.Read(pid)
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // a process that is about to end has none
	if !ok || p.ended(0) {
		p.close()
		return nil
	}
	p.ppid, p.start = s.Parent, s.Start
	name, _, _ := bytes.Cut(args, []byte{0})
	p.name = string(name)
	return p
}

func environ(pid int) ([]string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"), nil
}

// value is that of a variable; empty if there is none.
func value(env []string, name string) string {
	for _, pair := range env {
		if n, v, _ := strings.Cut(pair, "="); n == name {
			return v
		}
	}
	return ""
}

// mark sets the process's node and name from its environment.
func (p *process) mark(env []string) {
	p.auxiliary = value(env, auxiliaryEnv)
	if n, err := strconv.Atoi(value(env, nodeEnv)); err == nil && p.auxiliary == "" {
		p.node = n
	}
}

func closeAll(all []*process) {
	for _, p := range all {
		p.close()
	}
}

// describe describes a process to help find why something does not end.
func (p *process) describe() string {
	s, _ := proc.Read(p.pid)
	where, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", p.pid))
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	text := strings.ReplaceAll(strings.TrimRight(string(args), "\x00"), "\x00", " ")
	return fmt.Sprintf("%d (parent %d, state %c in %s): %.80s", p.pid, s.Parent, max(s.State, '?'), where, text)
}

// ownMark identifies a cluster: the id and the start time of the harness's process, and a number,
// by which the next cluster knows whether it has gone.
func ownMark(number uint64) (string, error) {
	s, ok := proc.ReadAt("self")
	if !ok {
		return "", errors.New("/proc does not show this process")
	}
	return fmt.Sprintf("%d.%d.%x", os.Getpid(), s.Start, number), nil
}

// orphaned reports whether the harness of a mark has gone.
func orphaned(mark string) bool {
	parts := strings.Split(mark, ".")
	if len(parts) != 3 {
		return false
	}
	pid, err1 := strconv.Atoi(parts[0])
	start, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && !alive(pid, start)
}

// sweep kills the remains of harnesses that have gone.
func sweep() {
	for _, p := range processes(orphaned) {
		_ = p.signal(unix.SIGKILL) // it may belong to another user
		p.close()
	}
}
