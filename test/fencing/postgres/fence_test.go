//go:build linux

package postgres_test

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
	"github.com/electd/elect/test/fencing/server"
)

// TestFence is everything that needs a server and no leaders.
func TestFence(t *testing.T) {
	pg := server.StartPostgres(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *server.Postgres)
	}{
		{"claims", testClaims},
		{"who is in the way", testBusy},
		{"own transactions are not in the way", testOwn},
		{"one connection", testOneConnection},
		{"what is shown", testShown},
		{"forgotten claims", testForgotten},
		{"rows that no claim has written", testRows},
		{"the claim's commit is durable", testDurable},
		{"transactions", testTransactions},
		{"a snapshot from before the claim", testSnapshot},
		{"a savepoint that is rolled back", testSavepoint},
		{"triggers", testTriggers},
		{"triggers see everything", testEverything},
		{"tokens do not leak", testLeaks},
		{"mark", testMark},
		{"install and uninstall", testInstall},
		{"restored eras", testEras},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, pg) })
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

func in(t *testing.T, tx *sql.Tx, statement string, args ...any) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func number(t *testing.T, db *sql.DB, query string) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func testClaims(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
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
}

// testBusy: a claim waits for a transaction that has checked, and says who that is; or
// ends it.
func testBusy(t *testing.T, pg *server.Postgres) {
	url := pg.Database(t)
	db := connect(t, url+"&application_name=claimer")
	f := installed(t, db, fencesql.Config{LockTimeout: 400 * time.Millisecond}, "orders")
	execute(t, db, `CREATE TABLE orders (n int)`)
	claim(t, f, "orders", 1)

	older := connect(t, url+"&application_name=worker-7")
	tx := begin(t, older, sql.LevelDefault)
	if err := f.Check(t.Context(), tx, "orders", 1); err != nil {
		t.Fatal(err)
	}
	in(t, tx, `INSERT INTO orders VALUES (1)`)
	err := f.Claim(t.Context(), "orders", 2)
	is(t, err, fence.ErrBusy)
	if text := fmt.Sprint(err); !strings.Contains(text, "worker-7") || !strings.Contains(text, "idle in transaction") {
		t.Errorf("%v; want it to say who is in the way", err)
	}

	// With patience it waits, and has the row when the transaction has ended.
	patient, err := fencesql.New(db, fencesql.PostgreSQL, fencesql.Config{LockTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- patient.Claim(t.Context(), "orders", 2) }()
	waiting(t, db, 1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	// Terminate: the one with the smaller token is ended; another resource's is not.
	if err := f.Add(t.Context(), "stock"); err != nil {
		t.Fatal(err)
	}
	claim(t, f, "stock", 9)
	tx = begin(t, older, sql.LevelDefault)
	if err := f.Check(t.Context(), tx, "orders", 2); err != nil {
		t.Fatal(err)
	}
	in(t, tx, `INSERT INTO orders VALUES (2)`)
	beside := begin(t, older, sql.LevelDefault)
	if err := f.Check(t.Context(), beside, "stock", 9); err != nil {
		t.Fatal(err)
	}
	ending, err := fencesql.New(db, fencesql.PostgreSQL, fencesql.Config{LockTimeout: 10 * time.Second, Terminate: true})
	if err != nil {
		t.Fatal(err)
	}
	claim(t, ending, "orders", 3)
	if err := tx.Commit(); err == nil {
		t.Error("the older transaction was committed")
	}
	if err := beside.Commit(); err != nil {
		t.Errorf("another resource's transaction was ended, too: %v", err)
	}
	if n := number(t, db, `SELECT count(*) FROM orders`); n != 1 {
		t.Errorf("%d rows; want those of the first transaction only", n)
	}
}

// waiting returns when so many sessions wait for a lock.
func waiting(t *testing.T, db *sql.DB, want int64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		if number(t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) >= want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
		<-time.After(2 * time.Millisecond)
	}
}

// testOwn: a leader whose transactions are open may claim again.
func testOwn(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
	f := installed(t, db, fencesql.Config{LockTimeout: 300 * time.Millisecond}, "orders")
	claim(t, f, "orders", 1)
	tx := begin(t, db, sql.LevelDefault)
	if err := f.Check(t.Context(), tx, "orders", 1); err != nil {
		t.Fatal(err)
	}
	claim(t, f, "orders", 1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// testOneConnection: a pool of one is enough, but to say who is in the way.
func testOneConnection(t *testing.T, pg *server.Postgres) {
	url := pg.Database(t)
	db, older := connect(t, url), connect(t, url)
	db.SetMaxOpenConns(1)
	f := installed(t, db, fencesql.Config{LockTimeout: 200 * time.Millisecond, Terminate: true}, "orders")
	claim(t, f, "orders", 1)
	tx := begin(t, older, sql.LevelDefault)
	if err := f.Check(t.Context(), tx, "orders", 1); err != nil {
		t.Fatal(err)
	}
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

func testShown(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	claim(t, f, "orders", 7)
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
func testForgotten(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
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

// testEras: the store of the election was restored, and counts from below. Its tokens are
// refused, with what is known, until the era is raised.
func testEras(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	claim(t, f, "orders", 1_000_000)
	stale(t, f.Claim(t.Context(), "orders", 500), 500, 1_000_000)
	next, err := fence.NewToken(1, 501)
	if err != nil {
		t.Fatal(err)
	}
	claim(t, f, "orders", next)
}

func testRows(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	for _, value := range []string{"-1", "NULL", "281474976710656", "9223372036854775808"} {
		if _, err := db.ExecContext(t.Context(), `UPDATE elect_fence SET token = `+value); err == nil {
			t.Errorf("the table takes %s for a token", value)
		}
	}
	for _, name := range []string{"''", "'two words'", "NULL"} {
		if _, err := db.ExecContext(t.Context(), `INSERT INTO elect_fence VALUES (`+name+`, 0)`); err == nil {
			t.Errorf("the table takes %s for a resource", name)
		}
	}
	// Somebody took the constraints away.
	execute(t, db, `ALTER TABLE elect_fence DROP CONSTRAINT elect_fence_token_check, ALTER COLUMN token DROP NOT NULL`)
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

// testDurable: where the database does not flush commits, the claim's is flushed all the
// same, and nothing of that stays behind in the connection.
func testDurable(t *testing.T, pg *server.Postgres) {
	url := pg.Database(t)
	db := connect(t, url+"&synchronous_commit=off&default_transaction_isolation=serializable&lock_timeout=12345")
	db.SetMaxOpenConns(1)
	f := installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE TABLE seen (setting text)`,
		`CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO seen VALUES (current_setting('synchronous_commit')), (current_setting('transaction_isolation')), (current_setting('lock_timeout')); RETURN NULL; END $$`,
		`CREATE TRIGGER see AFTER UPDATE ON elect_fence EXECUTE FUNCTION see()`)
	claim(t, f, "orders", 1)
	var seen, left string
	if err := db.QueryRowContext(t.Context(), `SELECT string_agg(setting, ' ') FROM seen`).Scan(&seen); err != nil || seen != "on read committed 10s" {
		t.Errorf("the claim was made with %q, %v", seen, err)
	}
	if err := db.QueryRowContext(t.Context(), `SELECT current_setting('synchronous_commit') || ' ' || current_setting('lock_timeout')`).Scan(&left); err != nil || left != "off 12345ms" {
		t.Errorf("it left %q, %v", left, err)
	}
}

func testTransactions(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE TABLE orders (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	claim(t, f, "orders", 1)
	insert := func(n int) func(*sql.Tx) error {
		return func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO orders VALUES ($1)`, n)
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
	// A commit that the server refuses is known not to have been done.
	if err := do(t.Context(), insert(1)); err == nil || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("a duplicate: %v", err)
	}
	// One whose session was ended is not.
	err := do(t.Context(), func(tx *sql.Tx) error {
		var pid int
		if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			return err
		}
		_, err := db.ExecContext(t.Context(), `SELECT pg_terminate_backend($1, 10000)`, pid)
		return err
	})
	if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a session that was ended before the commit: %v; want ErrUnknownOutcome", err)
	}
	if n := number(t, db, `SELECT sum(n) FROM orders`); n != 1 {
		t.Errorf("rows that add up to %d; want the first one only", n)
	}
	// Nothing is held any more.
	claim(t, f, "orders", 2)
}

// testSnapshot: a transaction whose snapshot is older than a claim. The bare predicate
// believes the snapshot, and so does a check without FOR SHARE; the check does not.
func testSnapshot(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE TABLE orders (n int)`)
	token := fence.Token(1)
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		claim(t, f, "orders", token)
		checked, bare := begin(t, db, level), begin(t, db, level)
		in(t, checked, `SELECT count(*) FROM orders`)
		in(t, bare, `SELECT count(*) FROM orders`)
		claim(t, f, "orders", token+1)
		if err := f.Check(t.Context(), checked, "orders", token); err == nil {
			t.Errorf("%v: a stale token passed on an old snapshot", level)
		}
		_ = checked.Rollback()
		in(t, bare, `INSERT INTO orders SELECT 1 WHERE EXISTS (SELECT 1 FROM elect_fence WHERE resource = 'orders' AND token <= $1)`, int64(token))
		if err := bare.Commit(); err != nil {
			t.Errorf("%v: the bare predicate has become safe? %v", level, err)
		}
		token += 2
	}
	if n := number(t, db, `SELECT count(*) FROM orders`); n != 2 {
		t.Errorf("%d stale writes by the bare predicate; want 2, or the documentation is wrong", n)
	}
}

// testSavepoint: a hold that was taken within a savepoint goes with it.
func testSavepoint(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
	f := installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE TABLE orders (n int)`)
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

	// A check before the savepoint stays, and a trigger checks each statement anew.
	if err := f.Guard(t.Context(), "orders", "orders"); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, db, sql.LevelDefault)
	if err := f.SetToken(t.Context(), tx, 2); err != nil {
		t.Fatal(err)
	}
	in(t, tx, `SAVEPOINT s`)
	in(t, tx, `INSERT INTO orders VALUES (2)`)
	in(t, tx, `ROLLBACK TO SAVEPOINT s`)
	claim(t, f, "orders", 3)
	_, err := tx.ExecContext(t.Context(), `INSERT INTO orders VALUES (2)`)
	stale(t, fencesql.Refusal(err), 2, 3)
}

// testMark: two guards with one mark.
func testMark(t *testing.T, pg *server.Postgres) {
	url := pg.Database(t)
	db := connect(t, url)
	f := installed(t, db, fencesql.Config{LockTimeout: time.Minute}, "device")
	other := installed(t, connect(t, url), fencesql.Config{LockTimeout: time.Minute})
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
	execute(t, db, `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`)
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
	_ = tx.Rollback()

	// Guards in two processes: the older one's work ends before the newer one's begins.
	guards := make([]*fence.Guard, 2)
	for i, m := range []fence.Mark{mark, other.Mark()} {
		if guards[i], err = fence.NewGuard(m, fence.GuardConfig{Resources: []fence.Resource{"device"}}); err != nil {
			t.Fatal(err)
		}
	}
	older, err := guards[0].Begin(t.Context(), "device", 2)
	if err != nil {
		t.Fatal(err)
	}
	var ended bool
	go func() {
		done <- guards[1].Do(t.Context(), "device", 3, func(context.Context) error {
			if !ended {
				return errors.New("began before the older one's work had ended")
			}
			return nil
		})
	}()
	waiting(t, db, 1)
	ended = true
	if err := older.End(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	stale(t, guards[0].Do(t.Context(), "device", 2, func(context.Context) error { return nil }), 2, 3)
}

func testInstall(t *testing.T, pg *server.Postgres) {
	db := connect(t, pg.Database(t))
	execute(t, db, `CREATE SCHEMA guards`, `CREATE TABLE orders (n int)`)
	f, err := fencesql.New(db, fencesql.PostgreSQL, fencesql.Config{Table: "guards.marks"})
	if err != nil {
		t.Fatal(err)
	}
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
	if err := f.Guard(t.Context(), "orders", "public.orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO orders VALUES (1)`); !errors.Is(fencesql.Refusal(err), fence.ErrMissing) {
		t.Error(err)
	}
	if err := f.Remove(t.Context(), "orders"); err == nil {
		t.Error("removed while it guards a table")
	}
	if err := f.Uninstall(t.Context()); err == nil {
		t.Error("uninstalled while a table is guarded")
	}
	for range 2 {
		if err := f.Unguard(t.Context(), "orders", "public.orders"); err != nil {
			t.Fatal(err)
		}
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
	if n := number(t, db, `SELECT count(*) FROM pg_proc WHERE proname LIKE 'marks%'`) + number(t, db, `SELECT count(*) FROM pg_class WHERE relname LIKE 'marks%'`); n != 0 {
		t.Errorf("%d things are left", n)
	}
}
