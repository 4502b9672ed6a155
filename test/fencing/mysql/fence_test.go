//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/server"
)

// TestFence is everything that needs a server and no leaders.
func TestFence(t *testing.T) {
	m := server.StartMariaDB(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *server.MariaDB)
	}{
		{"claims", testClaims},
		{"identical rewrites", testIdentical},
		{"who is in the way", testBusy},
		{"one of several may be in the way", testAmbiguous},
		{"own transactions are not in the way", testOwn},
		{"one connection", testOneConnection},
		{"what is shown", testShown},
		{"forgotten claims", testForgotten},
		{"rows that no claim has written", testRows},
		{"a claim that is not committed", testDirty},
		{"the session of a claim", testSession},
		{"transactions", testTransactions},
		{"a snapshot from before the claim", testSnapshot},
		{"a predicate", testPredicate},
		{"an implicit commit", testImplicitCommit},
		{"a savepoint that is rolled back", testSavepoint},
		{"why there are no triggers", testTriggers},
		{"mark", testMark},
		{"install and uninstall", testInstall},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, m) })
	}
}

func connect(t testing.TB, cfg *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// with is the configuration with further parameters.
func with(cfg *mysql.Config, name, value string) *mysql.Config {
	c := cfg.Clone()
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	c.Params[name] = value
	return c
}

func newFence(t testing.TB, db *sql.DB, cfg fencesql.Config) *fencesql.Fence {
	t.Helper()
	f, err := fencesql.New(db, fencesql.MySQL, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func installed(t testing.TB, db *sql.DB, cfg fencesql.Config, resources ...fence.Resource) *fencesql.Fence {
	t.Helper()
	f := newFence(t, db, cfg)
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if err := f.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

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

func begin(t *testing.T, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func checked(t *testing.T, f *fencesql.Fence, db *sql.DB, resource fence.Resource, token fence.Token) *sql.Tx {
	t.Helper()
	tx := begin(t, db, sql.LevelDefault)
	if err := f.Check(t.Context(), tx, resource, token); err != nil {
		t.Fatal(err)
	}
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

// waiting returns when so many transactions of the table's database wait for a lock. It
// looks seldom enough for the server to look anew.
func waiting(t *testing.T, db *sql.DB, want int64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		<-time.After(150 * time.Millisecond)
		if number(t, db, `SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
			WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`) >= want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
	}
}

func testClaims(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders", "stock")
	claim(t, f, "orders", 5)
	claim(t, f, "orders", 5)
	stale(t, f.Claim(t.Context(), "orders", 4), 4, 5)
	claim(t, f, "stock", 3) // has a mark of its own
	claim(t, f, "orders", fence.MaxToken)
	stale(t, f.Claim(t.Context(), "orders", fence.MaxToken-1), fence.MaxToken-1, fence.MaxToken)
	all, err := f.Status(t.Context())
	if err != nil || len(all) != 2 || all[0].Resource != "orders" || all[0].Highest != fence.MaxToken || all[1].Highest != 3 {
		t.Fatalf("status: %+v, %v", all, err)
	}
	if since := time.Since(all[0].Claimed); since < -time.Minute || since > time.Minute {
		t.Errorf("claimed %v ago", since)
	}
	// Claims at the same time: the greatest stays, and each other one has passed or is stale.
	if err := f.Add(t.Context(), "many"); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for i := range fence.Token(8) {
		go func() { errs <- f.Claim(t.Context(), "many", i+1) }()
	}
	for range 8 {
		if err := <-errs; err != nil && !errors.Is(err, fence.ErrStale) {
			t.Error(err)
		}
	}
	if n := number(t, db, `SELECT token FROM elect_fence WHERE resource = 'many'`); n != 8 {
		t.Errorf("the mark is %d; want 8", n)
	}
	// The store of the election was restored, and its era raised.
	claim(t, f, "many", 1_000_000)
	next, err := fence.NewToken(1, 501)
	if err != nil {
		t.Fatal(err)
	}
	claim(t, f, "many", next)
}

// testIdentical: a claim that finds its own work done, and a transaction that rewrites what
// is there. The server counts no rows then, unless the driver asks it to.
func testIdentical(t *testing.T, m *server.MariaDB) {
	for _, found := range []bool{false, true} {
		t.Run(fmt.Sprintf("clientFoundRows=%v", found), func(t *testing.T) {
			// The clock of its sessions stands still, so that two claims write the same.
			cfg := with(m.Database(t), "timestamp", "1000000000")
			cfg.ClientFoundRows = found
			db := connect(t, cfg)
			f := installed(t, db, fencesql.Config{}, "orders")
			claim(t, f, "orders", 4)

			// The same claim is made by another connection, between the claim's look and its
			// UPDATE, which waits for the row meanwhile.
			const raise = `UPDATE elect_fence SET token = 5, claimed_ms = 1000000000000 WHERE resource = 'orders' AND token <= 5`
			tx := begin(t, db, sql.LevelDefault)
			in(t, tx, raise)
			done := make(chan error, 1)
			go func() { done <- f.Claim(t.Context(), "orders", 5) }()
			waiting(t, db, 1)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Errorf("a claim that had been made: %v", err)
			}
			if n := number(t, db, `SELECT claimed_ms FROM elect_fence`); n != 1000000000000 {
				t.Fatalf("the claim wrote %d: it was no identical rewrite", n)
			}

			// Whoever goes by the count believes that it was refused.
			result, err := db.ExecContext(t.Context(), raise)
			if err != nil {
				t.Fatal(err)
			}
			n, err := result.RowsAffected()
			if want := map[bool]int64{false: 0, true: 1}[found]; err != nil || n != want {
				t.Errorf("an identical rewrite has affected %d rows, %v; want %d", n, err, want)
			}

			// So it is with a predicate in the write.
			execute(t, db, `CREATE TABLE orders (n INT)`, `INSERT INTO orders VALUES (1)`)
			result, err = db.ExecContext(t.Context(), `UPDATE orders SET n = 1 WHERE EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'orders' AND token <= 5)`)
			if err != nil {
				t.Fatal(err)
			}
			if n, err = result.RowsAffected(); err != nil || (n == 1) != found {
				t.Errorf("the leader's own rewrite has affected %d rows, %v", n, err)
			}
			if err := f.Tx(t.Context(), "orders", 5, nil, func(tx *sql.Tx) error { in(t, tx, `UPDATE orders SET n = 1`); return nil }); err != nil {
				t.Error(err)
			}
			stale(t, f.Tx(t.Context(), "orders", 4, nil, func(*sql.Tx) error { t.Error("the work was run"); return nil }), 4, 5)
		})
	}
}

// testBusy: a claim waits for a transaction that has checked, and says who that is; or
// ends it.
func testBusy(t *testing.T, m *server.MariaDB) {
	cfg := m.Database(t)
	db, older := connect(t, cfg), connect(t, cfg)
	f := installed(t, db, fencesql.Config{LockTimeout: time.Second}, "orders", "stock")
	execute(t, db, `CREATE TABLE orders (n INT)`, `CREATE TABLE elsewhere (n INT)`, `INSERT INTO elsewhere VALUES (1)`)
	claim(t, f, "orders", 1)
	claim(t, f, "stock", 9)

	tx := checked(t, f, older, "orders", 1)
	id := number(t, tx, `SELECT CONNECTION_ID()`)
	err := f.Claim(t.Context(), "orders", 2)
	is(t, err, fence.ErrBusy)
	if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprintf("connection %d (user root", id)) || !strings.Contains(text, "Sleep") {
		t.Errorf("%v; want it to say that connection %d is in the way", err, id)
	}

	// With patience it waits, and has the row when the transaction has ended.
	patient := newFence(t, db, fencesql.Config{LockTimeout: time.Minute})
	done := make(chan error, 1)
	go func() { done <- patient.Claim(t.Context(), "orders", 2) }()
	waiting(t, db, 1)
	in(t, tx, `INSERT INTO orders VALUES (1)`)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	// Terminate: those with the smaller token are ended, whether they have written or not;
	// another resource's is not, and neither is one that only reads.
	ending := newFence(t, db, fencesql.Config{LockTimeout: 4 * time.Second, Terminate: true})
	beside, reader := checked(t, f, older, "stock", 9), begin(t, older, sql.LevelRepeatableRead)
	in(t, beside, `UPDATE elsewhere SET n = 2`)
	number(t, reader, `SELECT COUNT(*) FROM elsewhere`)
	olders := []*sql.Tx{checked(t, f, older, "orders", 2), checked(t, f, older, "orders", 2), checked(t, f, older, "orders", 2)}
	in(t, olders[2], `INSERT INTO orders VALUES (2)`)
	claim(t, ending, "orders", 3)
	for _, tx := range olders {
		if err := tx.Commit(); err == nil {
			t.Error("an older transaction was committed")
		}
	}
	for _, tx := range []*sql.Tx{beside, reader} {
		if err := tx.Commit(); err != nil {
			t.Errorf("a transaction that was not in the way was ended: %v", err)
		}
	}
	if n := number(t, db, `SELECT COUNT(*) FROM orders`); n != 1 {
		t.Errorf("%d rows; want those of the first transaction only", n)
	}

	// A claim that has the row and does nothing with it.
	tx = begin(t, older, sql.LevelDefault)
	in(t, tx, `UPDATE elect_fence SET token = 4 WHERE resource = 'orders'`)
	claim(t, ending, "orders", 5)
	if err := tx.Commit(); err == nil {
		t.Error("the frozen claim was committed")
	}
}

// testAmbiguous: MariaDB does not tell apart transactions that have written nothing. If more
// of them have locks than are in the way, none is ended.
func testAmbiguous(t *testing.T, m *server.MariaDB) {
	cfg := m.Database(t)
	db, older := connect(t, cfg), connect(t, cfg)
	f := installed(t, db, fencesql.Config{LockTimeout: 2 * time.Second, Terminate: true}, "orders", "stock")
	claim(t, f, "orders", 1)
	claim(t, f, "stock", 9)
	tx, beside := checked(t, f, older, "orders", 1), checked(t, f, older, "stock", 9)
	err := f.Claim(t.Context(), "orders", 2)
	is(t, err, fence.ErrBusy)
	if !strings.Contains(fmt.Sprint(err), "or 1 others of these") {
		t.Errorf("%v; want it to say that it is not sure", err)
	}
	if err := errors.Join(tx.Commit(), beside.Commit()); err != nil {
		t.Error(err)
	}
}

// testOwn: a leader whose transactions are open may claim again.
func testOwn(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	f := installed(t, db, fencesql.Config{LockTimeout: time.Second}, "orders")
	claim(t, f, "orders", 1)
	tx := checked(t, f, db, "orders", 1)
	claim(t, f, "orders", 1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// testOneConnection: a pool of one is enough, but to say who is in the way.
func testOneConnection(t *testing.T, m *server.MariaDB) {
	cfg := m.Database(t)
	db, older := connect(t, cfg), connect(t, cfg)
	db.SetMaxOpenConns(1)
	f := installed(t, db, fencesql.Config{LockTimeout: time.Second, Terminate: true}, "orders")
	claim(t, f, "orders", 1)
	tx := checked(t, f, older, "orders", 1)
	err := f.Claim(t.Context(), "orders", 2)
	is(t, err, fence.ErrBusy)
	if !strings.Contains(fmt.Sprint(err), "not known") {
		t.Errorf("%v; want it to say that it does not know who is in the way", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	claim(t, f, "orders", 2)
}

func testShown(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders", "a.Z_9-/:@")
	claim(t, f, "orders", 7)
	claim(t, f, "a.Z_9-/:@", 7)
	if err := f.Tx(t.Context(), "a.Z_9-/:@", 7, nil, func(*sql.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		resource fence.Resource
		token    fence.Token
		want     error
	}{
		{"orders", 0, fence.ErrMissing},
		{"orders", 1 << 63, fence.ErrToken},
		{"orders", 1<<64 - 1, fence.ErrToken}, // -1
		{"orders", 1 << 48, fence.ErrToken},
		{"orders' OR true --", 7, fence.ErrResource},
		{"", 7, fence.ErrResource},
		{"others", 7, fence.ErrResource},
		{"ORDERS", 7, fence.ErrResource}, // case counts
		{"orders", 8, fencesql.ErrUnclaimed},
	} {
		ran := false
		is(t, f.Tx(t.Context(), tt.resource, tt.token, nil, func(*sql.Tx) error { ran = true; return nil }), tt.want)
		tx := begin(t, db, sql.LevelDefault)
		is(t, f.Check(t.Context(), tx, tt.resource, tt.token), tt.want)
		_ = tx.Rollback()
		if tt.want != fencesql.ErrUnclaimed {
			is(t, f.Claim(t.Context(), tt.resource, tt.token), tt.want)
		}
		if ran {
			t.Errorf("%s with %v: the work was run", tt.resource, uint64(tt.token))
		}
	}
	stale(t, f.Tx(t.Context(), "orders", 6, nil, func(*sql.Tx) error { t.Error("the work was run"); return nil }), 6, 7)
	if err := f.Tx(t.Context(), "orders", 7, &sql.TxOptions{ReadOnly: true}, nil); err == nil {
		t.Error("a read only transaction was begun")
	}
}

// testForgotten: a database that was restored from a backup has forgotten claims. The
// leader is refused until it has claimed anew, and so is the one that the backup knew.
func testForgotten(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	claim(t, f, "orders", 42)
	execute(t, db, `UPDATE elect_fence SET token = 41`) // as the backup had it
	nothing := func(*sql.Tx) error { return nil }
	is(t, f.Tx(t.Context(), "orders", 42, nil, nothing), fencesql.ErrUnclaimed)
	claim(t, f, "orders", 42)
	if err := f.Tx(t.Context(), "orders", 42, nil, nothing); err != nil {
		t.Error(err)
	}
	stale(t, f.Tx(t.Context(), "orders", 41, nil, nothing), 41, 42)
}

func testRows(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	for _, value := range []string{"-1", "NULL", "281474976710656", "9223372036854775808"} {
		if _, err := db.ExecContext(t.Context(), `UPDATE elect_fence SET token = `+value); err == nil {
			t.Errorf("the table takes %s for a token", value)
		}
	}
	// Somebody took the constraints away.
	execute(t, db, `ALTER TABLE elect_fence MODIFY token BIGINT NULL`)
	for _, value := range []string{"-5", "NULL", "281474976710656"} {
		execute(t, db, `UPDATE elect_fence SET token = `+value)
		for name, err := range map[string]error{
			"claim": f.Claim(t.Context(), "orders", fence.MaxToken),
			"tx":    f.Tx(t.Context(), "orders", fence.MaxToken, nil, func(*sql.Tx) error { t.Error("the work was run"); return nil }),
		} {
			if err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("%s with a mark of %s: %v", name, value, err)
			}
		}
	}
}

// testDirty: where connections read what is not committed, a claim does not take that for a
// mark.
func testDirty(t *testing.T, m *server.MariaDB) {
	cfg := with(m.Database(t), "tx_isolation", "'READ-UNCOMMITTED'")
	db := connect(t, cfg)
	f := installed(t, db, fencesql.Config{LockTimeout: time.Second}, "orders")
	claim(t, f, "orders", 1)
	tx := begin(t, db, sql.LevelDefault)
	in(t, tx, `UPDATE elect_fence SET token = 9`)
	if n := number(t, db, `SELECT token FROM elect_fence`); n != 9 {
		t.Fatalf("the mark is read as %d: this shows nothing", n)
	}
	if n, err := f.Mark().Highest(t.Context(), "orders"); n != 1 || err != nil {
		t.Errorf("the mark is %v, %v; want 1", n, err)
	}
	claim(t, f, "orders", 1)
	for _, token := range []fence.Token{8, 9} { // neither stale nor done
		is(t, f.Claim(t.Context(), "orders", token), fence.ErrBusy)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	claim(t, f, "orders", 8)
}

// testSession: a claim leaves the settings of the connection as they were, whatever came of
// it.
func testSession(t *testing.T, m *server.MariaDB) {
	cfg := m.Database(t)
	db := connect(t, with(with(cfg, "innodb_lock_wait_timeout", "77"), "lock_wait_timeout", "78"))
	db.SetMaxOpenConns(1)
	other := connect(t, cfg)
	f := installed(t, db, fencesql.Config{LockTimeout: 500 * time.Millisecond}, "orders")
	execute(t, db, `CREATE TABLE seen (setting TEXT)`,
		`CREATE TRIGGER see AFTER UPDATE ON elect_fence FOR EACH ROW INSERT INTO seen VALUES (CONCAT(@@innodb_lock_wait_timeout, ' ', @@lock_wait_timeout))`)
	left := func() {
		t.Helper()
		if n := number(t, db, `SELECT @@innodb_lock_wait_timeout * 100 + @@lock_wait_timeout`); n != 7778 {
			t.Errorf("the claim left %d", n)
		}
	}
	claim(t, f, "orders", 2)
	left()
	var seen string
	if err := db.QueryRowContext(t.Context(), `SELECT setting FROM seen`).Scan(&seen); err != nil || seen != "1 1" {
		t.Errorf("the claim was made with %q, %v; want a second each", seen, err)
	}
	stale(t, f.Claim(t.Context(), "orders", 1), 1, 2)
	left()
	tx := checked(t, f, other, "orders", 2)
	is(t, f.Claim(t.Context(), "orders", 3), fence.ErrBusy)
	left()

	// Somebody changes the definition of the table, and waits for tx. The claim would wait
	// for both.
	altered := make(chan error, 1)
	go func() {
		_, err := other.ExecContext(t.Context(), `ALTER TABLE elect_fence ADD COLUMN note TEXT`)
		altered <- err
	}()
	for n := int64(0); n == 0; {
		n = number(t, other, `SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock' AND db = DATABASE()`)
	}
	is(t, f.Claim(t.Context(), "orders", 3), fence.ErrBusy) // gives up by itself
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-altered; err != nil {
		t.Fatal(err)
	}
	claim(t, f, "orders", 3)
}

func testTransactions(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE TABLE orders (n INT UNIQUE)`)
	claim(t, f, "orders", 1)
	insert := func(n int) func(*sql.Tx) error {
		return func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO orders VALUES (?)`, n)
			return err
		}
	}
	do := func(ctx context.Context, work func(*sql.Tx) error) error {
		return f.Tx(ctx, "orders", 1, nil, work)
	}
	if err := do(t.Context(), insert(1)); err != nil {
		t.Fatal(err)
	}
	own := errors.New("own")
	is(t, do(t.Context(), func(tx *sql.Tx) error { return errors.Join(insert(2)(tx), own) }), own)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = do(t.Context(), func(tx *sql.Tx) error { _ = insert(3)(tx); panic("at the disco") })
	}()
	ctx, cancel := context.WithCancelCause(t.Context())
	is(t, do(ctx, func(tx *sql.Tx) error { err := insert(4)(tx); cancel(own); return err }), own)
	// A commit whose session was ended.
	err := do(t.Context(), func(tx *sql.Tx) error {
		execute(t, db, fmt.Sprintf(`KILL %d`, number(t, tx, `SELECT CONNECTION_ID()`)))
		return nil
	})
	if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a session that was ended before the commit: %v; want ErrUnknownOutcome", err)
	}
	if n := number(t, db, `SELECT SUM(n) FROM orders`); n != 1 {
		t.Errorf("rows that add up to %d; want the first one only", n)
	}
	// Nothing is held any more.
	claim(t, f, "orders", 2)
}

// testSnapshot: a transaction whose snapshot is older than a claim. The check does not
// believe the snapshot.
func testSnapshot(t *testing.T, m *server.MariaDB) {
	cfg := m.Database(t)
	strict := with(cfg, "innodb_snapshot_isolation", "ON") // the default since MariaDB 11.6.2
	token := fence.Token(1)
	for i, c := range []*mysql.Config{cfg, strict} {
		db := connect(t, c)
		f := installed(t, db, fencesql.Config{}, "orders")
		execute(t, db, `CREATE TABLE IF NOT EXISTS orders (n INT)`)
		for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			claim(t, f, "orders", token)
			tx := begin(t, db, level)
			number(t, tx, `SELECT COUNT(*) FROM information_schema.innodb_trx`)
			if level != sql.LevelSerializable { // whose reads would hold the row
				if n := number(t, tx, `SELECT token FROM elect_fence`); n != int64(token) {
					t.Fatalf("the mark is %d", n)
				}
			}
			claim(t, f, "orders", token+1)
			switch err := f.Check(t.Context(), tx, "orders", token); {
			case i == 1 && level == sql.LevelRepeatableRead:
				if err == nil || errors.Is(err, fence.ErrStale) {
					t.Errorf("a row that is newer than the snapshot: %v", err)
				}
			default:
				stale(t, err, token, token+1)
			}
			_ = tx.Rollback()
			if err := f.Tx(t.Context(), "orders", token+1, &sql.TxOptions{Isolation: level}, func(tx *sql.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
			token += 2
		}
	}
}

// testPredicate: a predicate in the write reads a snapshot at READ COMMITTED, and holds
// nothing; at REPEATABLE READ it locks what it reads.
func testPredicate(t *testing.T, m *server.MariaDB) {
	for _, tt := range []struct {
		level sql.IsolationLevel
		safe  bool
	}{{sql.LevelReadCommitted, false}, {sql.LevelRepeatableRead, true}} {
		db := connect(t, m.Database(t))
		f := installed(t, db, fencesql.Config{LockTimeout: time.Second}, "orders")
		execute(t, db, `CREATE TABLE orders (n INT)`, `INSERT INTO orders VALUES (0)`)
		claim(t, f, "orders", 1)
		tx := begin(t, db, tt.level)
		in(t, tx, `UPDATE orders SET n = 1 WHERE EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'orders' AND token <= ?)`, 1)
		err := f.Claim(t.Context(), "orders", 2)
		if tt.safe {
			is(t, err, fence.ErrBusy)
			continue
		}
		if err != nil {
			t.Errorf("%v: the claim was held up, and the documentation is wrong: %v", tt.level, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if n := number(t, db, `SELECT n FROM orders`); n != 1 {
			t.Errorf("%v: nothing stale was applied after the claim, and the documentation is wrong", tt.level)
		}
	}
}

// testImplicitCommit: a statement that changes definitions commits, and the hold goes with
// what it commits.
func testImplicitCommit(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE TABLE orders (n INT)`)
	claim(t, f, "orders", 1)
	if err := f.Tx(t.Context(), "orders", 1, nil, func(tx *sql.Tx) error {
		in(t, tx, `CREATE TABLE others (n INT)`)
		claim(t, f, "orders", 2) // does not wait
		in(t, tx, `INSERT INTO orders VALUES (1)`)
		return nil
	}); err != nil {
		t.Errorf("%v; the trap is none any more, and the documentation wrong", err)
	}
	if n := number(t, db, `SELECT COUNT(*) FROM orders`); n != 1 {
		t.Error("the stale row is not there; the trap is none any more, and the documentation wrong")
	}
}

// testSavepoint: a hold that was taken within a savepoint goes with it, if the savepoint was
// the first thing in the transaction.
func testSavepoint(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	f := installed(t, db, fencesql.Config{LockTimeout: time.Second}, "orders")
	execute(t, db, `CREATE TABLE orders (n INT)`)
	claim(t, f, "orders", 1)
	tx := begin(t, db, sql.LevelDefault)
	in(t, tx, `SAVEPOINT s`)
	if err := f.Check(t.Context(), tx, "orders", 1); err != nil {
		t.Fatal(err)
	}
	in(t, tx, `ROLLBACK TO SAVEPOINT s`)
	claim(t, f, "orders", 2) // does not wait
	in(t, tx, `INSERT INTO orders VALUES (1)`)
	if err := tx.Commit(); err != nil {
		t.Errorf("%v; the trap is none any more, and the documentation wrong", err)
	}

	// A check before the savepoint stays.
	tx = checked(t, f, db, "orders", 2)
	in(t, tx, `SAVEPOINT s`)
	in(t, tx, `INSERT INTO orders VALUES (2)`)
	in(t, tx, `ROLLBACK TO SAVEPOINT s`)
	is(t, f.Claim(t.Context(), "orders", 3), fence.ErrBusy)
}

// testTriggers: triggers with a session variable let through what they should refuse. So
// there are none, and Guard says so.
func testTriggers(t *testing.T, m *server.MariaDB) {
	db := connect(t, m.Database(t))
	db.SetMaxOpenConns(1)
	f := installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE TABLE customers (id INT PRIMARY KEY)`,
		`CREATE TABLE orders (customer INT, FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE)`,
		`INSERT INTO customers VALUES (1), (2)`, `INSERT INTO orders VALUES (1), (2)`)
	is(t, f.Guard(t.Context(), "orders", "orders"), errors.ErrUnsupported)
	is(t, f.Unguard(t.Context(), "orders", "orders"), errors.ErrUnsupported)
	const body = ` ON orders FOR EACH ROW IF NOT EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'orders' AND token = @elect_token LOCK IN SHARE MODE) THEN SIGNAL SQLSTATE '45000'; END IF`
	execute(t, db, `CREATE TRIGGER i BEFORE INSERT`+body, `CREATE TRIGGER d BEFORE DELETE`+body)
	claim(t, f, "orders", 1)
	const insert = `INSERT INTO orders VALUES (2)`
	if _, err := db.ExecContext(t.Context(), insert); err == nil {
		t.Fatal("the trigger does nothing: this shows nothing")
	}

	// What a foreign key cascades runs none, and neither does TRUNCATE.
	execute(t, db, `DELETE FROM customers WHERE id = 1`)
	if n := number(t, db, `SELECT COUNT(*) FROM orders`); n != 1 {
		t.Errorf("%d rows after the cascade", n)
	}
	execute(t, db, `TRUNCATE orders`)

	// A token that a transaction has set is there for whoever is given the connection next.
	tx := begin(t, db, sql.LevelDefault)
	in(t, tx, `SET @elect_token = 1`)
	in(t, tx, insert)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Errorf("%v: the token has not leaked, and the documentation is wrong", err)
	}
}

// testMark: two guards with one mark.
func testMark(t *testing.T, m *server.MariaDB) {
	cfg := m.Database(t)
	db := connect(t, cfg)
	f := installed(t, db, fencesql.Config{LockTimeout: time.Minute}, "device")
	other := newFence(t, connect(t, cfg), fencesql.Config{LockTimeout: time.Minute})
	mark := f.Mark()
	if n, err := mark.Highest(t.Context(), "device"); n != 0 || err != nil {
		t.Errorf("never claimed: %v, %v", n, err)
	}
	_, err := mark.Highest(t.Context(), "others")
	is(t, err, fence.ErrResource)

	ctx, cancel := context.WithCancel(t.Context())
	release, err := mark.Share(ctx, "device", 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // does not end the hold
	done := make(chan error, 1)
	go func() { done <- other.Mark().Raise(t.Context(), "device", 2) }()
	waiting(t, db, 1)
	select {
	case err := <-done:
		t.Fatalf("raised while it was held: %v", err)
	default:
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_, err = mark.Share(t.Context(), "device", 1)
	stale(t, err, 1, 2)

	// A hold that was lost is told of.
	release, err = mark.Share(t.Context(), "device", 2)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, fmt.Sprintf(`KILL %d`, number(t, db, `SELECT t.trx_mysql_thread_id FROM information_schema.innodb_trx t
		JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()`)))
	if err := release(); err == nil {
		t.Error("the end of the session was not noticed")
	}

	// A Share that waits ends with its context.
	tx := begin(t, db, sql.LevelDefault)
	in(t, tx, `SELECT 1 FROM elect_fence WHERE resource = 'device' FOR UPDATE`)
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		_, err := mark.Share(ctx, "device", 2)
		done <- err
	}()
	waiting(t, db, 1)
	cancel()
	is(t, <-done, context.Canceled)
}

// said keeps what was logged.
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

func testInstall(t *testing.T, m *server.MariaDB) {
	cfg := m.Database(t)
	db := connect(t, cfg)
	f := newFence(t, db, fencesql.Config{Table: m.Database(t).DBName + ".marks"})
	if err := f.Claim(t.Context(), "orders", 1); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a claim without a table: %v", err)
	}
	errs := make(chan error)
	for range 4 {
		go func() { errs <- f.Install(t.Context()) }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := f.Add(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		claim(t, f, "orders", 5)
	}
	if err := f.Remove(t.Context(), "orders"); err != nil {
		t.Error(err)
	}
	is(t, f.Claim(t.Context(), "orders", 6), fence.ErrResource)
	for range 2 {
		if err := f.Uninstall(t.Context()); err != nil {
			t.Error(err)
		}
	}

	// A table of an engine that has no transactions is refused.
	execute(t, db, `CREATE TABLE elect_fence (resource VARCHAR(128) PRIMARY KEY, token BIGINT, claimed_ms BIGINT) ENGINE=MyISAM`)
	if err := newFence(t, db, fencesql.Config{}).Install(t.Context()); err == nil || !strings.Contains(err.Error(), "MyISAM") {
		t.Errorf("a table of MyISAM: %v", err)
	}
	execute(t, db, `DROP TABLE elect_fence`)

	// A server that does not sync commits is warned of.
	s := &said{Handler: slog.DiscardHandler}
	loud := newFence(t, db, fencesql.Config{Logger: slog.New(s)})
	for _, value := range []int{1, 2, 0, 3} {
		s.text = nil
		execute(t, db, fmt.Sprintf(`SET GLOBAL innodb_flush_log_at_trx_commit = %d`, value))
		if err := loud.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		warned := strings.Contains(strings.Join(s.text, "\n"), fmt.Sprintf("innodb_flush_log_at_trx_commit=%d", value))
		if want := value == 0 || value == 2; warned != want {
			t.Errorf("with innodb_flush_log_at_trx_commit=%d it says %q", value, s.text)
		}
	}
	execute(t, db, `SET GLOBAL innodb_flush_log_at_trx_commit = 1`)
}
