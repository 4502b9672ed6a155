//go:build linux

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// Case is one case of a test.
type Case struct {
	Name string
	Test func(*testing.T, Database)
}

// Run runs cases as subtests.
func Run(t *testing.T, d Database, cases ...Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.Test(t, d) })
	}
}

// Conformance are the cases for every database.
func Conformance(t *testing.T, d Database) {
	t.Helper()
	Run(t, d,
		Case{"claims", testClaims},
		Case{"what is shown", testShown},
		Case{"forgotten claims", testForgotten},
		Case{"restored eras", testEras},
		Case{"transactions", testTransactions},
		Case{"install and uninstall", testInstall},
	)
}

func testClaims(t *testing.T, d Database) {
	db, f := d.New(t, fencesql.Config{}, "orders", "stock", "many")
	stock, many := d.Guard(t, db, fencesql.Config{}, "stock"), d.Guard(t, db, fencesql.Config{}, "many")
	Claim(t, f, 5)
	Claim(t, f, 5)
	Stale(t, f.Claim(t.Context(), 4), 4, 5)
	Claim(t, stock, 3) // has a mark of its own
	Claim(t, f, fence.MaxToken)
	Stale(t, f.Claim(t.Context(), fence.MaxToken-1), fence.MaxToken-1, fence.MaxToken)
	all, err := d.Mark(t, db, fencesql.Config{}).List(t.Context())
	if err != nil || len(all) != 3 || all[1].Resource != "orders" || all[1].Highest != fence.MaxToken || all[2].Highest != 3 {
		t.Fatalf("the marks: %+v, %v", all, err)
	}
	if s, err := f.Status(t.Context()); err != nil || s.Highest != fence.MaxToken || !s.Claimed.Equal(all[1].Claimed) {
		t.Errorf("status: %+v, %v", s, err)
	}
	if since := time.Since(all[1].Claimed); since < -time.Minute || since > time.Minute {
		t.Errorf("claimed %v ago", since)
	}
	// Claims at the same time: the greatest stays, and each other one has passed or is stale.
	errs := make(chan error)
	for i := range fence.Token(8) {
		go func() { errs <- many.Claim(t.Context(), i+1) }()
	}
	for range 8 {
		if err := <-errs; err != nil && !errors.Is(err, fence.ErrStale) {
			t.Error(err)
		}
	}
	if n := Number(t, db, `SELECT token FROM elect_fence WHERE resource = 'many'`); n != 8 {
		t.Errorf("the mark is %d; want 8", n)
	}
}

func testShown(t *testing.T, d Database) {
	db, f := d.New(t, fencesql.Config{}, "orders", "a.Z_9-/:@")
	Claim(t, f, 7)
	odd := d.Guard(t, db, fencesql.Config{}, "a.Z_9-/:@")
	Claim(t, odd, 7)
	if err := odd.Write(t.Context(), 7, nil, nothing); err != nil {
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
		{"others", 7, fence.ErrResource},
		{"ORDERS", 7, fence.ErrResource}, // case counts
		{"orders", 8, fence.ErrUnclaimed},
	} {
		f := d.Guard(t, db, fencesql.Config{}, tt.resource)
		Is(t, f.Write(t.Context(), tt.token, nil, never(t)), tt.want)
		tx := Begin(t, db, sql.LevelDefault)
		Is(t, f.Check(t.Context(), tx, tt.token), tt.want)
		_ = tx.Rollback()
		if tt.want != fence.ErrUnclaimed {
			Is(t, f.Claim(t.Context(), tt.token), tt.want)
		}
	}
	for _, name := range []fence.Resource{"orders' OR true --", ""} {
		_, err := fencesql.New(db, d.Dialect, name, fencesql.Config{})
		Is(t, err, fence.ErrResource)
		m := d.Mark(t, db, fencesql.Config{})
		Is(t, m.Install(t.Context(), name), fence.ErrResource)
		Is(t, m.Uninstall(t.Context(), name), fence.ErrResource)
		Is(t, m.Raise(t.Context(), name, 7), fence.ErrResource)
		_, err = m.Highest(t.Context(), name)
		Is(t, err, fence.ErrResource)
		_, err = m.Share(t.Context(), name, 7)
		Is(t, err, fence.ErrResource)
	}
	Stale(t, f.Write(t.Context(), 6, nil, never(t)), 6, 7)
	if err := f.Write(t.Context(), 7, &sql.TxOptions{ReadOnly: true}, nil); err == nil {
		t.Error("a read only transaction was begun")
	}
}

// testForgotten: a database that was restored from a backup has forgotten claims. The leader is
// refused until it has claimed anew, and so is the one that the backup knew.
func testForgotten(t *testing.T, d Database) {
	db, f := d.New(t, fencesql.Config{}, "orders")
	Claim(t, f, 42)
	Execute(t, db, `UPDATE elect_fence SET token = 41`) // as the backup had it
	Is(t, f.Write(t.Context(), 42, nil, never(t)), fence.ErrUnclaimed)
	Claim(t, f, 42)
	if err := f.Write(t.Context(), 42, nil, nothing); err != nil {
		t.Error(err)
	}
	Stale(t, f.Write(t.Context(), 41, nil, never(t)), 41, 42)
}

// testEras: the store of the election was restored, and counts from a lower number. Its tokens are
// refused, with the greatest seen, until the era is raised.
func testEras(t *testing.T, d Database) {
	_, f := d.New(t, fencesql.Config{}, "orders")
	Claim(t, f, 1_000_000)
	Stale(t, f.Claim(t.Context(), 500), 500, 1_000_000)
	next, err := fence.NewToken(1, 501)
	if err != nil {
		t.Fatal(err)
	}
	Claim(t, f, next)
}

func testTransactions(t *testing.T, d Database) {
	db, f := d.New(t, fencesql.Config{}, "orders")
	Execute(t, db, `CREATE TABLE orders (n INT)`)
	Claim(t, f, 1)
	insert := func(n int) func(*sql.Tx) error {
		return func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), d.bind(`INSERT INTO orders VALUES (?)`), n)
			return err
		}
	}
	do := func(ctx context.Context, work func(*sql.Tx) error) error {
		return f.Write(ctx, 1, nil, work)
	}
	if err := do(t.Context(), insert(1)); err != nil {
		t.Fatal(err)
	}
	own := errors.New("own")
	Is(t, do(t.Context(), func(tx *sql.Tx) error { return errors.Join(insert(2)(tx), own) }), own)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = do(t.Context(), func(tx *sql.Tx) error { _ = insert(3)(tx); panic("at the disco") })
	}()
	ctx, cancel := context.WithCancelCause(t.Context())
	Is(t, do(ctx, func(tx *sql.Tx) error { err := insert(4)(tx); cancel(own); return err }), own)
	if n := Number(t, db, `SELECT SUM(n) FROM orders`); n != 1 {
		t.Errorf("rows that add up to %d; want the first one only", n)
	}
	Claim(t, f, 2) // nothing is held any more
}

func testInstall(t *testing.T, d Database) {
	db := d.Connect(t, d.Make(t))
	f := d.Guard(t, db, fencesql.Config{Table: "marks"}, "orders")
	if err := f.Claim(t.Context(), 1); err == nil || errors.Is(err, fence.ErrStale) {
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
		if err := f.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		Claim(t, f, 5)
	}
	if err := f.Uninstall(t.Context()); err != nil {
		t.Error(err)
	}
	Is(t, f.Claim(t.Context(), 6), fence.ErrResource)
	_, err := f.Status(t.Context())
	Is(t, err, fence.ErrResource)
	mark := d.Mark(t, db, fencesql.Config{Table: "marks"})
	for range 2 {
		if err := mark.Drop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// RefusedCommit is for a database that checks foreign keys at the commit. A refused commit is known
// not to have been done, and leaves nothing open.
func RefusedCommit(t *testing.T, d Database) {
	db, f := d.New(t, fencesql.Config{}, "orders")
	db.SetMaxOpenConns(1)
	Execute(t, db, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`, `CREATE TABLE items (id INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)`)
	Claim(t, f, 1)
	err := f.Write(t.Context(), 1, nil, func(tx *sql.Tx) error {
		In(t, tx, `INSERT INTO orders VALUES (1)`)
		In(t, tx, `INSERT INTO items VALUES (2)`)
		return nil
	})
	if err == nil || errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a commit that a foreign key forbids: %v", err)
	}
	if n := Number(t, db, `SELECT COUNT(*) FROM orders`); n != 0 {
		t.Errorf("%d rows of a commit that was refused", n)
	}
	Claim(t, f, 2)
}

// Rows puts values into the table of marks that no claim has written, as far as the table accepts
// them: alter removes its constraints.
func Rows(t *testing.T, d Database, alter string) {
	db, f := d.New(t, fencesql.Config{}, "orders")
	for _, value := range []string{"-1", "NULL", "281474976710656", "9223372036854775808"} {
		if _, err := db.ExecContext(t.Context(), `UPDATE elect_fence SET token = `+value); err == nil {
			t.Errorf("the table takes %s for a token", value)
		}
	}
	Execute(t, db, alter)
	for _, value := range []string{"-5", "NULL", "281474976710656"} {
		Execute(t, db, `UPDATE elect_fence SET token = `+value)
		for name, err := range map[string]error{
			"claim": f.Claim(t.Context(), fence.MaxToken),
			"tx":    f.Write(t.Context(), fence.MaxToken, nil, never(t)),
		} {
			if err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("%s with a mark of %s: %v", name, value, err)
			}
		}
	}
}
