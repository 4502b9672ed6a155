// Scheduler runs a job at every tick of a schedule, in exactly one of however
// many copies of it are started. Start it in three terminals, then kill
// whichever one runs the job, in any way:
//
//	go run ./examples/scheduler -log /tmp/ticks.log
//
// Every run of the job is a line in the log, with the tick that it was for and
// the token of the leader that did it. A new leader reads the log first and
// goes on where the last one stopped. Afterwards
//
//	go run ./examples/scheduler -log /tmp/ticks.log -verify
//
// proves from the log alone that no tick ran twice, that none was left out, and
// that tokens never fell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/file"
)

func main() {
	var (
		at     = flag.String("election", "file:"+filepath.Join(os.TempDir(), fmt.Sprintf("elect-example-%d", os.Getuid())), "where the election is held: a URL")
		name   = flag.String("name", "scheduler", "name of the election")
		path   = flag.String("log", "ticks.log", "file that the job writes to")
		every  = flag.Duration("every", time.Second, "time between ticks")
		verify = flag.Bool("verify", false, "check the log and exit")
	)
	flag.Parse()
	if *verify {
		if err := verifyLog(*path); err != nil {
			fmt.Fprintln(os.Stderr, "scheduler:", err)
			os.Exit(1)
		}
		return
	}
	if *every <= 0 {
		fmt.Fprintln(os.Stderr, "scheduler: -every must be above 0, such as 1s")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *at, *name, *path, *every); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

// run stands in the election until ctx ends, and schedules while it leads.
func run(ctx context.Context, at, name, path string, every time.Duration) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("pid", os.Getpid())
	openers := elect.Openers{"file": file.Open}
	election, err := openers.Open(ctx, at, name, elect.Config{Logger: log})
	if err != nil {
		return err
	}
	defer election.Close()
	log.Info("standing by")
	return election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		log.Info("leading", "token", term.Token())
		return schedule(ctx, term, path, every)
	})
}

// schedule runs the job at each tick until ctx ends.
func schedule(ctx context.Context, term *elect.Term, path string, every time.Duration) error {
	journal, err := openJournal(path)
	if err != nil {
		return err
	}
	defer journal.Close()
	next := journal.last.tick + 1
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // Lead knows why
		case <-ticker.C:
		}
		// A file cannot refuse an old leader's write by itself, so ask before
		// each one whether we still lead.
		if term.Check() != nil {
			return nil // the same end, seen earlier
		}
		if err := journal.append(entry{tick: next, token: term.Token(), pid: os.Getpid()}); err != nil {
			return err
		}
		next++
	}
}
