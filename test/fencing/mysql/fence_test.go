//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
	"github.com/electd/elect/test/fencing/zombie"
)

// database describes a server; nil will do in the process of a leader. A place is a DSN
// without parameters, to which a test may add some.
func database(m *server.MariaDB) sqltest.Database {
	return sqltest.Database{
		Dialect: fencesql.MySQL,
		Open:    open,
		Make:    func(t testing.TB) string { return m.Database(t).FormatDSN() },
		Session: `SELECT CONNECTION_ID()`,
		End:     end,
		Waiting: `SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
			WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`,
	}
}

func open(at string, steps *zombie.Steps) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(at)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{} // it says that connections were lost, where that is what is tested
	if steps != nil {
		cfg.DialFunc = steps.Dial
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// end kills a session. KILL returns before it has taken effect.
func end(t *testing.T, db *sql.DB, session int64) {
	t.Helper()
	sqltest.Execute(t, db, fmt.Sprintf(`KILL %d`, session))
	there := fmt.Sprintf(`SELECT COUNT(*) FROM information_schema.processlist WHERE id = %d`, session)
	for deadline := time.Now().Add(30 * time.Second); sqltest.Number(t, db, there) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("connection %d lives on", session)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestFence is everything that needs a server and no leaders.
func TestFence(t *testing.T) {
	t.Parallel()
	d := database(server.StartMariaDB(t))
	sqltest.Conformance(t, d)
	sqltest.Locks(t, d)
	sqltest.Run(t, d,
		sqltest.Case{Name: "identical rewrites", Test: testIdentical},
		sqltest.Case{Name: "who is in the way", Test: testBusy},
		sqltest.Case{Name: "one of several may be in the way", Test: testAmbiguous},
		sqltest.Case{Name: "rows that no claim has written", Test: testRows},
		sqltest.Case{Name: "a claim that is not committed", Test: testDirty},
		sqltest.Case{Name: "the session of a claim", Test: testSession},
		sqltest.Case{Name: "a snapshot from before the claim", Test: testSnapshot},
		sqltest.Case{Name: "a predicate", Test: testPredicate},
		sqltest.Case{Name: "an implicit commit", Test: testImplicitCommit},
		sqltest.Case{Name: "why there are no triggers", Test: testTriggers},
		sqltest.Case{Name: "what Install wants", Test: testServer},
	)
}

func testBusy(t *testing.T, d sqltest.Database) {
	if said := sqltest.Busy(t, d); !strings.Contains(said, "user root") || !strings.Contains(said, "Sleep") {
		t.Errorf("%s; want it to say who is in the way", said)
	}
}

func testRows(t *testing.T, d sqltest.Database) {
	sqltest.Rows(t, d, `ALTER TABLE elect_fence MODIFY token BIGINT NULL`)
}

// testIdentical: a claim that finds its own work done, and a transaction that rewrites equal
// values. The server counts no rows then, unless the driver asks for it.
func testIdentical(t *testing.T, d sqltest.Database) {
	for _, found := range []bool{false, true} {
		t.Run(fmt.Sprintf("clientFoundRows=%v", found), func(t *testing.T) {
			// The clock of its sessions stands still, so that two claims write the same.
			db := d.Connect(t, fmt.Sprintf("%s?timestamp=1000000000&clientFoundRows=%v", d.Make(t), found))
			f := d.Installed(t, db, fencesql.Config{}, "orders")
			sqltest.Claim(t, f, 4)

			// The same claim is made by another connection, between the claim's look and its
			// UPDATE, which waits for the row meanwhile.
			const raise = `UPDATE elect_fence SET token = 5, claimed_ms = 1000000000000 WHERE resource = 'orders' AND token <= 5`
			tx := sqltest.Begin(t, db, sql.LevelDefault)
			sqltest.In(t, tx, raise)
			done := make(chan error, 1)
			go func() { done <- f.Claim(t.Context(), 5) }()
			d.Wait(t, db, 1)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Errorf("a claim that had been made: %v", err)
			}
			if n := sqltest.Number(t, db, `SELECT claimed_ms FROM elect_fence`); n != 1000000000000 {
				t.Fatalf("the claim wrote %d: it was no identical rewrite", n)
			}

			// By the count alone it looks refused.
			result, err := db.ExecContext(t.Context(), raise)
			if err != nil {
				t.Fatal(err)
			}
			n, err := result.RowsAffected()
			if want := map[bool]int64{false: 0, true: 1}[found]; err != nil || n != want {
				t.Errorf("an identical rewrite has affected %d rows, %v; want %d", n, err, want)
			}

			// So it is with a predicate in the write.
			sqltest.Execute(t, db, `CREATE TABLE orders (n INT)`, `INSERT INTO orders VALUES (1)`)
			result, err = db.ExecContext(t.Context(), `UPDATE orders SET n = 1 WHERE EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'orders' AND token <= 5)`)
			if err != nil {
				t.Fatal(err)
			}
			if n, err = result.RowsAffected(); err != nil || (n == 1) != found {
				t.Errorf("the leader's own rewrite has affected %d rows, %v", n, err)
			}
			if err := f.Write(t.Context(), 5, nil, func(tx *sql.Tx) error { sqltest.In(t, tx, `UPDATE orders SET n = 1`); return nil }); err != nil {
				t.Error(err)
			}
			sqltest.Stale(t, f.Write(t.Context(), 4, nil, func(*sql.Tx) error { t.Error("the work was run"); return nil }), 4, 5)
		})
	}
}

// testAmbiguous: MariaDB does not distinguish transactions that have written nothing. If more of
// them have locks than block the claim, none is ended.
func testAmbiguous(t *testing.T, d sqltest.Database) {
	at := d.Make(t)
	db, older := d.Connect(t, at), d.Connect(t, at)
	f := d.Installed(t, db, fencesql.Config{LockTimeout: 2 * time.Second, Terminate: true}, "orders", "stock")
	stock := d.Guard(t, db, fencesql.Config{}, "stock")
	sqltest.Claim(t, f, 1)
	sqltest.Claim(t, stock, 9)
	tx, beside := sqltest.Checked(t, f, older, 1), sqltest.Checked(t, stock, older, 9)
	err := f.Claim(t.Context(), 2)
	sqltest.Is(t, err, fence.ErrBusy)
	if !strings.Contains(fmt.Sprint(err), "or 1 others of these") {
		t.Errorf("%v; want it to say that it is not sure", err)
	}
	if err := errors.Join(tx.Commit(), beside.Commit()); err != nil {
		t.Error(err)
	}
}

// testDirty: where connections read uncommitted data, a claim does not take it for a mark.
func testDirty(t *testing.T, d sqltest.Database) {
	db := d.Connect(t, d.Make(t)+"?tx_isolation='READ-UNCOMMITTED'")
	f := d.Installed(t, db, fencesql.Config{LockTimeout: time.Second}, "orders")
	sqltest.Claim(t, f, 1)
	tx := sqltest.Begin(t, db, sql.LevelDefault)
	sqltest.In(t, tx, `UPDATE elect_fence SET token = 9`)
	if n := sqltest.Number(t, db, `SELECT token FROM elect_fence`); n != 9 {
		t.Fatalf("the mark is read as %d: nothing was tested", n)
	}
	if n, err := d.Mark(t, db, fencesql.Config{}).Highest(t.Context(), "orders"); n != 1 || err != nil {
		t.Errorf("the mark is %v, %v; want 1", n, err)
	}
	sqltest.Claim(t, f, 1)
	for _, token := range []fence.Token{8, 9} { // neither stale nor done
		sqltest.Is(t, f.Claim(t.Context(), token), fence.ErrBusy)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	sqltest.Claim(t, f, 8)
}

// testSession: a claim leaves the settings of the connection as they were, with any outcome.
func testSession(t *testing.T, d sqltest.Database) {
	at := d.Make(t)
	db, other := d.Connect(t, at+"?innodb_lock_wait_timeout=77&lock_wait_timeout=78"), d.Connect(t, at)
	db.SetMaxOpenConns(1)
	f := d.Installed(t, db, fencesql.Config{LockTimeout: 500 * time.Millisecond}, "orders")
	sqltest.Execute(t, db, `CREATE TABLE seen (setting TEXT)`,
		`CREATE TRIGGER see AFTER UPDATE ON elect_fence FOR EACH ROW INSERT INTO seen VALUES (CONCAT(@@innodb_lock_wait_timeout, ' ', @@lock_wait_timeout))`)
	left := func() {
		t.Helper()
		if n := sqltest.Number(t, db, `SELECT @@innodb_lock_wait_timeout * 100 + @@lock_wait_timeout`); n != 7778 {
			t.Errorf("the claim left %d", n)
		}
	}
	sqltest.Claim(t, f, 2)
	left()
	var seen string
	if err := db.QueryRowContext(t.Context(), `SELECT setting FROM seen`).Scan(&seen); err != nil || seen != "1 1" {
		t.Errorf("the claim was made with %q, %v; want a second each", seen, err)
	}
	sqltest.Stale(t, f.Claim(t.Context(), 1), 1, 2)
	left()
	tx := sqltest.Checked(t, f, other, 2)
	sqltest.Is(t, f.Claim(t.Context(), 3), fence.ErrBusy)
	left()

	// A migration changes the definition of the table, and waits for tx. The claim would wait
	// for both.
	altered := make(chan error, 1)
	go func() {
		_, err := other.ExecContext(t.Context(), `ALTER TABLE elect_fence ADD COLUMN note TEXT`)
		altered <- err
	}()
	const waiting = `SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock' AND db = DATABASE()`
	for sqltest.Number(t, other, waiting) == 0 {
		select {
		case err := <-altered:
			t.Fatalf("the definition was not to be changed while tx is open: %v", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	sqltest.Is(t, f.Claim(t.Context(), 3), fence.ErrBusy) // gives up by itself
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-altered; err != nil {
		t.Fatal(err)
	}
	sqltest.Claim(t, f, 3)
}

// testSnapshot: a transaction whose snapshot is older than a claim. The check does not
// believe the snapshot.
func testSnapshot(t *testing.T, d sqltest.Database) {
	at := d.Make(t)
	strict := at + "?innodb_snapshot_isolation=ON" // the default since MariaDB 11.6.2
	token := fence.Token(1)
	for _, at := range []string{at, strict} {
		db := d.Connect(t, at)
		f := d.Installed(t, db, fencesql.Config{}, "orders")
		sqltest.Execute(t, db, `CREATE TABLE IF NOT EXISTS orders (n INT)`)
		for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			sqltest.Claim(t, f, token)
			tx := sqltest.Begin(t, db, level)
			sqltest.Number(t, tx, `SELECT COUNT(*) FROM information_schema.innodb_trx`)
			if level != sql.LevelSerializable { // whose reads would hold the row
				if n := sqltest.Number(t, tx, `SELECT token FROM elect_fence`); n != int64(token) {
					t.Fatalf("the mark is %d", n)
				}
			}
			sqltest.Claim(t, f, token+1)
			switch err := f.Check(t.Context(), tx, token); {
			case at == strict && level == sql.LevelRepeatableRead:
				if err == nil || errors.Is(err, fence.ErrStale) {
					t.Errorf("a row that is newer than the snapshot: %v", err)
				}
			default:
				sqltest.Stale(t, err, token, token+1)
			}
			_ = tx.Rollback()
			if err := f.Write(t.Context(), token+1, &sql.TxOptions{Isolation: level}, func(tx *sql.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
			token += 2
		}
	}
}

// testPredicate: a predicate in the write reads a snapshot at READ COMMITTED, and holds nothing; at
// REPEATABLE READ it locks what it reads.
func testPredicate(t *testing.T, d sqltest.Database) {
	for _, tt := range []struct {
		level sql.IsolationLevel
		safe  bool
	}{{sql.LevelReadCommitted, false}, {sql.LevelRepeatableRead, true}} {
		db, f := d.New(t, fencesql.Config{LockTimeout: time.Second}, "orders")
		sqltest.Execute(t, db, `CREATE TABLE orders (n INT)`, `INSERT INTO orders VALUES (0)`)
		sqltest.Claim(t, f, 1)
		tx := sqltest.Begin(t, db, tt.level)
		sqltest.In(t, tx, `UPDATE orders SET n = 1 WHERE EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'orders' AND token <= ?)`, 1)
		err := f.Claim(t.Context(), 2)
		if tt.safe {
			sqltest.Is(t, err, fence.ErrBusy)
			continue
		}
		if err != nil {
			t.Errorf("%v: the claim was held up, and the documentation is wrong: %v", tt.level, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if n := sqltest.Number(t, db, `SELECT n FROM orders`); n != 1 {
			t.Errorf("%v: nothing stale was applied after the claim, and the documentation is wrong", tt.level)
		}
	}
}

// testImplicitCommit: a statement that changes definitions commits, and the hold goes with
// what it commits.
func testImplicitCommit(t *testing.T, d sqltest.Database) {
	db, f := d.New(t, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE TABLE orders (n INT)`)
	sqltest.Claim(t, f, 1)
	if err := f.Write(t.Context(), 1, nil, func(tx *sql.Tx) error {
		sqltest.In(t, tx, `CREATE TABLE others (n INT)`)
		sqltest.Claim(t, f, 2) // does not wait
		sqltest.In(t, tx, `INSERT INTO orders VALUES (1)`)
		return nil
	}); err != nil {
		t.Errorf("%v; the trap is none any more, and the documentation wrong", err)
	}
	if n := sqltest.Number(t, db, `SELECT COUNT(*) FROM orders`); n != 1 {
		t.Error("the stale row is not there; the trap is none any more, and the documentation wrong")
	}
}

// testTriggers: triggers with a session variable let through what they should refuse. So
// there are none, and Guard says so.
func testTriggers(t *testing.T, d sqltest.Database) {
	db := d.Connect(t, d.Make(t))
	db.SetMaxOpenConns(1)
	f := d.Installed(t, db, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE TABLE customers (id INT PRIMARY KEY)`,
		`CREATE TABLE orders (customer INT, FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE)`,
		`INSERT INTO customers VALUES (1), (2)`, `INSERT INTO orders VALUES (1), (2)`)
	sqltest.Is(t, f.InstallTriggers(t.Context(), "orders"), errors.ErrUnsupported)
	sqltest.Is(t, f.UninstallTriggers(t.Context(), "orders"), errors.ErrUnsupported)
	const body = ` ON orders FOR EACH ROW IF NOT EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'orders' AND token = @elect_token LOCK IN SHARE MODE) THEN SIGNAL SQLSTATE '45000'; END IF`
	sqltest.Execute(t, db, `CREATE TRIGGER i BEFORE INSERT`+body, `CREATE TRIGGER d BEFORE DELETE`+body)
	sqltest.Claim(t, f, 1)
	const insert = `INSERT INTO orders VALUES (2)`
	if _, err := db.ExecContext(t.Context(), insert); err == nil {
		t.Fatal("the trigger does nothing: nothing was tested")
	}

	// What a foreign key cascades runs none, and neither does TRUNCATE.
	sqltest.Execute(t, db, `DELETE FROM customers WHERE id = 1`)
	if n := sqltest.Number(t, db, `SELECT COUNT(*) FROM orders`); n != 1 {
		t.Errorf("%d rows after the cascade", n)
	}
	sqltest.Execute(t, db, `TRUNCATE orders`)

	// A token that a transaction has set is there for the next user of the connection.
	tx := sqltest.Begin(t, db, sql.LevelDefault)
	sqltest.In(t, tx, `SET @elect_token = 1`)
	sqltest.In(t, tx, insert)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Errorf("%v: the token has not leaked, and the documentation is wrong", err)
	}
}

// said keeps the log.
type said struct {
	slog.Handler
	text []string
}

func (s *said) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool { r.Message += " " + a.String(); return true })
	s.text = append(s.text, r.Message)
	return nil
}

func (s *said) Enabled(context.Context, slog.Level) bool { return true }

// testServer: what Install requires of the server, and of the table.
func testServer(t *testing.T, d sqltest.Database) {
	db := d.Connect(t, d.Make(t))
	elsewhere := fencesql.Config{Table: path.Base(d.Make(t)) + ".marks"}
	sqltest.Claim(t, d.Installed(t, db, elsewhere, "orders"), 5)
	if err := d.Mark(t, db, elsewhere).Drop(t.Context()); err != nil {
		t.Error(err)
	}

	// A table of an engine that has no transactions is refused.
	sqltest.Execute(t, db, `CREATE TABLE elect_fence (resource VARCHAR(128) PRIMARY KEY, token BIGINT, claimed_ms BIGINT) ENGINE=MyISAM`)
	if err := d.Guard(t, db, fencesql.Config{}, "orders").Install(t.Context()); err == nil || !strings.Contains(err.Error(), "MyISAM") {
		t.Errorf("a table of MyISAM: %v", err)
	}
	sqltest.Execute(t, db, `DROP TABLE elect_fence`)

	// A server that does not sync commits is warned of.
	s := &said{Handler: slog.DiscardHandler}
	loud := d.Guard(t, db, fencesql.Config{Logger: slog.New(s)}, "orders")
	for _, value := range []int{1, 2, 0, 3} {
		s.text = nil
		sqltest.Execute(t, db, fmt.Sprintf(`SET GLOBAL innodb_flush_log_at_trx_commit = %d`, value))
		if err := loud.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		warned := strings.Contains(strings.Join(s.text, "\n"), fmt.Sprintf("innodb_flush_log_at_trx_commit=%d", value))
		if want := value == 0 || value == 2; warned != want {
			t.Errorf("with innodb_flush_log_at_trx_commit=%d it says %q", value, s.text)
		}
	}
	sqltest.Execute(t, db, `SET GLOBAL innodb_flush_log_at_trx_commit = 1`)
}
