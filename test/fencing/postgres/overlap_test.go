//go:build linux

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// TestOverlap is about claims during overlapping transactions of an older leader, so that there is
// never a moment without one.
func TestOverlap(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	d := database(server.StartPostgres(t))
	t.Run("tx", func(t *testing.T) { testOverlap(t, d, overlapTx) })
	t.Run("trigger", func(t *testing.T) { testOverlap(t, d, overlapTrigger) })
	t.Run("mark", func(t *testing.T) { testOverlap(t, d, overlapMark) })
	t.Run("checks that do not queue", func(t *testing.T) { testChain(t, d) })
	t.Run("a claim that is cancelled", func(t *testing.T) { testCancelled(t, d) })
}

// hold is what each transaction does in addition to its write.
const hold = `SELECT pg_sleep(0.03)`

// overlapPatience is how long a claim may wait on a busy machine.
const overlapPatience = 20 * time.Second

func overlapTx(ctx context.Context, f *fencesql.Guard, _ *fencesql.Mark, _ *sql.DB) error {
	return f.Write(ctx, 1, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, hold)
		return err
	})
}

func overlapTrigger(ctx context.Context, _ *fencesql.Guard, _ *fencesql.Mark, term *sql.DB) error {
	tx, err := term.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, order); err != nil {
		return fencesql.Refusal(err)
	}
	if _, err := tx.ExecContext(ctx, hold); err != nil {
		return err
	}
	return tx.Commit()
}

func overlapMark(ctx context.Context, _ *fencesql.Guard, mark *fencesql.Mark, term *sql.DB) error {
	release, err := mark.Share(ctx, "orders", 1)
	if err != nil {
		return err
	}
	_, err = term.ExecContext(ctx, hold)
	return errors.Join(err, release())
}

// testOverlap has transactions of a leader overlap, by one of the ways to write.
func testOverlap(t *testing.T, d sqltest.Database, write func(context.Context, *fencesql.Guard, *fencesql.Mark, *sql.DB) error) {
	url := d.Make(t)
	f := d.Installed(t, d.Connect(t, url), fencesql.Config{LockTimeout: overlapPatience}, "orders")
	sqltest.Execute(t, d.Connect(t, url), `CREATE TABLE orders (n int)`)
	if err := f.InstallTriggers(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	db, cfg := d.Connect(t, url), fencesql.Config{LockTimeout: overlapPatience}
	older, mark, term := d.Guard(t, db, cfg, "orders"), d.Mark(t, db, cfg), forTerm(t, url, 1)
	sqltest.Overlap(t, f, func(ctx context.Context) error { return write(ctx, older, mark, term) })
}

// testChain: programs may check by hand with FOR SHARE alone. They do not queue behind a
// claim (README.tuplock of PostgreSQL's heap: a share lock joins others, even if a claim waits),
// and each wait of the claim is shorter than lock_timeout. It ends all the same, and has
// changed nothing.
func testChain(t *testing.T, d sqltest.Database) {
	url := d.Make(t)
	db := d.Connect(t, url)
	const patience = 300 * time.Millisecond
	f := d.Installed(t, d.Connect(t, url+"&application_name=claimer"), fencesql.Config{LockTimeout: patience}, "orders")
	sqltest.Claim(t, f, 1)
	lock := func(ctx context.Context) (*sql.Tx, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		var token int64
		return tx, tx.QueryRowContext(ctx, `SELECT token FROM elect_fence WHERE resource = 'orders' AND token <= 1 FOR SHARE`).Scan(&token)
	}
	ctx, stop := context.WithCancel(t.Context())
	first, err := lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() { // each takes the mark before the one before it lets go
		links := 0
		defer func() { ended <- links }()
		for held := first; ; links++ {
			next, err := lock(context.WithoutCancel(ctx))
			_ = held.Rollback()
			if err != nil || ctx.Err() != nil {
				if next != nil {
					_ = next.Rollback()
				}
				return
			}
			held = next
		}
	}()
	began := time.Now()
	err = f.Claim(t.Context(), 2)
	took := time.Since(began)
	sqltest.Is(t, err, fence.ErrBusy)
	if took > patience+10*time.Second {
		t.Errorf("the claim took %v, with a lock timeout of %v", took, patience)
	}
	stop()
	if links := <-ended; links < 10 {
		t.Errorf("%d transactions: nothing was tested", links)
	}
	gone(t, db)
	if n := sqltest.Number(t, db, `SELECT token FROM elect_fence`); n != 1 {
		t.Errorf("the mark is %d after a claim that was given up", n)
	}
	sqltest.Claim(t, f, 2)
}

// testCancelled: a claim that its caller gives up while it waits is known not to have been made,
// and is not made later.
func testCancelled(t *testing.T, d sqltest.Database) {
	url := d.Make(t)
	db := d.Connect(t, url)
	f := d.Installed(t, d.Connect(t, url+"&application_name=claimer"), fencesql.Config{LockTimeout: time.Minute}, "orders")
	sqltest.Claim(t, f, 1)
	older := d.Guard(t, db, fencesql.Config{}, "orders")
	tx := sqltest.Begin(t, db, sql.LevelDefault)
	if err := older.Check(t.Context(), tx, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Claim(ctx, 2) }()
	d.Wait(t, db, 1)
	cancel()
	err := <-done
	sqltest.Is(t, err, context.Canceled)
	if errors.Is(err, fence.ErrBusy) {
		t.Errorf("%v; no session has waited too long", err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	gone(t, db)
	if n := sqltest.Number(t, db, `SELECT token FROM elect_fence`); n != 1 {
		t.Errorf("the mark is %d after a claim that was cancelled", n)
	}
	// Checks of the older leader wait no more.
	if err := older.Write(t.Context(), 1, nil, func(*sql.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	sqltest.Claim(t, f, 2)
}

// gone returns when the claimer's sessions are idle or have ended.
func gone(t *testing.T, db *sql.DB) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		var at sql.NullString
		err := db.QueryRowContext(t.Context(), `SELECT string_agg(state || ': ' || query, '; ') FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'claimer' AND state <> 'idle'`).Scan(&at)
		if err != nil {
			t.Fatal(err)
		}
		if !at.Valid {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the claim goes on at the server: %s", strings.ReplaceAll(at.String, "\n", " "))
		}
		<-time.After(2 * time.Millisecond)
	}
}
