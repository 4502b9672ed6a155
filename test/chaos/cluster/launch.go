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

// started is a process that the cluster itself started.
type started struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{} // it has ended and was waited for
}

// launch starts cmd with the marks of a node, or of a process beside the nodes. Its output is
// appended to the file log.
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
		_ = cmd.Wait() // its state tells how it ended
		close(s.done)
	})
	return s, nil
}

// signal sends a signal; it succeeds if the process has ended.
func (s *started) signal(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v to process %d: %w", sig, s.pid, err)
	}
	return nil
}

// how describes how a finished process has ended, such as "exit status 69".
func (s *started) how() string { return s.cmd.ProcessState.String() }

// clean removes the variables of an election or a run of this process's own.
func clean(env []string) []string {
	own := os.Environ()
	return slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		return (strings.HasPrefix(pair, "ELECT_") || strings.HasPrefix(pair, "CHAOS_")) && slices.Contains(own, pair)
	})
}

// logPath is the path of the output of a process with that name.
func (c *Cluster) logPath(name string) string { return filepath.Join(c.cfg.Dir, "log", name+".log") }
