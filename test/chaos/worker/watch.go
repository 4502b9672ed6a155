//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

// seen is one state, as a watcher records it.
type seen struct {
	At     int64         `json:"at"` // lives.Now, when it was yielded
	Time   time.Time     `json:"time"`
	Leader *elect.Leader `json:"leader"`
	Stale  bool          `json:"stale,omitempty"`
	Cause  string        `json:"cause,omitempty"`
}

// watch records all states until it is told to end.
func watch(s surroundings, args []string) (err error) {
	var at place
	set := flag.NewFlagSet("worker watch", flag.ContinueOnError)
	at.flags(set)
	as := set.String("as", "watch", "how its file is called")
	if err := at.parse(set, args); err != nil {
		return err
	}
	if set.NArg() > 0 || filepath.Base(*as) != *as {
		return usagef("want no arguments beside the flags, and a plain name; have %q, --as %q", set.Args(), *as)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := s.gone(ctx); err != nil {
			cancel(&fault{codeWorker, err})
		}
	}()
	if err := os.MkdirAll(filepath.Join(s.dir, "watch"), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "watch", register.Name(*as)+".ndjson"), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	election, err := openers().Open(ctx, at.election, at.name, elect.Config{NonExclusive: true, Logger: newLog(s)}) // it asks for no lease
	if err != nil {
		return ended(ctx, err)
	}
	defer election.Close()
	clock := lives.NewClock()
	for state, err := range election.Watch(ctx) {
		if err != nil {
			return ended(ctx, err)
		}
		v := seen{At: clock.Now(), Time: time.Now(), Leader: state.Leader, Stale: state.Stale}
		if state.Cause != nil {
			v.Cause = state.Cause.Error()
		}
		line, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if _, err := log.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}
