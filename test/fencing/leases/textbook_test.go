//go:build linux && cgo

package leases_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// TestTextbook breaks the two forms of an election in PostgreSQL that textbooks and forums show: two clients that
// follow them work at the same time. docs/databases.md says what elect does differently.
func TestTextbook(t *testing.T) {
	long.Test(t, "it starts a PostgreSQL")
	t.Parallel()
	pg := server.StartPostgres(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	connect := func(t *testing.T, url string) *sql.Conn {
		t.Helper()
		db, err := sql.Open("pgx", url)
		check(t, err)
		t.Cleanup(func() { _ = db.Close() })
		c, err := db.Conn(ctx)
		check(t, err)
		return c
	}
	// The answer to a's UPDATE comes late: the way back is cut, as by a pause of a or of the network.
	t.Run("UPDATE WHERE expires_at < now()", func(t *testing.T) {
		url := pg.Database(t)
		at := parse(t, url)
		way, err := cable.New(at.Host)
		check(t, err)
		t.Cleanup(func() { _ = way.Close() })
		at.Host = way.Addr()
		a, b := connect(t, at.String()), connect(t, url)
		_, err = b.ExecContext(ctx, "CREATE TABLE leader (holder text, expires_at timestamptz)")
		check(t, err)
		_, err = b.ExecContext(ctx, "INSERT INTO leader VALUES ('', now() - interval '1 second')")
		check(t, err)
		const acquire = "UPDATE leader SET holder = $1, expires_at = now() + $2::interval WHERE expires_at < now()"
		ask, err := a.PrepareContext(ctx, acquire)
		check(t, err)
		way.Set(cable.Way{}, cable.Way{Cut: true})
		type outcome struct {
			rows int64
			err  error
		}
		told := make(chan outcome, 1)
		go func() {
			r, err := ask.ExecContext(ctx, "a", "100 milliseconds")
			if err != nil {
				told <- outcome{0, err}
				return
			}
			n, err := r.RowsAffected()
			told <- outcome{n, err}
		}()
		holder := func() (who string, live bool) {
			t.Helper()
			check(t, b.QueryRowContext(ctx, "SELECT holder, expires_at > now() FROM leader").Scan(&who, &live))
			return who, live
		}
		for who := ""; who != "a"; who, _ = holder() {
			<-time.After(time.Millisecond)
		}
		for rows := int64(0); rows == 0; {
			r, err := b.ExecContext(ctx, acquire, "b", "1 hour")
			check(t, err)
			rows, err = r.RowsAffected()
			check(t, err)
		}
		// b is at work now.
		way.Heal()
		if o := <-told; o.err != nil || o.rows != 1 {
			t.Fatalf("a is told %d rows, %v; want 1: the form would be safe here", o.rows, o.err)
		}
		// And so is a, which was told that it has won, while the row says otherwise.
		if who, live := holder(); who != "b" || !live {
			t.Errorf("the row says %s, valid: %t; want b, which has not lost it", who, live)
		}
	})
	// The session that has the lock ends, as by a firewall, a proxy or a failover, and the work does not notice.
	t.Run("session-level advisory lock", func(t *testing.T) {
		url := pg.Database(t)
		a, work, b := connect(t, url), connect(t, url), connect(t, url)
		_, err := b.ExecContext(ctx, "CREATE TABLE writes (n bigserial, worker text)")
		check(t, err)
		var session int
		check(t, a.QueryRowContext(ctx, "SELECT pg_backend_pid() FROM pg_advisory_lock(1)").Scan(&session))
		write := func(c *sql.Conn, worker string) {
			t.Helper()
			_, err := c.ExecContext(ctx, "INSERT INTO writes (worker) VALUES ($1)", worker)
			check(t, err)
		}
		write(work, "a")
		_, err = work.ExecContext(ctx, "SELECT pg_terminate_backend($1)", session)
		check(t, err)
		_, err = b.ExecContext(ctx, "SELECT pg_advisory_lock(1)")
		check(t, err)
		write(b, "b")
		write(work, "a") // nothing has told it
		write(b, "b")
		var order string
		check(t, b.QueryRowContext(ctx, "SELECT string_agg(worker, '' ORDER BY n) FROM writes").Scan(&order))
		if order != "abab" {
			t.Errorf("writes of %s; want abab", order)
		}
		if err := a.PingContext(ctx); err == nil {
			t.Error("the session of a lives; want it ended")
		}
	})
}
