package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/printable"
	tty "github.com/electd/elect/cmd/elect/internal/screen"
	"github.com/electd/elect/cmd/elect/internal/top"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const topHelp = `Show many elections and their nodes on one screen: who leads, with which token and for
how long, how much of the lease is left, changes since the start, nodes that answer, the
longest round trip, health, and alerts. Each argument is one of:

  NAME                an election at the place of --election
  URL#NAME            an election elsewhere
  file:DIR            all elections that were held in a directory
  http://HOST:PORT    an elect run --http: what it sees, its lease and its health
  unix:PATH           the same on a socket

Without arguments all elections at the place of --election are shown. What several
sources say of one election is one row. A source that does not answer has a row, or is
named under TROUBLE, and delays no other. Round trips are known among peers, leases
among peers and over HTTP, and health over HTTP. HEALTH is - without health checks. LEASE
is what was left when it was read, and - if that is longer ago than both 2 s and two
times --every. A leader with ? is the last one known. The alerts are those of
deploy/prometheus, judged by what was seen since the start.

Keys: q ends it; arrows, j, k and page keys select; Enter shows the nodes of an election,
Esc all elections; s sorts by name, alerts, changes or age of the leader.

With -o json or yaml, and if it is not on a terminal, it shows the present state once,
and ends. Exit codes then:
  0   each election has a leader
  3   one has none, or none was held in a directory
  64  an argument is wrong
  69  a source does not answer

-o json writes one object on one line:
  time       when it was written, RFC 3339
  elections  a list, by name:
               election, name, leader, stale, cause: as in "elect status -o json"; the
               URL of an election among peers is without parameters
               changes  of the leader, since the start
               nodes    a list, by id:
                 id, source (its address among peers or for HTTP)
                 state         its role among peers, or its state over HTTP; empty: no answer
                 leads         it proves that it leads
                 token         while it leads
                 lease_left_ms of a leader with a lease, when it was read; omitted if old
                 rtt_ns        among peers, from the leader
                 ready         as in "elect members -o json" and as /readyz over HTTP: a node
                               that is known from both is ready if both say so
                 ill, health (well or ill), paused, error
               token to rtt_ns and ill to error are omitted if empty
  sources    a list: source, error (omitted if it has answered with an election)
  alerts     a list: alert, severity, election, name, text, since
-o yaml writes the same on several lines.`

// The bounds of --every.
const leastEvery, mostEvery = 100 * time.Millisecond, time.Hour

func newTop(openers elect.Openers) *cobra.Command {
	var p place
	var format form
	every := time.Second
	cmd := &cobra.Command{
		Use:     "top [flags] [NAME|URL]...",
		Short:   "show many elections and their nodes, live",
		Long:    topHelp,
		Example: "  elect top\n  elect top http://127.0.0.1:4040 'peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs#scheduler'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < leastEvery || every > mostEvery {
				return exit.Usagef("--every is %v; want %v to 1h", every, leastEvery)
			}
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			t := &topSources{
				cmd: cmd, openers: openers, every: every, live: format == "table" && onTerminal(),
				liveness: newLiveness(), known: map[top.Key]bool{},
			}
			t.model.Fresh = max(2*every, 2*time.Second)
			t.ctx, t.cancel = context.WithCancel(ctx)
			cmd.SetContext(t.ctx)
			defer t.work.Wait()
			defer t.cancel()
			if err := t.add(&p, args); err != nil {
				return err
			}
			if t.live {
				return t.show(t.ctx, &t.model, t.every, os.Stdin, os.Stdout)
			}
			if err := t.once(); err != nil {
				return err
			}
			now := time.Now()
			d := t.model.Document(now)
			if err := format.write(cmd.OutOrStdout(), d, func(w io.Writer) error { return t.model.Write(w, now) }); err != nil {
				return err
			}
			return topVerdict(d)
		},
	}
	p.flags(cmd.Flags())
	cmd.Flags().Var(cli.Duration(&every), "every", "`TIME` between two requests to sources that do not report changes")
	format.flag(cmd.Flags())
	return cmd
}

// topVerdict returns the error that a snapshot ends with, for the exit code.
func topVerdict(d top.Document) error {
	for _, s := range d.Sources {
		if s.Error != "" && s.Error != top.ErrNone.Error() {
			return exit.With(exit.Unavailable, fmt.Errorf("%s: %s", s.Source, printable.Text(s.Error)))
		}
	}
	for _, e := range d.Elections {
		if e.Stale {
			return exit.With(exit.Unavailable, fmt.Errorf("cannot tell who leads %s: %s", e.Name, printable.Text(e.Cause)))
		}
	}
	for _, s := range d.Sources {
		if s.Error != "" {
			return exit.With(exit.NoLeader, fmt.Errorf("%s: %s", s.Source, printable.Text(s.Error)))
		}
	}
	if slices.ContainsFunc(d.Elections, func(e *top.Election) bool { return e.Leader == nil }) {
		return exit.Silent(exit.NoLeader)
	}
	return nil
}

// topSources asks sources, each in a goroutine of its own, and puts what they say into the model.
type topSources struct {
	cmd     *cobra.Command
	openers elect.Openers
	every   time.Duration
	live    bool // on a terminal, until the user quits; else once

	ctx    context.Context
	cancel context.CancelFunc
	first  sync.WaitGroup // sources that have not reported yet

	*liveness
	known map[top.Key]bool // the elections that were added
	model top.Model
}

// liveness is what happens beside the goroutine that owns a model.
type liveness struct {
	work     sync.WaitGroup
	events   chan func() // called by that goroutine
	panicked chan error
}

func newLiveness() *liveness {
	return &liveness{events: make(chan func()), panicked: make(chan error, 1)}
}

// put has the owner of the model call do, unless ctx ends first.
func (l *liveness) put(ctx context.Context, do func()) {
	select {
	case l.events <- do:
	case <-ctx.Done():
	}
}

// add begins to ask what the arguments name.
func (t *topSources) add(p *place, args []string) error {
	if len(args) > 0 && t.cmd.Flags().Changed("name") {
		return exit.Usagef("elections are given as arguments, and one as --name %s; want one of the two", p.name)
	}
	if len(args) == 0 {
		return t.addPlace(*p)
	}
	seen := map[string]bool{}
	for _, arg := range args {
		if seen[arg] {
			return exit.Usagef("%s is given twice; want it once", top.Shown(arg))
		}
		seen[arg] = true
		var err error
		at, name, named := strings.Cut(arg, "#")
		scheme, _, _ := strings.Cut(at, ":")
		switch {
		case top.IsHTTP(arg):
			err = t.addParticipant(arg)
		case strings.Contains(at, "://") || t.openers[scheme] != nil:
			if named && name == "" {
				return exit.Usagef("%s names no election after the #; want URL#NAME", top.Shown(arg))
			}
			err = t.addPlace(place{election: at, name: name})
		default:
			err = t.addPlace(place{election: p.election, name: arg})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *topSources) addParticipant(address string) error {
	p, err := top.NewParticipant(address)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	t.model.Expect(address, top.Key{})
	t.ask(func(report func(top.Report)) { p.Follow(t.ctx, t.every, report) })
	return nil
}

// addPlace adds an election, or without a name all elections of a place.
func (t *topSources) addPlace(p place) error {
	if p.name != "" {
		return t.addElection(p)
	}
	if err := p.resolveURL(t.openers); err != nil {
		return err
	}
	if _, err := p.names(); errors.Is(err, elect.ErrUnsupported) {
		if u, err := elect.ParseURL(p.election); err != nil || t.openers[u.Scheme] == nil {
			p.name = "any"
			_, err := p.open(t.cmd, t.openers) // its error says what is wrong with the URL
			return err
		}
		return exit.Usagef("the elections at %s cannot be listed; want a name, such as URL#nightly", p.shown())
	}
	t.model.Expect(p.shown(), top.Key{})
	t.ask(func(report func(top.Report)) { t.list(p, report) })
	return nil
}

// list finds the elections of a place.
func (t *topSources) list(p place, report func(top.Report)) {
	for {
		names, err := p.names()
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil && len(names) == 0 {
			err = top.ErrNone
		}
		for _, p.name = range names {
			found := p
			t.put(t.ctx, func() { t.addFound(found) }) // before the report, so that the first report of each is awaited
		}
		report(top.Report{Source: p.shown(), At: time.Now(), Err: err})
		if !t.live || !t.pause(t.every) {
			return
		}
	}
}

// addElection adds an election. It fails if the URL is wrong.
func (t *topSources) addElection(p place) error {
	if err := p.resolve(t.openers); err != nil {
		return err
	}
	u, err := elect.ParseURL(p.election)
	if err != nil || t.openers[u.Scheme] == nil {
		_, err := p.open(t.cmd, t.openers) // its error says what is wrong with the URL
		return err
	}
	of := top.KeyOf(p.shown(), p.name)
	if t.known[of] {
		return nil
	}
	if p.isPeer() {
		c, voters, err := p.ask(t.openers, "top")
		if err != nil {
			return err
		}
		listed, cfg, err := p.peers()
		if err != nil {
			return err
		}
		w := nodeWatch{ask: c.Status, start: t.start, listed: append(listed, cfg.Observers...), voters: voters, every: t.every, early: t.live}
		t.ask(func(report func(top.Report)) {
			defer c.Close()
			w.follow(t.ctx, func(nodes []top.Node) {
				report(top.Report{Source: source(&p), At: time.Now(), Seen: []top.Seen{{Key: of, Nodes: nodes}}})
			})
		})
	}
	t.known[of] = true
	t.model.Expect(source(&p), of)
	t.ask(func(report func(top.Report)) { t.watch(p, of, report) })
	return nil
}

// source is the name of an election as a source.
func source(p *place) string { return p.shown() + "#" + p.name }

// openPause is the time between two tries to open an election whose back end does not answer.
const openPause = 5 * time.Second

// watch reports who leads.
func (t *topSources) watch(p place, of top.Key, report func(top.Report)) {
	for {
		e, err := p.open(t.cmd, t.openers)
		if err == nil {
			for s, werr := range e.Watch(t.ctx) {
				if err = werr; err != nil {
					break
				}
				v := p.view(s)
				report(top.Report{Source: source(&p), At: time.Now(), Seen: []top.Seen{{Key: of, State: &top.State{Leader: v.Leader, Stale: v.Stale, Cause: v.Cause}}}})
			}
			_ = e.Close() // nothing was held
		}
		if t.ctx.Err() != nil {
			return
		}
		if err == nil {
			err = elect.ErrClosed
		}
		report(top.Report{Source: source(&p), At: time.Now(), Err: err})
		if !t.pause(max(openPause, t.every)) {
			return
		}
	}
}

// pause waits, and returns false if the context ends first.
func (t *topSources) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-t.ctx.Done():
		return false
	}
}

// start runs do in a goroutine. A panic ends elect top in order: an uncaught one would not restore the terminal.
func (l *liveness) start(do func()) {
	l.work.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				select {
				case l.panicked <- fmt.Errorf("panic: %v\n%s", p, debug.Stack()):
				default:
				}
			}
		}()
		do()
	})
}

// ask runs do in a goroutine, with a function that reports.
func (t *topSources) ask(do func(report func(top.Report))) {
	t.first.Add(1)
	first := sync.OnceFunc(t.first.Done)
	t.start(func() {
		defer first()
		do(func(r top.Report) {
			t.put(t.ctx, func() { t.model.Apply(r) })
			first()
		})
	})
}

// addFound adds an election that list has found.
func (t *topSources) addFound(p place) {
	if err := t.addElection(p); err != nil { // a directory with a name that no election has
		t.model.Expect(source(&p), top.KeyOf(p.shown(), p.name))
		t.model.Apply(top.Report{Source: source(&p), At: time.Now(), Err: err})
	}
}

// once collects the first report of each source, for askTimeout at most.
func (t *topSources) once() error {
	all := make(chan struct{})
	go func() {
		t.first.Wait()
		close(all)
	}()
	late := time.After(askTimeout)
	for {
		select {
		case do := <-t.events:
			do()
			continue
		case err := <-t.panicked:
			return exit.With(1, err)
		case <-all:
		case <-late:
			t.model.GiveUp(fmt.Errorf("no answer within %v", askTimeout), time.Now())
		case <-t.ctx.Done():
		}
		t.model.Judge(time.Now())
		return nil
	}
}

// shown is a model that elect top or elect group top shows.
type shown interface {
	Judge(now time.Time)
	Picture(v *top.View, now time.Time, width, height int) []string
}

// show shows a model on a terminal until the user quits.
func (l *liveness) show(ctx context.Context, model shown, every time.Duration, in, out *os.File) error {
	s, err := tty.Open(in, out)
	if err != nil {
		return exit.With(1, err)
	}
	defer s.Leave()
	keys, gone := make(chan string, 16), make(chan error, 1)
	l.work.Go(func() {
		if err := tty.ReadKeys(ctx, in, keys); err != nil {
			gone <- err
		}
	})
	resized, unwatch := tty.WatchSize()
	defer unwatch()
	tick := time.NewTicker(every)
	defer tick.Stop()
	view := &top.View{Colour: cli.Colour(out)}
	for {
		now := time.Now()
		model.Judge(now)
		if err := s.Draw(func(width, height int) []string { return model.Picture(view, now, width, height) }); err != nil {
			return exit.With(1, err)
		}
		select {
		case <-tick.C:
		case <-resized:
			s.Clear()
		case do := <-l.events:
			do()
		case key := <-keys:
			if key == tty.CtrlZ {
				if err := s.Suspend(); err != nil {
					return exit.With(1, err)
				}
			}
			if view.Key(key) {
				return nil
			}
		case err := <-l.panicked:
			return exit.With(1, err)
		case err := <-gone:
			return exit.With(1, err)
		case <-ctx.Done():
			return nil
		}
	}
}
