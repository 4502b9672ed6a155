//go:build linux

package postgres_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
	"github.com/electd/elect/test/fencing/zombie"
)

// database describes a server; nil will do in the process of a leader. A place is a URL
// with parameters, to which a test may add some.
func database(pg *server.Postgres) sqltest.Database {
	return sqltest.Database{
		Dialect: fencesql.PostgreSQL,
		Open:    open,
		Make:    func(t testing.TB) string { return pg.Database(t) },
		Session: `SELECT pg_backend_pid()`,
		End:     end,
		Waiting: `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
	}
}

func open(at string, steps *zombie.Steps) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(at)
	if err != nil {
		return nil, err
	}
	if steps != nil {
		cfg.DialFunc = steps.Dial
	}
	return stdlib.OpenDB(*cfg), nil
}

// end ends a session, and waits for that for ten seconds at most.
func end(t *testing.T, db *sql.DB, session int64) {
	t.Helper()
	var gone bool
	if err := db.QueryRowContext(t.Context(), `SELECT pg_terminate_backend($1, 10000)`, session).Scan(&gone); err != nil || !gone {
		t.Fatalf("process %d lives on: %v", session, err)
	}
}

// TestFence is everything that needs a server and no leaders.
func TestFence(t *testing.T) {
	t.Parallel()
	d := database(server.StartPostgres(t))
	sqltest.Conformance(t, d)
	sqltest.Locks(t, d)
	sqltest.Run(t, d,
		sqltest.Case{Name: "who is in the way", Test: testBusy},
		sqltest.Case{Name: "rows that no claim has written", Test: testRows},
		sqltest.Case{Name: "the claim's commit is durable", Test: testDurable},
		sqltest.Case{Name: "a commit that is refused", Test: sqltest.RefusedCommit},
		sqltest.Case{Name: "a snapshot from before the claim", Test: testSnapshot},
		sqltest.Case{Name: "triggers", Test: testTriggers},
		sqltest.Case{Name: "triggers see everything", Test: testEverything},
		sqltest.Case{Name: "a trigger after a savepoint", Test: testTriggerAfterSavepoint},
		sqltest.Case{Name: "tokens do not leak", Test: testLeaks},
		sqltest.Case{Name: "uninstalled with triggers", Test: testUninstall},
	)
}

func testBusy(t *testing.T, d sqltest.Database) {
	somewhere := d.Make
	d.Make = func(t testing.TB) string { return somewhere(t) + "&application_name=worker-7" }
	if said := sqltest.Busy(t, d); !strings.Contains(said, "worker-7") || !strings.Contains(said, "idle in transaction") {
		t.Errorf("%s; want it to say who is in the way", said)
	}
}

func testRows(t *testing.T, d sqltest.Database) {
	sqltest.Rows(t, d, `ALTER TABLE elect_fence DROP CONSTRAINT elect_fence_token_check, ALTER COLUMN token DROP NOT NULL`)
	db, _ := d.New(t, fencesql.Config{}, "orders")
	for _, name := range []string{"''", "'two words'", "NULL"} {
		if _, err := db.ExecContext(t.Context(), `INSERT INTO elect_fence VALUES (`+name+`, 0)`); err == nil {
			t.Errorf("the table takes %s for a resource", name)
		}
	}
}

// testDurable: where the database does not flush commits, the claim's is flushed, and no setting of
// that stays in the connection.
func testDurable(t *testing.T, d sqltest.Database) {
	db := d.Connect(t, d.Make(t)+"&synchronous_commit=off&default_transaction_isolation=serializable&lock_timeout=12345")
	db.SetMaxOpenConns(1)
	f := d.Installed(t, db, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE TABLE seen (setting text)`,
		`CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO seen VALUES (current_setting('synchronous_commit')), (current_setting('transaction_isolation')), (current_setting('lock_timeout')); RETURN NULL; END $$`,
		`CREATE TRIGGER see AFTER UPDATE ON elect_fence EXECUTE FUNCTION see()`)
	sqltest.Claim(t, f, 1)
	var seen, left string
	if err := db.QueryRowContext(t.Context(), `SELECT string_agg(setting, ' ') FROM seen`).Scan(&seen); err != nil || seen != "on read committed 10s" {
		t.Errorf("the claim was made with %q, %v", seen, err)
	}
	if err := db.QueryRowContext(t.Context(), `SELECT current_setting('synchronous_commit') || ' ' || current_setting('lock_timeout')`).Scan(&left); err != nil || left != "off 12345ms" {
		t.Errorf("it left %q, %v", left, err)
	}
}

// testSnapshot: a transaction whose snapshot is older than a claim. The bare predicate
// believes the snapshot, and so does a check without FOR SHARE; the check does not.
func testSnapshot(t *testing.T, d sqltest.Database) {
	db, f := d.New(t, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE TABLE orders (n int)`)
	token := fence.Token(1)
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		sqltest.Claim(t, f, token)
		checked, bare := sqltest.Begin(t, db, level), sqltest.Begin(t, db, level)
		sqltest.In(t, checked, `SELECT count(*) FROM orders`)
		sqltest.In(t, bare, `SELECT count(*) FROM orders`)
		sqltest.Claim(t, f, token+1)
		if err := f.Check(t.Context(), checked, token); err == nil {
			t.Errorf("%v: a stale token passed on an old snapshot", level)
		}
		_ = checked.Rollback()
		sqltest.In(t, bare, `INSERT INTO orders SELECT 1 WHERE EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'orders' AND token <= $1)`, int64(token))
		if err := bare.Commit(); err != nil {
			t.Errorf("%v: the bare predicate has become safe? %v", level, err)
		}
		token += 2
	}
	if n := sqltest.Number(t, db, `SELECT count(*) FROM orders`); n != 2 {
		t.Errorf("%d stale writes by the bare predicate; want 2, or the documentation is wrong", n)
	}
}

// testUninstall: triggers hold what they need. The table of marks is in a schema.
func testUninstall(t *testing.T, d sqltest.Database) {
	db := d.Connect(t, d.Make(t))
	sqltest.Execute(t, db, `CREATE SCHEMA guards`, `CREATE TABLE orders (n int)`)
	f := d.Installed(t, db, fencesql.Config{Table: "guards.marks"}, "orders")
	sqltest.Claim(t, f, 5)
	if err := f.InstallTriggers(t.Context(), "public.orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO orders VALUES (1)`); !errors.Is(fencesql.Refusal(err), fence.ErrMissing) {
		t.Error(err)
	}
	mark := d.Mark(t, db, fencesql.Config{Table: "guards.marks"})
	if err := f.Uninstall(t.Context()); err == nil {
		t.Error("uninstalled while it guards a table")
	}
	if err := mark.Drop(t.Context()); err == nil {
		t.Error("dropped while a table is guarded")
	}
	for range 2 {
		if err := f.UninstallTriggers(t.Context(), "public.orders"); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Uninstall(t.Context()), mark.Drop(t.Context())); err != nil {
		t.Error(err)
	}
	if n := sqltest.Number(t, db, `SELECT count(*) FROM pg_proc WHERE proname LIKE 'marks%'`) + sqltest.Number(t, db, `SELECT count(*) FROM pg_class WHERE relname LIKE 'marks%'`); n != 0 {
		t.Errorf("%d things are left", n)
	}
}
