// Scheduler runs a job every second in exactly one of a few copies of it, each of which is a voter. No service runs
// beside them. Start it in three terminals, and kill the leading copy, in any way:
//
//	go build ./peer/examples/scheduler
//	V=peer://n1@127.0.0.1:7401,n2@127.0.0.1:7402,n3@127.0.0.1:7403
//	./scheduler -election "$V" -id n1      # and n2, and n3
//
// The first start needs all three. On three machines the URL has their addresses, and certs=DIR with what "elect
// certs" makes.
//
// The program is guarded: when it dies, a keeper kills what it has started, and then tells the other voters, as a
// witness, that all of it is dead. They need not wait for the end of its lease. The job here starts nothing; one that
// does needs no change.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/peer"
)

func main() {
	supervise.KeeperMain(peer.Witness) // first of all: the keeper is this program, too
	var (
		at    = flag.String("election", "", "the voters: a URL such as peer://n1@127.0.0.1:7401,n2@127.0.0.1:7402,n3@127.0.0.1:7403")
		id    = flag.String("id", "", "which of them this one is")
		every = flag.Duration("every", time.Second, "how often to run the job")
	)
	flag.Parse()
	if *at == "" || *id == "" || *every <= 0 {
		fmt.Fprintln(os.Stderr, "scheduler: want -election and -id, and -every above 0")
		flag.Usage()
		os.Exit(64)
	}
	if err := start(*at, *id, *every); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

// start stands in the election until it is told to end, and schedules while it
// leads.
func start(at, id string, every time.Duration) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("id", id)
	// Before anything is opened: from here on this process is the front, and the program goes on in another process.
	guardian, err := supervise.Guard(supervise.GuardConfig{Logger: log})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	openers := elect.Openers{"peer": peer.Open}
	election, err := openers.Open(ctx, at, "scheduler", elect.Config{ID: id, Guardian: guardian, Logger: log})
	if err != nil {
		return err
	}
	defer election.Close()
	log.Info("standing by")
	err = election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		log.Info("leading", "token", term.Token())
		return schedule(ctx, term, every)
	})
	if errors.Is(err, context.Canceled) {
		return nil // told to end
	}
	return err
}

// schedule runs the job at each tick until ctx ends.
func schedule(ctx context.Context, term *elect.Term, every time.Duration) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		if term.Check() != nil {
			return nil // Lead returns the reason
		}
		job(term.Next(), os.Getpid())
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// job is the work that only the leader may do. It passes the sequence on: the receiver can refuse by it what an
// earlier leader sent and what arrives late.
func job(sequence elect.Sequence, program int) {
	fmt.Printf("token=%v position=%d program=%d\n", sequence.Token, sequence.Position, program)
}
