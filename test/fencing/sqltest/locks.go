//go:build linux

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// Locks are the cases in addition to [Conformance] where a check locks a row, and a lock has a
// session.
func Locks(t *testing.T, d Database) {
	t.Helper()
	Run(t, d,
		Case{"own transactions are not in the way", testOwn},
		Case{"one connection", testOneConnection},
		Case{"a savepoint that is rolled back", testSavepoint},
		Case{"a commit that is not answered", testNotAnswered},
		Case{"mark", testMark},
	)
}

// Busy has a claim wait for transactions that have checked, and end them. It returns what
// the claim says of the one that it may only wait for.
func Busy(t *testing.T, d Database) (said string) {
	at := d.Make(t)
	db, older := d.Connect(t, at), d.Connect(t, at)
	f := d.Installed(t, db, fencesql.Config{LockTimeout: time.Second}, "orders", "stock")
	Execute(t, db, `CREATE TABLE orders (n INT)`, `CREATE TABLE elsewhere (n INT)`, `INSERT INTO elsewhere VALUES (1)`)
	stock := d.Guard(t, db, fencesql.Config{LockTimeout: time.Second}, "stock")
	Claim(t, f, 1)
	Claim(t, stock, 9)

	tx := Checked(t, f, older, 1)
	session := Number(t, tx, d.Session)
	err := f.Claim(t.Context(), 2)
	Is(t, err, fence.ErrBusy)
	said = fmt.Sprint(err)
	if !strings.Contains(said, fmt.Sprintf(" %d (user ", session)) {
		t.Errorf("%v; want it to say that session %d is in the way", err, session)
	}

	// With patience it waits, and has the row when the transaction has ended.
	patient := d.Guard(t, db, fencesql.Config{LockTimeout: time.Minute}, "orders")
	done := make(chan error, 1)
	go func() { done <- patient.Claim(t.Context(), 2) }()
	d.Wait(t, db, 1)
	In(t, tx, `INSERT INTO orders VALUES (1)`)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	// Terminate: those with the smaller token are ended, whether they have written or not;
	// another resource's is not, and neither is one that only reads.
	ending := d.Guard(t, db, fencesql.Config{LockTimeout: 4 * time.Second, Terminate: true}, "orders")
	beside, reader := Checked(t, stock, older, 9), Begin(t, older, sql.LevelRepeatableRead)
	In(t, beside, `UPDATE elsewhere SET n = 2`)
	Number(t, reader, `SELECT COUNT(*) FROM elsewhere`)
	olders := []*sql.Tx{Checked(t, f, older, 2), Checked(t, f, older, 2), Checked(t, f, older, 2)}
	In(t, olders[2], `INSERT INTO orders VALUES (2)`)
	Claim(t, ending, 3)
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
	if n := Number(t, db, `SELECT COUNT(*) FROM orders`); n != 1 {
		t.Errorf("%d rows; want those of the first transaction only", n)
	}

	// A claim that has the row and does not continue.
	tx = Begin(t, older, sql.LevelDefault)
	In(t, tx, `UPDATE elect_fence SET token = 4 WHERE resource = 'orders'`)
	Claim(t, ending, 5)
	if err := tx.Commit(); err == nil {
		t.Error("the frozen claim was committed")
	}
	return said
}

// testOwn: a leader whose transactions are open may claim again.
func testOwn(t *testing.T, d Database) {
	db, f := d.New(t, fencesql.Config{LockTimeout: time.Second}, "orders")
	Claim(t, f, 1)
	tx := Checked(t, f, db, 1)
	Claim(t, f, 1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// testOneConnection: a pool of one is enough, except to name the session that blocks.
func testOneConnection(t *testing.T, d Database) {
	at := d.Make(t)
	db, older := d.Connect(t, at), d.Connect(t, at)
	db.SetMaxOpenConns(1)
	f := d.Installed(t, db, fencesql.Config{LockTimeout: time.Second, Terminate: true}, "orders")
	Claim(t, f, 1)
	tx := Checked(t, f, older, 1)
	err := f.Claim(t.Context(), 2)
	Is(t, err, fence.ErrBusy)
	if !strings.Contains(fmt.Sprint(err), "not known") {
		t.Errorf("%v; want it to say that it does not know who is in the way", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	Claim(t, f, 2)
}

// testSavepoint: a hold that was taken within a savepoint goes with it, if the savepoint was
// the first thing in the transaction.
func testSavepoint(t *testing.T, d Database) {
	db, f := d.New(t, fencesql.Config{LockTimeout: time.Second}, "orders")
	Execute(t, db, `CREATE TABLE orders (n INT)`)
	Claim(t, f, 1)
	tx := Begin(t, db, sql.LevelDefault)
	In(t, tx, `SAVEPOINT s`)
	if err := f.Check(t.Context(), tx, 1); err != nil {
		t.Fatal(err)
	}
	In(t, tx, `ROLLBACK TO SAVEPOINT s`)
	Claim(t, f, 2) // does not wait
	In(t, tx, `INSERT INTO orders VALUES (1)`)
	if err := tx.Commit(); err != nil {
		t.Errorf("%v; the trap is none any more, and the documentation wrong", err)
	}

	// A check before the savepoint stays.
	tx = Checked(t, f, db, 2)
	In(t, tx, `SAVEPOINT s`)
	In(t, tx, `INSERT INTO orders VALUES (2)`)
	In(t, tx, `ROLLBACK TO SAVEPOINT s`)
	Is(t, f.Claim(t.Context(), 3), fence.ErrBusy)
}

// testNotAnswered: a commit whose session was ended.
func testNotAnswered(t *testing.T, d Database) {
	db, f := d.New(t, fencesql.Config{}, "orders")
	Execute(t, db, `CREATE TABLE orders (n INT)`)
	Claim(t, f, 1)
	err := f.Write(t.Context(), 1, nil, func(tx *sql.Tx) error {
		In(t, tx, `INSERT INTO orders VALUES (1)`)
		d.End(t, db, Number(t, tx, d.Session))
		return nil
	})
	if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a session that was ended before the commit: %v; want ErrUnknownOutcome", err)
	}
	if n := Number(t, db, `SELECT COUNT(*) FROM orders`); n != 0 {
		t.Errorf("%d rows of a session that was ended before the commit", n)
	}
	Claim(t, f, 2) // nothing is held any more
}

// testMark: two guards with one mark.
func testMark(t *testing.T, d Database) {
	at := d.Make(t)
	db := d.Connect(t, at)
	d.Installed(t, db, fencesql.Config{LockTimeout: time.Minute}, "device")
	mark := d.Mark(t, db, fencesql.Config{LockTimeout: time.Minute})
	other := d.Mark(t, d.Connect(t, at), fencesql.Config{LockTimeout: time.Minute})
	if n, err := mark.Highest(t.Context(), "device"); n != 0 || err != nil {
		t.Errorf("never claimed: %v, %v", n, err)
	}
	_, err := mark.Highest(t.Context(), "others")
	Is(t, err, fence.ErrResource)

	ctx, cancel := context.WithCancel(t.Context())
	release, err := mark.Share(ctx, "device", 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // does not end the hold
	done := make(chan error, 1)
	go func() { done <- other.Raise(t.Context(), "device", 2) }()
	d.Wait(t, db, 1)
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
	Stale(t, err, 1, 2)

	// A lost hold is reported. It is with the one connection of its pool.
	single := d.Connect(t, at)
	single.SetMaxOpenConns(1)
	session := Number(t, single, d.Session)
	release, err = d.Mark(t, single, fencesql.Config{}).Share(t.Context(), "device", 2)
	if err != nil {
		t.Fatal(err)
	}
	d.End(t, db, session)
	if err := release(); err == nil {
		t.Error("the end of the session was not noticed")
	}

	// A Share that waits ends with its context.
	tx := Begin(t, db, sql.LevelDefault)
	In(t, tx, `SELECT 1 FROM elect_fence WHERE resource = 'device' FOR UPDATE`)
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		_, err := mark.Share(ctx, "device", 2)
		done <- err
	}()
	d.Wait(t, db, 1)
	cancel()
	Is(t, <-done, context.Canceled)
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	testGuards(t, d, db, [2]fence.Mark{mark, other})
}

// testGuards: guards in two processes, with one mark of 2. The older one's work ends before
// the newer one's begins.
func testGuards(t *testing.T, d Database, db *sql.DB, marks [2]fence.Mark) {
	t.Helper()
	var guards [2]*fence.Guard
	for i, m := range marks {
		var err error
		if guards[i], err = fence.NewGuard(m, []fence.Resource{"device"}, fence.GuardConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	older, err := guards[0].Begin(t.Context(), "device", 2)
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	done := make(chan error, 1)
	go func() {
		done <- guards[1].Do(t.Context(), "device", 3, func(context.Context) error {
			if !ended.Load() {
				return errors.New("began before the older one's work had ended")
			}
			return nil
		})
	}()
	d.Wait(t, db, 1)
	ended.Store(true)
	if err := older.End(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	Stale(t, guards[0].Do(t.Context(), "device", 2, func(context.Context) error { return nil }), 2, 3)
}
