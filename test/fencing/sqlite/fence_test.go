//go:build linux

package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

func execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func stale(t *testing.T, err error, shown, highest fence.Token) {
	t.Helper()
	if s, ok := errors.AsType[*fence.StaleError](err); !ok || s.Shown != shown || s.Highest != highest || !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v; want a StaleError of %v and %v", err, shown, highest)
	}
}

func is(t *testing.T, err, want error) {
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

func claim(t *testing.T, f *fencesql.Fence, resource fence.Resource, token fence.Token) {
	t.Helper()
	if err := f.Claim(t.Context(), resource, token); err != nil {
		t.Fatalf("claim of %s with %v: %v", resource, token, err)
	}
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func in(t *testing.T, tx *sql.Tx, statement string, args ...any) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func number(t *testing.T, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, query string) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// impatient is a Fence of the same file with another patience.
func impatient(t *testing.T, r *register) *fencesql.Fence {
	t.Helper()
	f, err := fencesql.New(r.db, fencesql.SQLite, fencesql.Config{LockTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFence(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		for _, lock := range []string{"deferred", "immediate"} {
			w := where{Journal: journal, Lock: lock, Form: "tx"}
			t.Run(journal+" "+lock, func(t *testing.T) {
				t.Run("claims", func(t *testing.T) { testClaims(t, prepare(t, w)) })
				t.Run("what is shown", func(t *testing.T) { testShown(t, prepare(t, w)) })
				t.Run("a claim waits", func(t *testing.T) { testBusy(t, prepare(t, w)) })
				t.Run("transactions", func(t *testing.T) { testTransactions(t, prepare(t, w)) })
				t.Run("install and uninstall", func(t *testing.T) { testInstall(t, prepare(t, w)) })
			})
		}
	}
}

func testClaims(t *testing.T, r *register) {
	if err := r.f.Add(t.Context(), "stock"); err != nil {
		t.Fatal(err)
	}
	claim(t, r.f, "register", 5)
	claim(t, r.f, "register", 5)
	stale(t, r.f.Claim(t.Context(), "register", 4), 4, 5)
	claim(t, r.f, "stock", 3) // has a mark of its own
	claim(t, r.f, "register", fence.MaxToken)
	stale(t, r.f.Claim(t.Context(), "register", fence.MaxToken-1), fence.MaxToken-1, fence.MaxToken)
	all, err := r.f.Status(t.Context())
	if err != nil || len(all) != 2 || all[0].Resource != "register" || all[0].Highest != fence.MaxToken || all[1].Highest != 3 {
		t.Fatalf("status: %+v, %v", all, err)
	}
	if since := time.Since(all[0].Claimed); since < -time.Minute || since > time.Minute {
		t.Errorf("claimed %v ago", since)
	}
	// Claims at the same time: the greatest stays, and each other one has passed or is stale.
	if err := r.f.Add(t.Context(), "many"); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for i := range fence.Token(8) {
		go func() { errs <- r.f.Claim(t.Context(), "many", i+1) }()
	}
	for range 8 {
		if err := <-errs; err != nil && !errors.Is(err, fence.ErrStale) {
			t.Error(err)
		}
	}
	if n := number(t, r.db, `SELECT token FROM elect_fence WHERE resource = 'many'`); n != 8 {
		t.Errorf("the mark is %d; want 8", n)
	}
}

func testShown(t *testing.T, r *register) {
	claim(t, r.f, "register", 7)
	for _, tt := range []struct {
		resource fence.Resource
		token    fence.Token
		want     error
	}{
		{"register", 0, fence.ErrMissing},
		{"register", 1 << 63, fence.ErrToken},
		{"register", 1<<64 - 1, fence.ErrToken}, // -1
		{"register", 1 << 48, fence.ErrToken},
		{"register' OR true --", 7, fence.ErrResource},
		{"", 7, fence.ErrResource},
		{"others", 7, fence.ErrResource},
		{"REGISTER", 7, fence.ErrResource}, // case counts
		{"register", 8, fencesql.ErrUnclaimed},
	} {
		is(t, r.f.Tx(t.Context(), tt.resource, tt.token, nil, func(*sql.Tx) error { t.Error("the work was run"); return nil }), tt.want)
		if tt.want != fencesql.ErrUnclaimed {
			is(t, r.f.Claim(t.Context(), tt.resource, tt.token), tt.want)
		}
	}
	stale(t, r.f.Tx(t.Context(), "register", 6, nil, func(*sql.Tx) error { t.Error("the work was run"); return nil }), 6, 7)
	is(t, r.f.Guard(t.Context(), "register", "register"), errors.ErrUnsupported)
	for _, value := range []string{"-1", "NULL", "'x'", "1.5", "281474976710656", "9223372036854775808"} {
		if _, err := r.db.ExecContext(t.Context(), `UPDATE elect_fence SET token = `+value); err == nil {
			t.Errorf("the table takes %s for a token", value)
		}
	}
	// Restored from a backup.
	execute(t, r.db, `UPDATE elect_fence SET token = 6`)
	is(t, r.f.Tx(t.Context(), "register", 7, nil, func(*sql.Tx) error { t.Error("the work was run"); return nil }), fencesql.ErrUnclaimed)
}

// testBusy: a claim waits for the transaction that has checked, and is refused if that goes on.
func testBusy(t *testing.T, r *register) {
	claim(t, r.f, "register", 1)
	tx := begin(t, r.db)
	if err := r.f.Check(t.Context(), tx, "register", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.db.ExecContext(t.Context(), `PRAGMA busy_timeout = 100`); err != nil { // of the connection that is free
		t.Fatal(err)
	}
	if _, err := r.db.ExecContext(t.Context(), set, 9); err == nil {
		t.Error("the check alone does not make the transaction the writer")
	}
	in(t, tx, set, 1)
	is(t, impatient(t, r).Claim(t.Context(), "register", 2), fence.ErrBusy)
	claim(t, r.f, "register", 1) // has nothing to wait for
	done := make(chan error, 1)
	go func() { done <- r.f.Claim(t.Context(), "register", 2) }()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := number(t, r.db, `SELECT value FROM register`); n != 1 {
		t.Errorf("the value is %d", n)
	}
	// What has read before it checks, and was overtaken, is refused: at once, or because
	// nobody could overtake it.
	tx = begin(t, r.db)
	number(t, tx, `SELECT value FROM register`)
	if err := impatient(t, r).Claim(t.Context(), "register", 3); err == nil {
		if err := r.f.Check(t.Context(), tx, "register", 2); err == nil {
			t.Error("a stale token passed on an old snapshot")
		}
	} else {
		is(t, err, fence.ErrBusy)
	}
}

func testTransactions(t *testing.T, r *register) {
	claim(t, r.f, "register", 1)
	execute(t, r.db, `CREATE TABLE parent (id INTEGER PRIMARY KEY)`, `CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)`)
	do := func(ctx context.Context, work func(*sql.Tx) error) error {
		return r.f.Tx(ctx, "register", 1, nil, work)
	}
	own := errors.New("own")
	is(t, do(t.Context(), func(tx *sql.Tx) error { in(t, tx, set, 2); return own }), own)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = do(t.Context(), func(tx *sql.Tx) error { in(t, tx, set, 3); panic("at the disco") })
	}()
	ctx, cancel := context.WithCancelCause(t.Context())
	is(t, do(ctx, func(tx *sql.Tx) error { in(t, tx, set, 4); cancel(own); return nil }), own)
	// A commit that is refused is known not to have been done, and leaves nothing open.
	r.db.SetMaxOpenConns(1)
	err := do(t.Context(), func(tx *sql.Tx) error {
		in(t, tx, set, 6)
		in(t, tx, `INSERT INTO child VALUES (1)`)
		return nil
	})
	if err == nil || errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a commit that a foreign key forbids: %v", err)
	}
	if n := number(t, r.db, `SELECT value FROM register`); n != 0 {
		t.Errorf("the value is %d; want 0", n)
	}
	claim(t, r.f, "register", 2)
}

func testInstall(t *testing.T, r *register) {
	for range 2 {
		if err := r.f.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	claim(t, r.f, "register", 1)
	if err := r.f.Remove(t.Context(), "register"); err != nil {
		t.Fatal(err)
	}
	is(t, r.f.Claim(t.Context(), "register", 1), fence.ErrResource)
	for range 2 {
		if err := r.f.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := number(t, r.db, `SELECT COUNT(*) FROM sqlite_schema WHERE name LIKE 'elect%'`); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

// asking is a connector whose connections take down, at each commit, at what level they sync.
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

// TestDurable: where the connection does not sync commits, a claim's is synced all the
// same, and nothing of that stays behind in the connection.
func TestDurable(t *testing.T) {
	r := prepare(t, where{Journal: "WAL", Lock: "deferred"})
	for level, want := range map[int64]int64{0: 2, 1: 2, 2: 2, 3: 3} {
		var levels []int64
		dsn := strings.Replace(strings.Replace(r.dsn(), "_synchronous=FULL", fmt.Sprintf("_synchronous=%d", level), 1), "_busy_timeout=10000", "_busy_timeout=777", 1)
		db := sql.OpenDB(asking{connector{dsn, func() {}}, &levels})
		db.SetMaxOpenConns(1)
		f, err := fencesql.New(db, fencesql.SQLite, fencesql.Config{})
		if err != nil {
			t.Fatal(err)
		}
		highest, err := f.Mark().Highest(t.Context(), "register")
		if err != nil {
			t.Fatal(err)
		}
		claim(t, f, "register", highest+1)
		if err := f.Tx(t.Context(), "register", highest+1, nil, func(*sql.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(levels, []int64{want, level}) {
			t.Errorf("at level %d, the claim and a write were committed at %v", level, levels)
		}
		if left, busy := number(t, db, `PRAGMA synchronous`), number(t, db, `PRAGMA busy_timeout`); left != level || busy != 777 {
			t.Errorf("the claim left synchronous at %d for %d, and busy_timeout at %d", left, level, busy)
		}
		_ = db.Close()
	}
}

// TestBusyCommit: a commit that a reader holds up is refused, and nothing of it stays.
func TestBusyCommit(t *testing.T) {
	r := prepare(t, where{Journal: "DELETE", Lock: "deferred"})
	claim(t, r.f, "register", 1)
	reader := begin(t, r.db)
	number(t, reader, `SELECT value FROM register`) // holds SHARED
	is(t, impatient(t, r).Claim(t.Context(), "register", 2), fence.ErrBusy)
	execute(t, r.db, `PRAGMA busy_timeout = 100`) // of the one connection that is free
	err := r.f.Tx(t.Context(), "register", 1, nil, func(tx *sql.Tx) error { in(t, tx, set, 7); return nil })
	if e, ok := errors.AsType[sqlite3.Error](err); !ok || e.Code != sqlite3.ErrBusy || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("%v; want it to be known that the commit was refused", err)
	}
	if err := reader.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := number(t, r.db, `SELECT value FROM register`); n != 0 {
		t.Errorf("the value is %d; want 0", n)
	}
	claim(t, r.f, "register", 2)
}
