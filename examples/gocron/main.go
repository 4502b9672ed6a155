// Command gocron runs jobs of gocron in one of its replicas. Start it twice, and stop the first: the second goes on with
// the jobs.
//
//	go run ./examples/gocron
//
// Each replica has its schedule; before each run gocron asks [adapter.Elector] whether it leads.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/electd/elect"
	"github.com/electd/elect/adapter"
	"github.com/electd/elect/file"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	openers := elect.Openers{"file": file.Open}
	election, err := openers.Open(ctx, "file:"+os.TempDir()+"/elect-gocron", "jobs", elect.Config{Logger: slog.Default()})
	if err == nil {
		err = run(ctx, election, time.Second, func(token elect.Token) { fmt.Println("runs with token", token) })
		err = errors.Join(err, election.Close())
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// snippet: gocron
func run(ctx context.Context, election *elect.Election, every time.Duration, job func(elect.Token)) error {
	var elector adapter.Elector
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(&elector), gocron.WithStopTimeout(2*time.Second))
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.DurationJob(every), gocron.NewTask(func() {
		if term := elector.Term(); term != nil {
			job(term.Token())
		}
	}))
	if err != nil {
		return err
	}
	s.Start()
	err = elector.Lead(ctx, election, func() error {
		err := s.StopJobs() // waits for the jobs that run
		s.Start()           // they are skipped until this replica leads again
		return err
	})
	return errors.Join(err, s.Shutdown())
}

// end
