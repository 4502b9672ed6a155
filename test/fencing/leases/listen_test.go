//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// listen is the function of the documentation of sqlstore.Listen.
func listen(db *sql.DB) sqlstore.Listen {
	return func(ctx context.Context, channel string, heard func(payload string)) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Raw(func(driver any) error {
			c := driver.(*stdlib.Conn).Conn()
			defer c.Close(context.Background()) // it listens, and is of no use to others
			if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
				return err
			}
			for heard(""); ; {
				n, err := c.WaitForNotification(ctx)
				if err != nil {
					return err
				}
				heard(n.Payload)
			}
		})
	}
}

// at returns a participant by that database.
func at(t testing.TB, db *sql.DB, name, id string, cfg sqlstore.Config) driver.Elector {
	t.Helper()
	e, err := sqlstore.New(t.Context(), db, sqlstore.PostgreSQL, name, id, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func campaigned(t testing.TB, ctx context.Context, e driver.Elector) driver.Mandate {
	t.Helper()
	m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// shows waits until an observer shows that leader.
func shows(t testing.TB, ctx context.Context, e driver.Elector, leader string) {
	t.Helper()
	for s := range e.Watch(ctx) {
		if s.Leader != nil && s.Leader.ID == leader {
			return
		}
	}
	t.Fatalf("%s is not shown as the leader", leader)
}

// TestListen: candidates whose next read is half an hour away hear of releases. All of a process do
// by one connection, also one that had to be made again.
func TestListen(t *testing.T) {
	long.Full(t, "it starts a real server; CI has the same in fake time")
	pg := server.StartPostgres(t)
	p := (&database{dialect: sqlstore.PostgreSQL, make: func(t testing.TB) *url.URL { return parse(t, pg.Database(t)) }}).place(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	log := &bytes.Buffer{}
	db := p.open(t)
	l := sqlstore.NewListener(db, listen(db), slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(l.Close)
	rare := sqlstore.Config{Lease: time.Hour, MaxLease: time.Hour, Poll: time.Hour, Listener: l}
	connections := func(want int) {
		t.Helper()
		p.until(t, `SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`, fmt.Sprint(want))
	}
	for _, name := range []string{"one", "two", "three"} {
		// The first leader of a new row waits for the longest lease: a short one, here.
		released(t, campaigned(t, ctx, at(t, db, name, "first", sqlstore.Config{Lease: time.Second, MaxLease: time.Second})))
		a, b := at(t, db, name, "a", rare), at(t, db, name, "b", rare)
		was := campaigned(t, ctx, a)
		shows(t, ctx, b, "a")
		won := make(chan driver.Mandate, 1)
		go func() {
			m, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
			won <- m
		}()
		connections(1)
		if name == "two" {
			p.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`)
		}
		released(t, was)
		is := <-won
		if is == nil {
			t.Fatal("nobody has heard of the release")
		}
		if is.Token() <= was.Token() {
			t.Errorf("token %v after %v", is.Token(), was.Token())
		}
	}
	connections(1)
}

// BenchmarkRelease measures the time from a release until the next candidate leads, with the default
// times, at a PostgreSQL server without other work.
func BenchmarkRelease(b *testing.B) {
	pg := server.StartPostgres(b)
	for _, how := range []string{"poll", "listen"} {
		b.Run(how, func(b *testing.B) {
			p := (&database{dialect: sqlstore.PostgreSQL, make: func(t testing.TB) *url.URL { return parse(t, pg.Database(t)) }}).place(b)
			db := p.open(b)
			var cfg sqlstore.Config
			if how == "listen" {
				cfg.Listener = sqlstore.NewListener(db, listen(db), nil)
				b.Cleanup(cfg.Listener.Close)
			}
			first := campaigned(b, b.Context(), at(b, db, "e", "first", sqlstore.Config{Lease: time.Second, MaxLease: time.Second}))
			if err := first.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
			electors := [2]driver.Elector{at(b, db, "e", "a", cfg), at(b, db, "e", "b", cfg)}
			m := campaigned(b, b.Context(), electors[0])
			next := 1
			for b.Loop() {
				b.StopTimer()
				won := make(chan driver.Mandate, 1)
				e := electors[next]
				go func() { won <- campaigned(b, b.Context(), e) }()
				shows(b, b.Context(), e, fmt.Sprintf("%c", 'b'-next))
				b.StartTimer()
				if err := m.Release(b.Context()); err != nil {
					b.Fatal(err)
				}
				m = <-won
				next = 1 - next
			}
		})
	}
}
