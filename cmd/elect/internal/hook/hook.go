// Package hook runs an operator's commands beside an election, such as the one that prints a replica's position.
//
// A command is run by sh -c, without input, in a process group of its own. The group is killed when the command's
// time is over, when its context ends, and when the command has ended and left processes behind. Processes that have
// left the group, by setsid, are killed where there are cgroups, see [supervise.Containment.RunHook], and else go on. A
// Command may be used by any number of goroutines; each Run is a process of its own. An error has the end of the
// command's stderr.
package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/printable"
)

// Command is what to run.
type Command struct {
	Text  string        // for sh -c
	Env   []string      // of the command; overrules this process's own
	Limit time.Duration // after which it is killed; 0: when its context ends
	Join  bool          // Run waits until all of it is dead, even if a process of it cannot be killed for some time

	// Observe is told the Name and the time of each run, if it is not nil.
	Name    string
	Observe func(name string, took time.Duration)

	// Containment is how it is held together. It may be nil, or point to nil.
	Containment *atomic.Pointer[supervise.Containment]
}

// The greatest sizes, in bytes.
const (
	maxOutput = 4 << 10 // of the output; for a line, more is an error
	maxTold   = 200     // of stderr, in an error
)

// delay is the time between SIGTERM and SIGKILL, and how long a process that has left the group may hold the output
// open.
const delay = time.Second

// Line runs the command, which has to print one line, and returns that line.
func (c *Command) Line(ctx context.Context, env ...string) (string, error) {
	out, beyond, err := c.run(ctx, env)
	switch {
	case err != nil:
		return "", err
	case beyond:
		return "", fmt.Errorf("it printed more than %d bytes", maxOutput)
	}
	line := strings.TrimSpace(out)
	switch {
	case line == "":
		return "", errors.New("it printed nothing; want one line")
	case strings.ContainsAny(line, "\n\r"):
		return "", fmt.Errorf("it printed %d lines, beginning with %.40q; want one line", 1+strings.Count(line, "\n"), line)
	}
	return line, nil
}

// Run runs the command and returns the beginning of its stdout.
func (c *Command) Run(ctx context.Context, env ...string) (string, error) {
	out, _, err := c.run(ctx, env)
	return out, err
}

// run returns the beginning of the command's stdout, and whether there is more.
func (c *Command) run(ctx context.Context, env []string) (string, bool, error) {
	if c.Observe != nil {
		begun := time.Now()
		defer func() { c.Observe(c.Name, time.Since(begun)) }()
	}
	if c.Limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("it took longer than %v, and was killed", c.Limit))
		defer stop()
	}
	out, errs := &head{most: maxOutput}, &tail{most: maxTold}
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Text)
	cmd.Env = append(append(os.Environ(), c.Env...), env...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, delay
	ownGroup(cmd)
	patience := delay
	if c.Join {
		patience = math.MaxInt64
	}
	var contained *supervise.Containment
	if c.Containment != nil {
		contained = c.Containment.Load()
	}
	err := contained.RunHook(cmd, patience)
	endGroup(cmd, patience)
	switch {
	case ctx.Err() != nil:
		return "", false, context.Cause(ctx)
	case err != nil:
		if told := errs.text(); told != "" {
			err = fmt.Errorf("%w: %s", err, told)
		}
		return "", false, err
	}
	return out.b.String(), out.beyond, nil
}

// head keeps the beginning of the output.
type head struct {
	b      bytes.Buffer
	most   int
	beyond bool
}

func (h *head) Write(p []byte) (int, error) {
	room := min(len(p), h.most-h.b.Len())
	h.b.Write(p[:room])
	h.beyond = h.beyond || room < len(p)
	return len(p), nil
}

// tail keeps the end of the output.
type tail struct {
	b    []byte
	most int
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - t.most; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

// text is the kept output in one line that can be printed.
func (t *tail) text() string {
	return printable.Line(string(t.b), t.most)
}
