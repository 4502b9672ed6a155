// Package cluster runs several real elect run processes on this machine, for the
// verbs that show or measure a takeover. They are this same program, executed
// again.
//
// A Cluster may be used by any number of goroutines. Close kills everything that was started and returns when all of it
// is dead. If this process itself is killed, the kernel kills the candidates (on Linux), and their keepers kill the
// commands.
package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect/internal/spawn"
)

// Cluster is the candidates of one election.
type Cluster struct {
	Program string   // the elect program itself
	Args    []string // the arguments before --id: run, --election …
	Command []string // of each candidate
	Stdout  *os.File // of each command; nil is none
	Dir     string   // of each candidate; "": that of this process
	Env     []string // in addition to this process's

	// Stderr is called for each line that a candidate writes to stderr, by a goroutine for each candidate. nil: none.
	Stderr func(id, line string)

	starter spawn.Starter

	mu      sync.Mutex
	all     []*Candidate
	closing bool
}

// Candidate is one elect run.
type Candidate struct {
	ID  string
	PID int

	cmd  *exec.Cmd
	done chan struct{} // it has ended and all its output was read
	code int           // after done: its exit code, or 128+n

	mu      sync.Mutex
	lines   []string
	changed chan struct{} // closed at each new line and at the end
	ended   bool
}

// Self returns the path of this program, for [Cluster.Program].
func Self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("this program's own file is not known: %w", err)
	}
	return path, nil
}

// Start starts a candidate.
func (f *Cluster) Start(id string) (*Candidate, error) {
	cmd := exec.Command(f.Program, slices.Concat(f.Args, []string{"--id", id, "--"}, f.Command)...)
	if f.Stdout != nil {
		cmd.Stdout = f.Stdout
	}
	return f.Spawn(id, cmd)
}

// Spawn starts cmd as one of the candidates, with its arguments, input and output. Environment, directory and stderr
// are the cluster's; cmd.Env comes last.
func (f *Cluster) Spawn(id string, cmd *exec.Cmd) (*Candidate, error) {
	c := &Candidate{ID: id, cmd: cmd, done: make(chan struct{}), changed: make(chan struct{})}
	c.cmd.Args[0] = "elect"
	c.cmd.Dir = f.Dir
	c.cmd.Env = slices.Concat(clean(os.Environ()), f.Env, cmd.Env)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("candidate %s: %w", id, err)
	}
	c.cmd.Stderr = w
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		err = errors.New("the others are being ended")
	} else {
		err = f.starter.Start(c.cmd)
	}
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("candidate %s: %w", id, err)
	}
	c.PID = c.cmd.Process.Pid
	f.all = append(f.all, c)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer r.Close()
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			c.say(lines.Text())
			if f.Stderr != nil {
				f.Stderr(id, lines.Text())
			}
		}
	}()
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait() // the process state says more
		// The command shares stderr, and outlives a killed candidate for a moment.
		select {
		case <-read:
		case <-time.After(patience):
		}
		c.code = c.cmd.ProcessState.ExitCode()
		if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			c.code = 128 + int(status.Signal())
		}
		c.mu.Lock()
		c.ended = true
		close(c.changed)
		c.mu.Unlock()
	}()
	return c, nil
}

// SpawnRead is Spawn of a process whose output the caller reads, and closes.
func (f *Cluster) SpawnRead(id string, cmd *exec.Cmd) (*Candidate, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	cmd.Stdout = w
	c, err := f.Spawn(id, cmd)
	if err != nil {
		_ = r.Close()
		return nil, nil, err
	}
	return c, r, nil
}

// clean removes the settings of a surrounding elect run from the environment.
func clean(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(pair string) bool { return strings.HasPrefix(pair, "ELECT_") })
}

func (c *Candidate) say(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Said returns how many lines the candidate has written to stderr so far, as a start for [Candidate.Await].
func (c *Candidate) Said() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// Lines returns the last n lines that the candidate has written to stderr, or
// fewer.
func (c *Candidate) Lines(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines[max(0, len(c.lines)-n):])
}

// Await waits for a line that matches, from that number on. It fails if the candidate ends without one, and when ctx
// ends.
func (c *Candidate) Await(ctx context.Context, from int, match *regexp.Regexp) error {
	for {
		c.mu.Lock()
		for ; from < len(c.lines); from++ {
			if match.MatchString(c.lines[from]) {
				c.mu.Unlock()
				return nil
			}
		}
		ended, changed := c.ended, c.changed
		c.mu.Unlock()
		last := strings.Join(c.Lines(1), "")
		if ended {
			return fmt.Errorf("candidate %s ended with %d instead of saying %q; it said last: %q", c.ID, c.code, match, last)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("candidate %s did not say %q: %w; it said last: %q", c.ID, match, context.Cause(ctx), last)
		}
	}
}

// Signal sends a signal to the candidate itself.
func (c *Candidate) Signal(sig syscall.Signal) error { return c.cmd.Process.Signal(sig) }

// Done is closed when the candidate has ended.
func (c *Candidate) Done() <-chan struct{} { return c.done }

// Code returns the exit code of a candidate that is done, or 128+n if signal n
// ended it.
func (c *Candidate) Code() int {
	<-c.done
	return c.code
}

// Live returns the candidates that have not ended.
func (f *Cluster) Live() []*Candidate {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.all), func(c *Candidate) bool {
		select {
		case <-c.done:
			return true
		default:
			return false
		}
	})
}

// patience is how long a process may take to end after it was told to.
const patience = 5 * time.Second

// Close ends all candidates, and kills those that do not end when told to.
func (f *Cluster) Close() {
	f.mu.Lock()
	f.closing = true
	f.mu.Unlock()
	live := f.Live()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, c := range live {
			_ = c.Signal(sig) // it may have ended just now
		}
		late := time.After(patience)
		for _, c := range live {
			select {
			case <-c.done:
			case <-late:
				late = nil
			}
			if late == nil {
				break
			}
		}
		if live = f.Live(); len(live) == 0 {
			break
		}
	}
	f.starter.Close()
}

// Kill kills a process at once, as kill -9 does, even if no Cluster has started it.
func Kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
