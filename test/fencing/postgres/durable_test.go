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
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// TestClaimAgain: the server shows a claim that was cancelled while it waited for its standby,
// though no standby has it. A second claim with the same token does not count it as made.
func TestClaimAgain(t *testing.T) {
	t.Parallel()
	d := database(server.StartPostgres(t))
	db := d.Connect(t, d.Make(t))
	f := d.Installed(t, db, fencesql.Config{}, "orders")
	sqltest.Claim(t, f, 1)
	sqltest.Execute(t, db, `CREATE TABLE heard (n INT)`, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`, `SELECT pg_reload_conf()`)
	alone := func() { sqltest.Execute(t, db, `ALTER SYSTEM RESET ALL`, `SELECT pg_reload_conf()`) }
	defer alone() // else nothing can be dropped
	shown(t, db, "nobody")
	for heard := true; heard; { // PostgreSQL's checkpointer tells the others, later than they know the setting
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := db.ExecContext(ctx, `INSERT INTO heard VALUES (1)`)
		heard = err == nil
		cancel()
	}
	for name, claim := range map[string]func(context.Context) error{
		"claim": func(ctx context.Context) error { return f.Claim(ctx, 2) },
		"mark":  func(ctx context.Context) error { return d.Mark(t, db, fencesql.Config{}).Raise(ctx, "orders", 2) },
	} {
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := claim(ctx); !errors.Is(err, fence.ErrUnknownOutcome) {
				t.Errorf("%s: %v; want an unknown outcome, for no standby has it", name, err)
			}
			cancel()
		}
	}
	alone()
	shown(t, db, "")
	sqltest.Claim(t, f, 2)
}

// shown waits until new transactions have the setting.
func shown(t *testing.T, db *sql.DB, want string) {
	t.Helper()
	for start := time.Now(); ; <-time.After(20 * time.Millisecond) {
		var got string
		if err := db.QueryRowContext(t.Context(), `SELECT current_setting('synchronous_standby_names')`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got == want {
			return
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("synchronous_standby_names is %q; want %q", got, want)
		}
	}
}

// TestPreparedTransaction: a prepared transaction that holds a mark has no process. It is named
// nevertheless, and so are other sessions that block claims.
func TestPreparedTransaction(t *testing.T) {
	t.Parallel()
	d := database(server.StartPostgres(t, "max_prepared_transactions=1"))
	url := d.Make(t)
	db := d.Connect(t, url)
	f := d.Installed(t, db, fencesql.Config{LockTimeout: 500 * time.Millisecond}, "orders", "bills")
	bills := d.Guard(t, db, fencesql.Config{LockTimeout: 500 * time.Millisecond}, "bills")
	sqltest.Claim(t, f, 1)
	sqltest.Claim(t, bills, 1)
	tx := sqltest.Checked(t, bills, db, 1)
	sqltest.In(t, tx, `PREPARE TRANSACTION 'bills'`)
	_ = tx.Rollback() // there is none any more
	defer sqltest.Execute(t, db, `ROLLBACK PREPARED 'bills'`)
	if err := bills.Claim(t.Context(), 2); !errors.Is(err, fence.ErrBusy) || !strings.Contains(err.Error(), "held by a prepared transaction") {
		t.Errorf("got %v; want that a prepared transaction is in the way", err)
	}
	// A claim behind another one that waits for a transaction which stands still.
	still := sqltest.Checked(t, f, d.Connect(t, url), 1)
	defer still.Rollback()
	patient := d.Guard(t, db, fencesql.Config{LockTimeout: 30 * time.Second}, "orders")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- patient.Claim(ctx, 2) }()
	d.Wait(t, db, 1)
	ending := d.Guard(t, db, fencesql.Config{LockTimeout: 5 * time.Second, Terminate: true}, "orders")
	if err := ending.Claim(t.Context(), 3); err != nil {
		t.Error(err)
	}
	cancel()
	<-first
}
