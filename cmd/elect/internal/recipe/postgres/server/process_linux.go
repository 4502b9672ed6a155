package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/cmd/elect/internal/printable"
	"github.com/electd/elect/internal/proc"
)

const (
	poll  = 5 * time.Millisecond
	grace = time.Second      // between SIGQUIT and SIGKILL
	reap  = 10 * time.Second // for what was killed to be gone
)

// postmaster is a started server.
type postmaster struct {
	pid  int
	out  *pump
	said chan struct{} // closed when all that it and its processes have written was read
	done chan struct{}
}

// last is the reason of one whose processes have ended.
func (m *postmaster) last() string {
	select {
	case <-m.said:
	case <-time.After(grace):
	}
	return m.out.Last()
}

func (m *postmaster) running() bool {
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}

// stopped reports whether it is stopped by a signal, such as SIGSTOP.
func (m *postmaster) stopped() bool {
	s, ok := proc.Read(m.pid)
	return ok && s.State == 'T'
}

// Stopped reports whether the postmaster is stopped by a signal, such as SIGSTOP. It answers nobody then, and could go on
// at any time. No load makes it so.
func (s *Server) Stopped() bool {
	s.mu.Lock()
	m := s.main
	s.mu.Unlock()
	return m != nil && m.running() && m.stopped()
}

// Recovery grows while the server replays or is promoted: it is one more than the CPU time of its startup process, in
// clock ticks. It is 0 if there is none. A process that waits for one read or write of a disk uses none.
func (s *Server) Recovery() int {
	for _, pid := range s.titled("postgres: "+s.config().ID+": startup", "") { // a client that logs in has the word at the end
		if stat, ok := proc.Read(pid); ok {
			return 1 + stat.User + stat.System
		}
	}
	return 0
}

// StartPrimary starts the cluster that [Server.Init] has made as the primary of the term of a token. Later terms promote
// a standby. It returns when the server accepts connections.
func (s *Server) StartPrimary(ctx context.Context, token uint64) error {
	return s.start(ctx, token, false)
}

// StartStandby starts a standby that follows from; nil is nobody. It returns when the server accepts connections, or
// when it replays and cannot yet, as a copy does until it has the WAL that was written while it was copied.
func (s *Server) StartStandby(ctx context.Context, from *Upstream) error {
	if err := s.forget(ctx, from); err != nil {
		return err
	}
	if err := s.serve(from); err != nil {
		return err
	}
	if err := s.start(ctx, 0, true); err != nil {
		return err
	}
	if !s.accepts(ctx) {
		return nil
	}
	return s.Slots(ctx, nil) // those of a primary would keep WAL for ever
}

// start starts a server.
func (s *Server) start(ctx context.Context, token uint64, standby bool) error {
	if s.Running() {
		return errors.New("PostgreSQL runs; want it stopped before it is started")
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	cfg := s.config()
	var control map[string]string
	signal := filepath.Join(s.data, "standby.signal")
	if standby {
		var err error
		if control, err = s.control(ctx); err != nil {
			return err
		}
		if err := replace(signal, nil); err != nil {
			return err
		}
	} else if err := remove(signal); err != nil {
		return err
	}
	if err := s.configure(cfg, token); err != nil {
		return err
	}
	m, err := s.launch(cfg, s.arguments(cfg, control))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.main, s.token, s.extent = m, token, extent{}
	s.mu.Unlock()
	return s.ready(ctx, m, standby)
}

// launch starts the postmaster.
func (s *Server) launch(cfg Config, args []string) (*postmaster, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	m := &postmaster{out: newPump(cfg.Output), said: make(chan struct{}), done: make(chan struct{})}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", write, write
	cmd.Env = environment("PGSERVICEFILE=" + s.serviceFile())
	if err := s.starter.Start(cmd); err != nil {
		read.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	m.pid = cmd.Process.Pid
	go func() { // until every process of the server has ended
		defer close(m.said)
		defer read.Close()
		_, _ = io.Copy(m.out, read)
	}()
	go func() {
		_ = cmd.Wait() // whatever the status: a server has ended
		close(m.done)
	}()
	return m, nil
}

// ready waits until a server accepts connections, or replays as a standby. A server that does not is stopped.
func (s *Server) ready(ctx context.Context, m *postmaster, standby bool) error {
	const often = 50 // polls, after which it is asked although it does not say that it is ready, since each time is a line of its log
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for i := 1; ; i++ {
		if i%often == 0 || s.saysReady(m) {
			if err := s.ping(ctx); err == nil || standby && inconsistent(err) {
				return nil
			}
		}
		if standby && m.out.Gone() { // it would wait for ever
			_ = s.Stop(ctx, Immediate)
			return errors.New("the primary has removed WAL that this server needs; want a new copy")
		}
		select {
		case <-m.done:
			_ = s.Stop(ctx, Immediate)
			last := m.last()
			err := fmt.Errorf("PostgreSQL ended while it started: %s", printable.Line(last, maxTold))
			if elsewhere(last) {
				err = fmt.Errorf("%w: %w", err, ErrElsewhere)
			}
			return err
		case <-ctx.Done():
			_ = s.Stop(ctx, Immediate)
			return fmt.Errorf("PostgreSQL does not accept connections: %w: %s", context.Cause(ctx), printable.Line(m.last(), maxTold))
		case <-tick.C:
		}
	}
}

// elsewhere reports whether the last line of a server that has not started names a reason that is not in its data.
func elsewhere(last string) bool {
	return slices.ContainsFunc([]string{
		"configuration file", hbaFile, "pg_hba.conf", "invalid value for parameter", "unrecognized configuration parameter", "could not access file", "could not load library",
		"shared memory", "could not create any", "could not bind", "No space left on device", "Permission denied", "Too many open files", "Cannot allocate memory",
	}, func(part string) bool { return strings.Contains(last, part) })
}

// saysReady reports whether the last line of postmaster.pid, that of its state, says that the server accepts connections.
func (s *Server) saysReady(m *postmaster) bool {
	text, _ := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	lines := strings.Fields(string(text))
	return len(lines) > 1 && lines[0] == strconv.Itoa(m.pid) && lines[len(lines)-1] == "ready"
}

// Stop ends the server, and returns when none of its processes is left. The end of ctx turns Fast into Immediate. What
// does not end by that is killed, and so is one that is stopped by a signal. Of a server that has ended it does the same.
func (s *Server) Stop(ctx context.Context, mode Mode) error {
	s.mu.Lock()
	m := s.main
	s.token = 0
	s.mu.Unlock()
	if m != nil && m.running() {
		if mode == Fast {
			_ = syscall.Kill(m.pid, syscall.SIGINT)
			select {
			case <-m.done:
			case <-ctx.Done():
				mode = Immediate
			}
		}
		if mode == Immediate && m.running() && !m.stopped() {
			_ = syscall.Kill(m.pid, syscall.SIGQUIT)
			select {
			case <-m.done:
			case <-time.After(grace):
			}
		}
		if m.running() {
			_ = syscall.Kill(m.pid, syscall.SIGKILL)
		}
	}
	return s.sweep(context.WithoutCancel(ctx))
}

// sweep kills what is left of this directory's servers, also of those of an earlier process. A server that somebody else
// has started is an error. When nothing is left, neither are the files by which a server would take another process of
// the same number for its predecessor.
func (s *Server) sweep(ctx context.Context) error {
	if pid := s.stranger(); pid != 0 {
		return fmt.Errorf("a PostgreSQL that elect has not started, process %d, has the data directory %s; want it stopped, and not started by its service", pid, s.data)
	}
	ctx, cancel := context.WithTimeout(ctx, reap)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		left := s.processes()
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of PostgreSQL in %s do not end, although they were killed; process %d is one of them; want what they wait for mended, such as a disk that hangs", len(left), s.data, left[0])
		case <-tick.C:
		}
	}
	_, port, _ := net.SplitHostPort(s.config().Listen)
	return errors.Join(remove(filepath.Join(s.data, "postmaster.pid")), remove(filepath.Join(s.socket, ".s.PGSQL."+port+".lock")))
}

// processes are those whose working directory is the data directory: the postmaster and all that it has started. Each
// backend leaves the postmaster's process group, and the children of a dead one get another parent.
func (s *Server) processes() []int {
	data, err := os.Stat(s.data)
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir("/proc")
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir, err := os.Stat("/proc/" + e.Name() + "/cwd")
		if err != nil || !os.SameFile(dir, data) {
			continue
		}
		if exe, _ := os.Readlink("/proc/" + e.Name() + "/exe"); filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != "postgres" {
			continue // a shell of an operator
		}
		if stat, ok := proc.Read(pid); ok && !stat.Dead() {
			found = append(found, pid)
		}
	}
	return found
}

// stranger is the process of a postmaster that this package has not started; 0 if there is none.
func (s *Server) stranger() int {
	text, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	for _, pid := range s.processes() {
		// One that is ending has no command line any more.
		line := proc.ReadFile("/proc/"+first+"/cmdline", nil)
		if strconv.Itoa(pid) == strings.TrimSpace(first) && len(line) > 0 && !bytes.Contains(line, []byte("elect.node=")) {
			return pid
		}
	}
	return 0
}

// reload has the server read its files again.
func (s *Server) reload() error {
	s.mu.Lock()
	m := s.main
	s.mu.Unlock()
	if m == nil || !m.running() {
		return errStopped
	}
	return syscall.Kill(m.pid, syscall.SIGHUP)
}

// nudge has the postmaster of a standby that does not stream look whether a walreceiver is wanted. One of PostgreSQL 15
// that is asked for it just before it learns that the last one has ended sleeps on, until a client connects; the startup
// process asks once more after 15 s. A SIGUSR1 without a reason in shared memory has no other effect.
func (s *Server) nudge() {
	s.mu.Lock()
	m := s.main
	s.mu.Unlock()
	if m != nil && m.running() {
		_ = syscall.Kill(m.pid, syscall.SIGUSR1)
	}
}

var errStopped = errors.New("PostgreSQL does not run")

// replace writes a file durably: there is the old one or the new one, whole. PostgreSQL writes to other names.
func replace(path string, text []byte) error {
	next := path + ".elect"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// remove removes a file durably, if it is there.
func remove(path string) error {
	switch err := os.Remove(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
