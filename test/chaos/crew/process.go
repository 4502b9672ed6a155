//go:build linux

package crew

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
)

// The marks in the environment of all processes of a crew. Workers go by the
// first two.
const (
	dirEnv    = "CHAOS_DIR"    // of the run
	nodeEnv   = "CHAOS_NODE"   // the node's number
	crewEnv   = "CHAOS_CREW"   // whose process it is: see mark
	besideEnv = "CHAOS_BESIDE" // what it is, of one that belongs to no node
)

// keeperName is argv[0] of a keeper.
const keeperName = "elect-keeper"

// process is a process of a crew. It is held by a descriptor, so that a signal
// reaches it or nobody. close lets go.
type process struct {
	pid, ppid int
	start     uint64 // ticks since the machine's start
	node      int    // -1: none
	beside    string
	name      string // argv[0]
	fd        int    // a pidfd
}

func (p *process) close() { _ = unix.Close(p.fd) }

// signal sends one; a process that has ended is none that fails.
func (p *process) signal(sig unix.Signal) error {
	if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("%v to process %d: %w", sig, p.pid, err)
	}
	return nil
}

// ended reports whether it has, within so long: 0 looks once.
func (p *process) ended(within time.Duration) bool { return readable(p.fd, within) }

// readable reports whether a descriptor can be read within so long.
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

// still reports whether all threads of a process are stopped, or wait in the
// kernel where no signal reaches them, or have ended.
func (p *process) still() bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid))
	if err != nil {
		return true
	}
	for _, t := range tasks {
		s, err := readStat(fmt.Sprintf("%d/task/%s", p.pid, t.Name()))
		if err == nil && !strings.ContainsRune("TtZXD", rune(s.state)) {
			return false
		}
	}
	return true
}

// stat is what is used of /proc/PID/stat.
type stat struct {
	state byte
	ppid  int
	start uint64
}

// readStat reads that of a process, or of a thread as PID/task/TID.
func readStat(of string) (stat, error) {
	text, err := os.ReadFile("/proc/" + of + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The name, in parentheses, may contain anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("/proc/%s/stat: %q", of, text)
	}
	ppid, err1 := strconv.Atoi(string(fields[1]))
	start, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	return stat{fields[0][0], ppid, start}, errors.Join(err1, err2)
}

// alive reports whether the process that had this start is there.
func alive(pid int, start uint64) bool {
	s, err := readStat(strconv.Itoa(pid))
	return err == nil && s.start == start
}

// processes returns all whose environment has mark among its values of crewEnv,
// by their ids. The caller closes them.
func processes(want func(mark string) bool) []*process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []*process
	var blank []int // who shows no environment: as one that is just about to become another program
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
		case want(value(env, crewEnv)):
			if p := hold(pid); p != nil {
				// Read again, now that it is this process's for certain.
				env, err = environ(pid)
				if err == nil && want(value(env, crewEnv)) && !p.ended(0) {
					p.mark(env)
					found = append(found, p)
				} else {
					p.close()
				}
			}
		}
	}
	for _, pid := range blank {
		s, err := readStat(strconv.Itoa(pid))
		i := slices.IndexFunc(found, func(p *process) bool { return err == nil && p.pid == s.ppid })
		if i < 0 || s.state == 'Z' {
			continue
		}
		if p := hold(pid); p != nil {
			if p.ppid != s.ppid || p.ended(0) {
				p.close()
				continue
			}
			p.node, p.beside = found[i].node, found[i].beside
			found = append(found, p)
		}
	}
	return found
}

// hold takes hold of a process; nil if it has gone.
func hold(pid int) *process {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	p := &process{pid: pid, node: -1, fd: fd}
	s, err := readStat(strconv.Itoa(pid))
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // of one that is about to end there is none
	if err != nil || p.ended(0) {
		p.close()
		return nil
	}
	p.ppid, p.start = s.ppid, s.start
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

// mark takes over what the environment says of whose it is.
func (p *process) mark(env []string) {
	p.beside = value(env, besideEnv)
	if n, err := strconv.Atoi(value(env, nodeEnv)); err == nil && p.beside == "" {
		p.node = n
	}
}

func closeAll(all []*process) {
	for _, p := range all {
		p.close()
	}
}

// describe is a process for people who look for why something does not end.
func (p *process) describe() string {
	s, _ := readStat(strconv.Itoa(p.pid))
	where, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", p.pid))
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	text := strings.ReplaceAll(strings.TrimRight(string(args), "\x00"), "\x00", " ")
	return fmt.Sprintf("%d (parent %d, state %c in %s): %.80s", p.pid, s.ppid, max(s.state, '?'), where, text)
}

// mark is who a crew is: the id and the start of the harness's process, and a
// number, by which the next one knows whether it has gone.
func ownMark(number uint64) (string, error) {
	s, err := readStat("self")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d.%x", os.Getpid(), s.start, number), nil
}

// orphaned reports whether a mark is one whose harness has gone.
func orphaned(mark string) bool {
	parts := strings.Split(mark, ".")
	if len(parts) != 3 {
		return false
	}
	pid, err1 := strconv.Atoi(parts[0])
	start, err2 := strconv.ParseUint(parts[1], 10, 64)
	return err1 == nil && err2 == nil && !alive(pid, start)
}

// sweep kills what a harness has left that has gone itself.
func sweep() {
	for _, p := range processes(orphaned) {
		_ = p.signal(unix.SIGKILL) // it may be somebody else's, whom we may not touch
		p.close()
	}
}
