//go:build linux && cgo

package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/sqltest"
)

// database describes files with a journal mode, and how the driver begins transactions. A
// place is a URL with parameters.
func database(journal, lock string) sqltest.Database {
	return sqltest.Database{
		Dialect: fencesql.SQLite,
		Open:    open,
		Make: func(t testing.TB) string {
			return "file:" + filepath.Join(t.TempDir(), "register.db") + "?_journal_mode=" + journal + "&_txlock=" + lock + "&_synchronous=FULL&_busy_timeout=10000&_foreign_keys=on"
		},
	}
}

func TestFence(t *testing.T) {
	t.Parallel()
	for _, journal := range []string{"WAL", "DELETE"} {
		for _, lock := range []string{"deferred", "immediate"} {
			t.Run(journal+" "+lock, func(t *testing.T) {
				d := database(journal, lock)
				sqltest.Conformance(t, d)
				sqltest.Run(t, d,
					sqltest.Case{Name: "a claim waits", Test: testBusy},
					sqltest.Case{Name: "a commit that is refused", Test: sqltest.RefusedCommit},
					sqltest.Case{Name: "rows that no claim has written", Test: testRows},
					sqltest.Case{Name: "no triggers, and nothing is left", Test: testLeft},
				)
			})
		}
	}
}

const set = `UPDATE orders SET n = ?`

// orders makes a table with one number, 0, and claims it with token 1.
func orders(t testing.TB, d sqltest.Database) (*sql.DB, *fencesql.Guard) {
	t.Helper()
	db, f := d.New(t, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE TABLE orders (n INT)`, `INSERT INTO orders VALUES (0)`)
	sqltest.Claim(t, f, 1)
	return db, f
}

// testBusy: a claim waits for the transaction that has checked, and is refused if that goes on.
func testBusy(t *testing.T, d sqltest.Database) {
	db, f := orders(t, d)
	impatient := d.Guard(t, db, fencesql.Config{LockTimeout: 100 * time.Millisecond}, "orders")
	tx := sqltest.Checked(t, f, db, 1)
	sqltest.Execute(t, db, `PRAGMA busy_timeout = 100`) // of the connection that is free
	if _, err := db.ExecContext(t.Context(), set, 9); err == nil {
		t.Error("the check alone does not make the transaction the writer")
	}
	sqltest.In(t, tx, set, 1)
	sqltest.Is(t, impatient.Claim(t.Context(), 2), fence.ErrBusy)
	sqltest.Claim(t, f, 1) // has nothing to wait for
	done := make(chan error, 1)
	go func() { done <- f.Claim(t.Context(), 2) }()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := sqltest.Number(t, db, `SELECT n FROM orders`); n != 1 {
		t.Errorf("the value is %d", n)
	}
	// A transaction that has read before it checks, and was overtaken, is refused: at once, or
	// because no other could overtake it.
	tx = sqltest.Begin(t, db, sql.LevelDefault)
	sqltest.Number(t, tx, `SELECT n FROM orders`)
	if err := impatient.Claim(t.Context(), 3); err == nil {
		if err := f.Check(t.Context(), tx, 2); err == nil {
			t.Error("a stale token passed on an old snapshot")
		}
	} else {
		sqltest.Is(t, err, fence.ErrBusy)
	}
}

func testRows(t *testing.T, d sqltest.Database) {
	db, _ := d.New(t, fencesql.Config{}, "orders")
	for _, value := range []string{"-1", "NULL", "'x'", "1.5", "281474976710656", "9223372036854775808"} {
		if _, err := db.ExecContext(t.Context(), `UPDATE elect_fence SET token = `+value); err == nil {
			t.Errorf("the table takes %s for a token", value)
		}
	}
}

func testLeft(t *testing.T, d sqltest.Database) {
	db, f := orders(t, d)
	sqltest.Is(t, f.InstallTriggers(t.Context(), "orders"), errors.ErrUnsupported)
	if err := d.Mark(t, db, fencesql.Config{}).Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := sqltest.Number(t, db, `SELECT COUNT(*) FROM sqlite_schema WHERE name LIKE 'elect%'`); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

// asking is a connector whose connections record, at each commit, at what level they sync.
type asking struct {
	connector
	levels *[]int64
}

func (a asking) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := a.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &askedConn{conn.(*steppedConn), a.levels}, nil
}

type askedConn struct {
	*steppedConn
	levels *[]int64
}

func (c *askedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.steppedConn.BeginTx(ctx, opts)
	return askedTx{tx, c}, err
}

type askedTx struct {
	driver.Tx
	conn *askedConn
}

func (t askedTx) Commit() error {
	rows, err := t.conn.QueryContext(context.Background(), `PRAGMA synchronous`, nil)
	if err != nil {
		return err
	}
	values := make([]driver.Value, 1)
	err = errors.Join(rows.Next(values), rows.Close())
	if err != nil {
		return err
	}
	*t.conn.levels = append(*t.conn.levels, values[0].(int64))
	return t.Tx.Commit()
}

// TestDurable: where the connection does not sync commits, a claim's is synced, and no setting of
// that stays in the connection.
func TestDurable(t *testing.T) {
	d := database("WAL", "deferred")
	at := d.Make(t)
	d.Installed(t, d.Connect(t, at), fencesql.Config{}, "orders")
	token := fence.Token(0)
	for level, want := range map[int64]int64{0: 2, 1: 2, 2: 2, 3: 3} {
		var levels []int64
		dsn := strings.NewReplacer("_synchronous=FULL", fmt.Sprintf("_synchronous=%d", level), "_busy_timeout=10000", "_busy_timeout=777").Replace(at)
		db := sql.OpenDB(asking{connector{dsn, func() {}}, &levels})
		db.SetMaxOpenConns(1)
		f := d.Guard(t, db, fencesql.Config{}, "orders")
		token++
		sqltest.Claim(t, f, token)
		if err := f.Write(t.Context(), token, nil, func(*sql.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(levels, []int64{want, level}) {
			t.Errorf("at level %d, the claim and a write were committed at %v", level, levels)
		}
		if left, busy := sqltest.Number(t, db, `PRAGMA synchronous`), sqltest.Number(t, db, `PRAGMA busy_timeout`); left != level || busy != 777 {
			t.Errorf("the claim left synchronous at %d for %d, and busy_timeout at %d", left, level, busy)
		}
		_ = db.Close()
	}
}

// TestBusyCommit: a commit that a reader holds up is refused, and nothing of it stays.
func TestBusyCommit(t *testing.T) {
	d := database("DELETE", "deferred")
	db, f := orders(t, d)
	reader := sqltest.Begin(t, db, sql.LevelDefault)
	sqltest.Number(t, reader, `SELECT n FROM orders`) // holds SHARED
	impatient := d.Guard(t, db, fencesql.Config{LockTimeout: 100 * time.Millisecond}, "orders")
	sqltest.Is(t, impatient.Claim(t.Context(), 2), fence.ErrBusy)
	sqltest.Execute(t, db, `PRAGMA busy_timeout = 100`) // of the one connection that is free
	err := f.Write(t.Context(), 1, nil, func(tx *sql.Tx) error { sqltest.In(t, tx, set, 7); return nil })
	if e, ok := errors.AsType[sqlite3.Error](err); !ok || e.Code != sqlite3.ErrBusy || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("%v; want it to be known that the commit was refused", err)
	}
	if err := reader.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := sqltest.Number(t, db, `SELECT n FROM orders`); n != 0 {
		t.Errorf("the value is %d; want 0", n)
	}
	sqltest.Claim(t, f, 2)
}
