// Package showcase is elect demo: three candidates and a job that must run once,
// the leader brought down in three ways, and a look at the log that the jobs
// wrote.
//
// Run may be called once at a time in a process. It fails when a takeover did
// not come about, and when the log shows that two jobs ran at once. Whatever it
// returns, what it started is dead and what it wrote is removed.
package showcase

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/fleet"
	"github.com/electd/elect/cmd/elect/internal/stamp"
)

// Config says where to show it. All fields are required.
type Config struct {
	Openers elect.Openers
	Program string // this one
	JobVerb string // its verb that calls Job
	Out     io.Writer
	Colour  bool
	Pause   time.Duration // between two steps, for the reader
}

const (
	name    = "demo"
	timeout = 30 * time.Second // for a takeover
)

var (
	ids        = []string{"alpha", "beta", "gamma"}
	standingBy = regexp.MustCompile(`standing by for `)
)

// show is one Run.
type show struct {
	cfg      Config
	election *elect.Election
	fleet    *fleet.Fleet
	log      string // path
	begun    chan line
	broken   chan error

	members map[string]*fleet.Candidate
	since   map[string]int // the line from which each must have said that it stands by
	now     line           // the first line of the job that runs
	lives   int
}

// Run shows it.
func Run(ctx context.Context, cfg Config) (err error) {
	dir, err := os.MkdirTemp("", "elect-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := (&url.URL{Scheme: "file", OmitHost: true, Path: dir}).String()
	s := &show{
		cfg: cfg, log: filepath.Join(dir, "job.log"), begun: make(chan line, 16), broken: make(chan error, 1),
		members: map[string]*fleet.Candidate{}, since: map[string]int{},
	}
	if s.election, err = cfg.Openers.Open(ctx, at, name, elect.Config{}); err != nil {
		return err
	}
	defer s.election.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.fleet = &fleet.Fleet{
		Program: cfg.Program, Args: []string{"run", "--election", at, "--name", name, "--grace", "2s"},
		Command: []string{cfg.Program, cfg.JobVerb, s.log}, Stdout: w,
	}
	go s.read(r)
	defer func() {
		s.fleet.Close()
		_ = w.Close()
		err = errors.Join(err, s.awaitDeath())
		_ = r.Close()
		if err == nil {
			err = s.judge()
		}
	}()
	return s.play(ctx)
}

// read hands out the first line of each job, until all are dead.
func (s *show) read(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			s.broken <- err
			return
		}
		l, err := parseLine(text)
		if err != nil {
			s.broken <- err
			return
		}
		s.begun <- l
	}
}

func (s *show) awaitDeath() error {
	late := time.After(timeout)
	for {
		select {
		case <-s.begun:
			s.lives++
		case err := <-s.broken:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-late:
			return fmt.Errorf("something that was started still lives after %v", timeout)
		}
	}
}

func (s *show) play(ctx context.Context) error {
	s.say("Three copies of the same line run on this machine:")
	s.say("")
	s.say("    %s", s.bold("elect run -- job"))
	s.say("")
	s.say("The job must never run twice at a time. So one copy leads and runs it, and the")
	s.say("other two stand by. The job writes a line to a log every %v, with its token: a", beat)
	s.say("number that is greater for each leader than for every one before it.")
	s.say("")
	for _, id := range ids {
		c, err := s.fleet.Start(id)
		if err != nil {
			return err
		}
		s.members[id] = c
	}
	if err := s.takeover(ctx); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.say("%s leads, with token %s, and runs the job. %s stand by.", s.bold(s.now.ID), s.now.Token, s.others())
	for i, step := range []struct {
		title string
		do    func(leader *fleet.Candidate) error
		after string
	}{
		{
			"The job crashes: SIGKILL to the job that %s runs.",
			func(*fleet.Candidate) error { return fleet.Kill(s.now.PID) },
			"",
		},
		{
			"The leader itself dies: SIGKILL to %s, the whole elect. Its job is killed at once.",
			func(c *fleet.Candidate) error { return c.Signal(syscall.SIGKILL) },
			"dead",
		},
		{
			"An operator asks the leader to hand over: elect resign. %s stops its job first.",
			func(*fleet.Candidate) error { return s.election.Recall(ctx, 0) },
			"",
		},
	} {
		if err := s.pause(ctx); err != nil {
			return err
		}
		old := s.now
		s.say("")
		s.say("%d. "+step.title, i+1, s.bold(old.ID))
		c := s.members[old.ID]
		s.since[old.ID] = c.Said()
		before := stamp.Now()
		if err := step.do(c); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if err := s.takeover(ctx); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if step.after == "dead" {
			delete(s.members, old.ID)
		}
		s.say("   %s leads, with token %s. Its job wrote its first line %s after that.", s.bold(s.now.ID), s.now.Token,
			s.green(fmt.Sprintf("%.1f ms", (s.now.At-before).Seconds()*1e3)))
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	if err := s.pause(ctx); err != nil {
		return err
	}
	s.say("")
	s.say("All are told to end.")
	return s.dismiss(ctx)
}

// dismiss ends those who stand by, so that none of them takes over when the
// leader is ended.
func (s *show) dismiss(ctx context.Context) error {
	for id, c := range s.members {
		if id == s.now.ID {
			continue
		}
		if err := c.Signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("candidate %s: %w", id, err)
		}
		select {
		case <-c.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// takeover waits for the first line of the next job.
func (s *show) takeover(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("nothing happened for %v", timeout))
	defer cancel()
	select {
	case s.now = <-s.begun:
		s.lives++
	case err := <-s.broken:
		s.broken <- err
		return fmt.Errorf("the candidates are gone: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("nobody took over: %w", context.Cause(ctx))
	}
	if s.members[s.now.ID] == nil {
		return fmt.Errorf("%s runs the job, which is none of the candidates", s.now.ID)
	}
	return nil
}

// settle waits until all but the leader stand by.
func (s *show) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for id, c := range s.members {
		if id == s.now.ID {
			continue
		}
		if err := c.Await(ctx, s.since[id], standingBy); err != nil {
			return err
		}
	}
	return nil
}

// pause gives the reader time, and the job.
func (s *show) pause(ctx context.Context) error {
	select {
	case <-time.After(s.cfg.Pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// judge reads the log, when all are dead.
func (s *show) judge() error {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err
	}
	v, err := judge(string(text))
	if err != nil {
		return err
	}
	s.say("")
	s.say("The log that the jobs wrote: %d lines, %d lives of the job, with the tokens %s.", v.lines, len(v.lives), v.tokens())
	if err := v.err(s.lives); err != nil {
		return err
	}
	s.say("Two jobs at the same time: %s.", s.green(fmt.Sprintf("%d times", v.overlaps)))
	s.say("")
	s.say("Now yours, in two terminals: %s", s.bold("elect run -- COMMAND"))
	return nil
}

func (s *show) others() string {
	var names []string
	for _, id := range ids {
		if id != s.now.ID && s.members[id] != nil {
			names = append(names, id)
		}
	}
	return strings.Join(names, " and ")
}

func (s *show) say(format string, args ...any) { fmt.Fprintf(s.cfg.Out, format+"\n", args...) }

func (s *show) bold(text string) string { return s.paint("1", text) }

func (s *show) green(text string) string { return s.paint("32;1", text) }

func (s *show) paint(code, text string) string {
	if !s.cfg.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
