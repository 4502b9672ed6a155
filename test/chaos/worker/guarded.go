//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/file"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/test/chaos/lives"
)

// place names the election, from the flags.
type place struct{ election, name, id string }

func (p *place) flags(set *flag.FlagSet) {
	set.StringVar(&p.election, "election", "", "`URL` of the election")
	set.StringVar(&p.name, "name", "", "`NAME` of the election")
}

// parse reads the flags of set, which are those of the place and others.
func (p *place) parse(set *flag.FlagSet, args []string) error {
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return &fault{codeUsage, err}
	}
	if p.election == "" || p.name == "" {
		return usagef("want --election and --name")
	}
	return nil
}

func openers() elect.Openers { return elect.Openers{"file": file.Open, "peer": peer.Open} }

// program is one that embeds the library.
type program struct {
	surroundings
	log    *slog.Logger
	ledger *lives.Ledger
	load   *workload
	kind   lives.Kind
	keeper int64
	lapses chan os.Signal
	fenced bool // it leads without a proof: its token fences its writes
}

// guarded stands in an election until it is told to end.
func guarded(s surroundings, args []string) error {
	var at place
	set := flag.NewFlagSet("worker guarded", flag.ContinueOnError)
	at.flags(set)
	set.StringVar(&at.id, "id", "", "which candidate this is")
	promise := set.Duration("promise", 0, "that of a peer election")
	heartbeat := set.Duration("heartbeat", 0, "that of a peer election")
	profile := set.String("profile", "", "that of a peer election")
	exclusive := set.Bool("exclusive", true, "lead only when the lease is proven")
	guardian := set.Bool("guardian", false, "be under a keeper")
	if err := at.parse(set, args); err != nil {
		return err
	}
	if at.id == "" || set.NArg() > 0 {
		return usagef("want --id, and no arguments beside the flags; have %q", set.Args())
	}
	for name, value := range map[string]string{"promise": text(*promise), "heartbeat": text(*heartbeat), "profile": *profile} {
		if value != "" {
			at.election = with(at.election, name, value)
		}
	}
	p := &program{surroundings: s, log: newLog(s), kind: lives.Library, fenced: !*exclusive}
	cfg := elect.Config{ID: at.id, NonExclusive: p.fenced}
	if *guardian {
		// Before the election is opened: from here on this process is the front, and the program
		// goes on in another.
		guardian, err := supervise.Guard(supervise.GuardConfig{Logger: p.log})
		if err != nil {
			return err
		}
		cfg.Guardian, p.log = guardian, newLog(s)
		p.kind, p.keeper = lives.Guarded, int64(os.Getppid())
	}
	p.lapses = make(chan os.Signal, 1)
	signal.Notify(p.lapses, syscall.SIGUSR2)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cfg.Logger = p.log
	return p.stand(ctx, cancel, at, cfg)
}

// stand takes part until ctx ends.
func (p *program) stand(ctx context.Context, cancel context.CancelCauseFunc, at place, cfg elect.Config) (err error) {
	if p.ledger, err = p.surroundings.ledger(); err != nil {
		return err
	}
	if p.load, err = newWorkload(p.surroundings, p.name(at.id), p.log); err != nil {
		return err
	}
	reader, err := newWorkload(p.surroundings, p.name(at.id)+"r", p.log)
	if err != nil {
		return err
	}
	go func() {
		if err := p.gone(ctx); err != nil {
			cancel(&fault{codeWorker, err})
		}
	}()
	election, err := openers().Open(ctx, at.election, at.name, cfg)
	if err != nil {
		return ended(ctx, err)
	}
	defer election.Close()
	go p.count(ctx)
	go reader.reads(ctx)
	p.log.Info("standing by")
	return ended(ctx, election.Lead(ctx, p.work))
}

// ended is the error of a role that ended with err: nil if it was told to end, else the cause of
// its context, or the failure of the election.
func ended(ctx context.Context, err error) error {
	f, ok := errors.AsType[*fault](context.Cause(ctx))
	switch {
	case ok:
		return f
	case ctx.Err() != nil, err == nil:
		return nil
	}
	return &fault{codeElection, err}
}

// work is what Lead runs. All that it has started has ended when it returns.
func (p *program) work(ctx context.Context, term *elect.Term) error {
	p.log.Info("leading", "token", term.Token())
	if p.kind != lives.Guarded {
		p.tenure(ctx, term)
		return nil
	}
	child, err := descend(term.Token())
	if err != nil {
		p.log.Warn("this tenure has no descendant", "error", err)
	} else {
		defer func() {
			_ = child.Process.Kill() // it ignores all other signals
			_ = child.Wait()
		}()
	}
	p.tenure(ctx, term)
	return nil
}

// with sets a parameter of a URL.
func with(rawURL, name, value string) string {
	bare, query, _ := strings.Cut(rawURL, "?")
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		if key, _, _ := strings.Cut(pair, "="); pair != "" && key != name {
			kept = append(kept, pair)
		}
	}
	return bare + "?" + strings.Join(append(kept, name+"="+url.QueryEscape(value)), "&")
}

func text(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprint(d)
}
