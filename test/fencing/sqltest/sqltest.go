//go:build linux

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/zombie"
)

// Database describes a database to the cases.
type Database struct {
	Dialect fencesql.Dialect

	// Open opens a pool of connections to the database that Make has returned. In the
	// process of a leader, what they do are steps; elsewhere steps is nil.
	Open func(at string, steps *zombie.Steps) (*sql.DB, error)

	// Make makes an empty database, for one test, and returns where it is.
	Make func(testing.TB) string

	// Session is a query for the number of the session that asks, and End ends the session
	// of that number, and returns when it has gone. Waiting counts the sessions of the
	// database that wait for a lock. A database without sessions has none of these.
	Session string
	End     func(t *testing.T, db *sql.DB, session int64)
	Waiting string
}

// Connect opens a pool of connections, which is closed with the test.
func (d Database) Connect(t testing.TB, at string) *sql.DB {
	t.Helper()
	db, err := d.Open(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Guard returns the guard of a resource. It installs nothing.
func (d Database) Guard(t testing.TB, db *sql.DB, cfg fencesql.Config, resource fence.Resource) *fencesql.Guard {
	t.Helper()
	g, err := fencesql.New(db, d.Dialect, resource, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Installed installs resources, and returns the guard of the first one.
func (d Database) Installed(t testing.TB, db *sql.DB, cfg fencesql.Config, resources ...fence.Resource) (first *fencesql.Guard) {
	t.Helper()
	for _, r := range resources {
		g := d.Guard(t, db, cfg, r)
		if err := g.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = g
		}
	}
	return first
}

// New makes a database with resources installed in it, and returns the guard of the first one.
func (d Database) New(t testing.TB, cfg fencesql.Config, resources ...fence.Resource) (*sql.DB, *fencesql.Guard) {
	t.Helper()
	db := d.Connect(t, d.Make(t))
	return db, d.Installed(t, db, cfg, resources...)
}

// Mark returns the table of marks. It installs nothing.
func (d Database) Mark(t testing.TB, db *sql.DB, cfg fencesql.Config) *fencesql.Mark {
	t.Helper()
	m, err := fencesql.NewMark(db, d.Dialect, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Wait returns when that many sessions wait for a lock. It polls seldom enough for InnoDB, which
// repeats an answer for 0.1 seconds (CACHE_MIN_IDLE_TIME in its trx0i_s.cc).
func (d Database) Wait(t *testing.T, db *sql.DB, want int64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		<-time.After(150 * time.Millisecond)
		if Number(t, db, d.Waiting) >= want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no session waits for a lock")
		}
	}
}

// bind writes parameters as the dialect does. They are ? in the query.
func (d Database) bind(query string) string {
	if d.Dialect != fencesql.PostgreSQL {
		return query
	}
	for n := 1; strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", fmt.Sprintf("$%d", n), 1)
	}
	return query
}

// Execute executes statements, each by itself.
func Execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// In executes a statement in a transaction.
func In(t testing.TB, tx *sql.Tx, statement string, args ...any) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Querier is a pool of connections, or a transaction.
type Querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

// Number returns the one number that a query finds.
func Number(t testing.TB, db Querier, query string) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// Begin begins a transaction, which is rolled back with the test if it is open then.
func Begin(t testing.TB, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// Checked begins a transaction with a check.
func Checked(t testing.TB, f *fencesql.Guard, db *sql.DB, token fence.Token) *sql.Tx {
	t.Helper()
	tx := Begin(t, db, sql.LevelDefault)
	if err := f.Check(t.Context(), tx, token); err != nil {
		t.Fatal(err)
	}
	return tx
}

// Claim makes a claim that must succeed.
func Claim(t testing.TB, f *fencesql.Guard, token fence.Token) {
	t.Helper()
	if err := f.Claim(t.Context(), token); err != nil {
		t.Fatalf("claim with %v: %v", token, err)
	}
}

// Stale requires a refusal, with these tokens.
func Stale(t testing.TB, err error, shown, highest fence.Token) {
	t.Helper()
	if s, ok := errors.AsType[*fence.StaleError](err); !ok || s.Shown != shown || s.Highest != highest || !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v; want a StaleError of %v and %v", err, shown, highest)
	}
}

// Is requires an error, which must not also match a refusal or an unknown outcome.
func Is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v; want %v", err, want)
	}
	for _, other := range []error{fence.ErrStale, fence.ErrUnknownOutcome} {
		if want != other && errors.Is(err, other) {
			t.Errorf("%v matches %v, too", err, other)
		}
	}
}

// nothing is work that does nothing; never is work that must not be run.
func nothing(*sql.Tx) error { return nil }

func never(t testing.TB) func(*sql.Tx) error {
	return func(*sql.Tx) error {
		t.Error("the work was run")
		return nil
	}
}
