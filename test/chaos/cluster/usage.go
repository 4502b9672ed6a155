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

// Usage is what a process of a node has of the machine, and which one it is.
type Usage struct {
	Pid int
	judge.Usage
}

// Usage measures node i's Voter. Of a program that embeds the library its
// goroutines are known too, if it is not frozen; they are 0 else.
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
		n, _ := strconv.Atoi(string(fields[0])) // of the lines that count it is a number
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

// goroutines asks a worker how many it has; 0 if it does not say.
func (c *Cluster) goroutines(p *process) int {
	before, ok := c.count(p.pid)
	// Without a file of its own, which one of an earlier process of that number is
	// not, it is not ready to be asked, and the signal would kill it.
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

// ticks is how many there are in a second in /proc/PID/stat. (It is fixed on all of
// Go's Linux systems.)
const ticks = 100

// count is what a worker of that number has counted.
type count struct {
	At         int64 `json:"at"`
	Goroutines int   `json:"goroutines"`
}

func (c *Cluster) count(pid int) (count, bool) {
	var n count
	text, err := os.ReadFile(filepath.Join(c.cfg.Dir, "usage", strconv.Itoa(pid)+".json"))
	return n, err == nil && json.Unmarshal(text, &n) == nil
}
