//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// started is a process that the cluster started itself.
type started struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{} // it has ended, and was waited for
}

// launch starts cmd with the marks of a node, or of what stands beside them. What
// it says goes to the end of the file log.
func (c *Cluster) launch(cmd *exec.Cmd, log string, env ...string) (*started, error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Env = slices.Concat(clean(cmd.Environ()), []string{clusterEnv + "=" + c.mark, dirEnv + "=" + c.cfg.Dir}, env)
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = out
	}
	if err := c.starter.Start(cmd); err != nil {
		return nil, err
	}
	s := &started{cmd: cmd, pid: cmd.Process.Pid, done: make(chan struct{})}
	c.waits.Go(func() {
		_ = cmd.Wait() // how it ended its state tells
		close(s.done)
	})
	return s, nil
}

// signal sends one; a process that has ended is none that fails.
func (s *started) signal(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v to process %d: %w", sig, s.pid, err)
	}
	return nil
}

// how is in which way one that is done has ended, such as "exit status 69".
func (s *started) how() string { return s.cmd.ProcessState.String() }

// clean leaves out what this process has of an election or a run outside.
func clean(env []string) []string {
	own := os.Environ()
	return slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		return (strings.HasPrefix(pair, "ELECT_") || strings.HasPrefix(pair, "CHAOS_")) && slices.Contains(own, pair)
	})
}

// logPath is where something of that name says what it has to say.
func (c *Cluster) logPath(name string) string { return filepath.Join(c.cfg.Dir, "log", name+".log") }
