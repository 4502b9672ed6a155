package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/cmd/elect/internal/printable"
)

// Limits of programs. Those that copy data have that of their caller's context.
const (
	short  = 10 * time.Second
	medium = 5 * time.Minute
	ample  = 1000 * time.Hour
)

const maxTold = 300 // bytes of a program's output in an error

// environment is that of PostgreSQL's programs: messages are in English, and no variable of libpq counts but those given.
func environment(more ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			env = append(env, v)
		}
	}
	return append(append(env, "LC_ALL=C"), more...)
}

// run runs a program of PostgreSQL to its end and returns its stdout. It is killed with all of its process group when
// ctx ends or the limit is over. What it says on stderr goes to the log, and its end into the error.
func (s *Server) run(ctx context.Context, limit time.Duration, env []string, name string, args ...string) (string, error) {
	return s.feed(ctx, limit, env, "", name, args...)
}

// feed is run with a text for stdin.
func (s *Server) feed(ctx context.Context, limit time.Duration, env []string, in, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %v, and was killed", name, limit))
	defer cancel()
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	var out bytes.Buffer
	errs := newPump(s.config().Output)
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = &out, errs, "/", environment(env...)
	cmd.Stdin = strings.NewReader(in)
	cmd.WaitDelay = time.Second // a process that has left the group holds the output open no longer
	if err := s.starter.Start(cmd); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	stop()
	errs.Close()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, printable.Line(errs.Last(), maxTold))
	}
	return out.String(), err
}
