// Partitions is a small log of messages, as brokers of Kafka keep it: a topic has partitions, each partition has one
// leader among the brokers, and producers follow the leaders. The brokers are the members of a group, the partitions
// are its keys, and the token of a leader is the partition's epoch. The records are in PostgreSQL, which refuses what a
// leader of an older epoch wants to append.
//
//	go build -o /tmp/partitions .                           # in examples/partitions
//	D=postgres://user:password@127.0.0.1:5432/log
//	B=n1=127.0.0.1:7501,n2=127.0.0.1:7502,n3=127.0.0.1:7503
//	/tmp/partitions -db "$D" install
//	/tmp/partitions -db "$D" -brokers "$B" -election file:/tmp/brokers -id n1 broker    # and n2, and n3
//	/tmp/partitions -brokers "$B" -id p1 produce            # prints what was acknowledged
//	/tmp/partitions -brokers "$B" consume                   # prints what is in the log, in order
//
// broker.go and log.go are what is to be copied.
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
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/electd/elect"
	"github.com/electd/elect/file"
	"github.com/electd/elect/group"
	"github.com/electd/elect/peer"
)

// settings are the flags.
type settings struct {
	db, election, id, topic string
	partitions              int
	brokers                 map[string]string // their addresses, by id
	promise, every          time.Duration
	log                     *slog.Logger
}

func main() {
	s := settings{log: slog.New(slog.NewTextHandler(os.Stderr, nil)), brokers: make(map[string]string)}
	flag.StringVar(&s.db, "db", "", "PostgreSQL: a URL such as postgres://user:password@host/log")
	flag.StringVar(&s.election, "election", "", "where the coordinator is elected: a URL of file: or peer:")
	flag.StringVar(&s.id, "id", "", "which broker, or which producer, this is")
	flag.StringVar(&s.topic, "topic", "orders", "name of the topic")
	flag.IntVar(&s.partitions, "partitions", 8, "how many partitions the topic has")
	flag.DurationVar(&s.promise, "promise", 0, "how long the partitions of a broker are kept that is not heard; 0 is the default of groups")
	flag.DurationVar(&s.every, "every", 10*time.Millisecond, "time between two records that a producer appends to a partition")
	brokers := flag.String("brokers", "", "the brokers, as id=host:port,...")
	flag.Parse()
	for b := range strings.SplitSeq(*brokers, ",") {
		if id, addr, ok := strings.Cut(b, "="); ok {
			s.brokers[id] = addr
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := errors.New("want one of install, broker, produce, consume")
	switch flag.Arg(0) {
	case "install":
		err = s.install(ctx)
	case "broker":
		err = s.broker(ctx)
	case "produce":
		err = s.produce(ctx)
	case "consume":
		err = s.consume(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "partitions:", err)
		os.Exit(1)
	}
}

func (s *settings) install(ctx context.Context) error {
	db, err := sql.Open("pgx", s.db)
	if err != nil {
		return errors.New("-db is no URL of PostgreSQL; want postgres://user:password@host/database")
	}
	defer db.Close()
	return install(ctx, db, s.topic, s.partitions)
}

// broker runs one broker.
func (s *settings) broker(ctx context.Context) error {
	addr, ok := s.brokers[s.id]
	if !ok {
		return fmt.Errorf("-id is %q; want one of -brokers", s.id)
	}
	db, err := sql.Open("pgx", s.db)
	if err != nil {
		return errors.New("-db is no URL of PostgreSQL; want postgres://user:password@host/database")
	}
	defer db.Close()
	openers := elect.Openers{"file": file.Open, "peer": peer.Open}
	election, err := openers.Open(ctx, s.election, s.topic, elect.Config{ID: s.id, Logger: s.log})
	if err != nil {
		return err
	}
	g, err := group.Join(ctx, election, group.Config{Name: s.topic, ID: s.id, Keys: group.Range(s.partitions), Promise: s.promise, Logger: s.log})
	if err != nil {
		return errors.Join(err, election.Close())
	}
	defer g.Close()
	b := &broker{db: db, group: g, topic: s.topic, log: s.log, leads: make(map[string]*partition)}
	return b.run(ctx, addr)
}
