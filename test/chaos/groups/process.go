//go:build linux

package groups

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/proc"
)

// process is one member's place: its process, if there is one.
type process struct {
	node  int
	*life // nil if there is none
}

// life is that of a process, or of a guarded one: of its front, its keeper, its program and that one's child.
type life struct {
	cmd     *exec.Cmd // of the program, or the front
	guarded bool
	input   io.WriteCloser
	done    chan struct{} // closed when the process has ended, or all but the child
	ending  bool          // it was told to end
	frozen  int           // faults that keep it so

	mu              sync.Mutex
	coordinates     bool // by its own word
	program, keeper int  // their ids; 0 until it ends in good order when it is told to
}

// tells takes a line of the output.
func (l *life) tells(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := fmt.Sscanf(line, "catches %d %d", &l.program, &l.keeper); err != nil {
		l.coordinates = line == "coordinates"
	}
}

func (l *life) coord() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.coordinates
}

// pid is that of a part, or 0 if it is not known.
func (l *life) pid(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case part == "program":
		return l.program
	case part == "front":
		return l.cmd.Process.Pid
	case l.guarded:
		return l.keeper
	}
	return 0
}

// signal sends it to some parts, in that order.
func (l *life) signal(sig syscall.Signal, parts string) {
	select {
	case <-l.done:
		return
	default:
	}
	for part := range strings.FieldsSeq(parts) {
		if pid := l.pid(part); pid > 0 {
			_ = syscall.Kill(pid, sig) // it may have ended
		}
	}
}

// await waits until a part is dead, or in that state, which nobody else changes. A parent that is stopped does not reap.
func (l *life) await(ctx context.Context, part string, state byte) error {
	pid := l.pid(part)
	for end := time.Now().Add(slack); ; {
		stat, is := proc.Read(pid)
		if !is || stat.Dead() || stat.State == state {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("groups: process %d had a signal %v ago and goes on", pid, slack)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.done:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

// kept reports whether a life that has ended was ended by its keeper.
func (l *life) kept() bool {
	status, _ := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return l.guarded && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// look notes who has ended without having been told to.
func (s *storm) look() error {
	for _, p := range s.all {
		if p.life == nil || p.ending {
			continue
		}
		select {
		case <-p.done:
			what := crashed
			if p.kept() {
				what = fenced
			}
			if err := s.note(act{What: what, Node: p.node, Pid: p.pid("program"), Text: p.cmd.ProcessState.String()}); err != nil {
				return err
			}
			if err := s.start(p.node); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// kill kills processes at once, of guarded ones some parts.
func (s *storm) kill(ctx context.Context, e event, coordinator *process, who []*process) error {
	at, writing := s.ledger.Now(), e.name == "kill-writing"
	hit := make([]string, len(who))
	for i, p := range who {
		hit[i] = "program"
		if p.guarded && !writing {
			hit[i] = parts[(e.who>>4+i)%len(parts)]
		}
	}
	for i, p := range who {
		if writing {
			_, _ = io.WriteString(p.input, "die\n") // it may have ended
		} else {
			p.signal(syscall.SIGKILL, hit[i])
		}
	}
	for i, p := range who {
		witness := p.guarded && !strings.Contains(hit[i], "keeper")
		if err := s.fell(ctx, p, act{At: at, Coordinator: p == coordinator, Text: hit[i], Witness: witness}); err != nil {
			return err
		}
	}
	return nil
}

// late kills a guarded member whose keeper is stopped, and starts it again.
func (s *storm) late(ctx context.Context, p *process, coordinator bool) error {
	for _, part := range []string{"front", "keeper"} { // in this order, or the front continues the keeper
		p.signal(syscall.SIGSTOP, part)
		if err := p.await(ctx, part, 'T'); err != nil {
			return err
		}
	}
	at := s.ledger.Now()
	p.signal(syscall.SIGKILL, "program")
	if err := s.fell(ctx, p, act{At: at, Coordinator: coordinator, Text: "late program"}); err != nil {
		return err
	}
	return s.start(p.node)
}

// fell notes the death of a member, and waits for it: only then are its ports free.
func (s *storm) fell(ctx context.Context, p *process, a act) error {
	a.What, a.Node, a.Pid = killed, p.node, p.pid("program")
	if err := s.note(a); err != nil {
		return err
	}
	if err := p.await(ctx, "program", 0); err != nil {
		return err
	}
	s.past = slices.DeleteFunc(s.past, func(l *life) bool {
		select {
		case <-l.done:
			return true
		default:
			return false
		}
	})
	s.past = append(s.past, p.life)
	p.life = nil
	return nil
}

func (s *storm) startAll(who []*process) error {
	for _, p := range who {
		if err := s.start(p.node); err != nil {
			return err
		}
	}
	return nil
}

func (s *storm) start(node int) error {
	p := s.all[node]
	l := &life{guarded: s.dice.IntN(guarded) > 0, done: make(chan struct{})}
	args := []string{"member", "--name", "group", "--id", name(node), "--keys", strconv.Itoa(keys), "--elections", strconv.Itoa(elections),
		"--promise", s.setup.promise.String(), "--guardian=" + strconv.FormatBool(l.guarded)}
	if s.setup.peers != "" {
		args = append(args, "--election", s.url+"&listen="+s.net.Listen(node))
	} else {
		args = append(args, "--election", s.url, "--listen", s.net.Listen(node), "--advertise", s.net.Addr(node))
	}
	cmd := s.net.Command(node, s.Worker, args...)
	cmd.Env = append(cmd.Env, "CHAOS_DIR="+s.Dir, "CHAOS_NODE="+strconv.Itoa(node), "CHAOS_RATE="+rate, mutation.Env+"="+s.Mutant)
	log, err := os.OpenFile(filepath.Join(s.Dir, "log", name(node)+".log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	if l.input, err = cmd.StdinPipe(); err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.starter.Start(cmd); err != nil {
		return err
	}
	l.cmd, p.life = cmd, l
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			l.tells(lines.Text())
		}
		_ = cmd.Wait() // its state tells how
		close(l.done)
	}()
	return nil
}

// end kills all processes.
func (s *storm) end() {
	for _, p := range s.all {
		if p.life != nil {
			s.past = append(s.past, p.life)
		}
	}
	for _, l := range s.past {
		l.signal(syscall.SIGKILL, "front keeper program")
		<-l.done
	}
	s.starter.Close()
}
