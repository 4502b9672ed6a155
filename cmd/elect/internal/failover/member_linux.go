package failover

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/probe"
	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/internal/clock"
)

// member is one node: a process, or several, as long as it lives. After a restart a node is another member.
type member struct {
	id     string
	cand   *cluster.Candidate
	stdin  *os.File
	stdout *os.File
	over   chan struct{} // no process has its stdout open any more
	ended  clock.Boot    // of the work of its term; 0 while that continues
}

// event is what a member has written.
type event struct {
	from *member
	probe.Report
}

// start starts the member with the id.
func (s *election) start(id string) (*member, error) {
	m := &member{id: id, over: make(chan struct{})}
	var cmd *exec.Cmd
	at := []string{"--election", s.local.URL(id), "--name", s.name, "--id", id}
	if s.mode == commands {
		cmd = exec.Command(s.cfg.Program, slices.Concat([]string{"run"}, at, []string{"--restart", "always", "--"}, s.command)...)
	} else {
		cmd = exec.Command(s.cfg.Program, slices.Concat([]string{s.cfg.Node}, at)...)
		switch s.mode {
		case tokens:
			cmd.Args = append(cmd.Args, "--tokens")
		case guarded:
			cmd.Args = append(cmd.Args, "--guard")
		}
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd.Stdin, m.stdin = in, stdin
	if m.cand, m.stdout, err = s.cluster.SpawnRead(id, cmd); err != nil {
		_ = stdin.Close()
		return nil, err
	}
	s.members[id] = m
	s.all = append(s.all, m)
	go s.read(m)
	return m, nil
}

// read distributes what a member writes, until no process could write any more.
func (s *election) read(m *member) {
	defer close(m.over)
	defer m.stdout.Close()
	tell := func(r probe.Report) { s.events <- event{m, r} }
	var err error
	if s.mode == commands {
		err = readStamps(m.stdout, tell)
	} else {
		err = probe.Read(m.stdout, tell)
	}
	if err != nil {
		s.broken <- fmt.Errorf("%s: %w", m.id, err)
	}
}

// readStamps translates the commands' records into reports.
func readStamps(f *os.File, tell func(probe.Report)) error {
	r := bufio.NewReader(f)
	for {
		if _, err := r.Peek(1); err != nil {
			return nil // a pipe's end; a truncated record is an error of Read
		}
		record, err := stamp.Read(r)
		if err != nil {
			return err
		}
		event := probe.Active
		if record.Over {
			event = probe.Ended
		}
		tell(probe.Report{Event: event, PID: record.PID, At: clock.Boot(record.At)})
	}
}

// order sends a probe an order.
func (m *member) order(what string) error {
	_, err := m.stdin.WriteString(what + "\n")
	return err
}

// handle is a process that can be signalled and checked. It never means another process that has got the same number.
type handle int

func grasp(pid int) (handle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("process %d: %w", pid, err)
	}
	return handle(fd), nil
}

func (h handle) signal(sig unix.Signal) error { return unix.PidfdSendSignal(int(h), sig, nil, 0) }

// alive reports whether the process has not ended.
func (h handle) alive() bool {
	poll := []unix.PollFd{{Fd: int32(h), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, 0)
		if err != unix.EINTR {
			return err == nil && n == 0
		}
	}
}

func (h handle) close() { _ = unix.Close(int(h)) }
