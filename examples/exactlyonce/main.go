// Exactlyonce is a scheduler whose jobs have their effect exactly once, whichever of its
// copies is killed, frozen or cut off at whatever moment. Which jobs are due, which one
// is at work and what came of them is in PostgreSQL, and every step is a transaction
// that the fence checks.
//
//	go build -o /tmp/exactlyonce .                          # in examples/exactlyonce
//	D=postgres://user:password@127.0.0.1:5432/jobs
//	V=peer://n1@127.0.0.1:7401,n2@127.0.0.1:7402,n3@127.0.0.1:7403
//	/tmp/exactlyonce -db "$D" -install
//	/tmp/exactlyonce -db "$D" -election "$V" -id n1         # and n2, and n3
//
// schedule.go is what is to be copied. What "exactly once" can mean is said there.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/electd/elect"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/file"
	"github.com/electd/elect/peer"
)

func main() {
	s := &scheduler{log: slog.New(slog.NewTextHandler(os.Stderr, nil)).With("pid", os.Getpid())}
	flag.StringVar(&s.job, "job", "invoices", "name of the job")
	flag.DurationVar(&s.every, "every", time.Second, "time between two runs of it; at least 1ms")
	flag.DurationVar(&s.takes, "takes", 0, "how long the job works")
	flag.StringVar(&s.notify, "notify", "", "URL that the job posts to: an effect outside the database")
	var (
		database = flag.String("db", "", "PostgreSQL: a URL such as postgres://user:password@host/jobs")
		install  = flag.Bool("install", false, "make the tables, and end")
		at       = flag.String("election", "", "where the election is held: a URL of peer: or file:")
		id       = flag.String("id", "", "which of the peers this is")
	)
	flag.Parse()
	if *database == "" || *at == "" && !*install || s.every < time.Millisecond {
		fmt.Fprintln(os.Stderr, "exactlyonce: want -db, and -install or -election; -every is 1ms or more")
		flag.Usage()
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, s, *database, *install, *at, *id); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "exactlyonce:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, s *scheduler, database string, install bool, at, id string) (err error) {
	if s.db, err = sql.Open("pgx", database); err != nil {
		return errors.New("-db is no URL of PostgreSQL; want postgres://user:password@host/database")
	}
	defer s.db.Close()
	// A leader that is frozen in the midst of a transaction holds the mark. Terminate
	// ends its connection, so that the next one need not wait for it.
	s.guard, err = fencesql.New(s.db, fencesql.PostgreSQL, resource, fencesql.Config{LockTimeout: 2 * time.Second, Terminate: true, Logger: s.log})
	if err != nil {
		return err
	}
	if install {
		return s.install(ctx)
	}
	openers := elect.Openers{"file": file.Open, "peer": peer.Open}
	election, err := openers.Open(ctx, at, "exactlyonce", elect.Config{ID: id, Logger: s.log})
	if err != nil {
		return err
	}
	defer election.Close()
	return election.Lead(ctx, s.lead)
}
