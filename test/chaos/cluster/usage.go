//go:build linux

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/test/chaos/judge"
)

// Usage is what a process of a node uses of the computer, and its id.
type Usage struct {
	Pid int
	judge.Usage
}

// Usage measures node i's Voter. For a program that uses the library it also counts its goroutines,
// if it is not frozen; otherwise they are 0.
func (c *Cluster) Usage(i int) (Usage, error) {
	all, err := c.grasp(i, Voter)
	if err != nil {
		return Usage{}, err
	}
	p := all[0]
	defer p.close()
	u := Usage{Pid: p.pid}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		return u, fmt.Errorf("cluster: %s: %w", c.ID(i), err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return u, fmt.Errorf("cluster: %s: %w", c.ID(i), err)
	}
	u.FDs = len(fds)
	for line := range bytes.Lines(status) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		n, _ := strconv.Atoi(string(fields[0])) // in these lines it is a number
		switch string(name) {
		case "Threads":
			u.Threads = n
		case "VmRSS":
			u.RSS = int64(n) << 10
		}
	}
	if p.ended(0) {
		return u, fmt.Errorf("cluster: the %v of %s: %w", Voter, c.ID(i), ErrNone)
	}
	if c.cfg.kind(i) != Command && !c.Frozen(i) {
		u.Goroutines = c.goroutines(p)
	}
	return u, nil
}

// told is how long a program may take to count its goroutines.
const told = time.Second

// goroutines asks a worker for its number of goroutines; 0 if it does not answer.
func (c *Cluster) goroutines(p *process) int {
	before, ok := c.count(p.pid)
	// Without a file of its own (one of an earlier process with that id does not count) it is not
	// ready to be asked, and the signal would kill it.
	if !ok || before.At < int64(p.start)*int64(time.Second/ticks) {
		return 0
	}
	if p.signal(unix.SIGUSR1) != nil {
		return 0
	}
	for late := time.Now().Add(told); time.Now().Before(late); {
		if now, ok := c.count(p.pid); ok && now.At > before.At {
			return now.Goroutines
		}
		if p.ended(time.Millisecond) {
			break
		}
	}
	return 0
}

// ticks is the number of ticks a second in /proc/PID/stat. (It is fixed on all Linux systems of
// Go.)
const ticks = 100

// count is what a worker with that id has counted.
type count struct {
	At         int64 `json:"at"`
	Goroutines int   `json:"goroutines"`
}

func (c *Cluster) count(pid int) (count, bool) {
	var n count
	text, err := os.ReadFile(filepath.Join(c.cfg.Dir, "usage", strconv.Itoa(pid)+".json"))
	return n, err == nil && json.Unmarshal(text, &n) == nil
}
