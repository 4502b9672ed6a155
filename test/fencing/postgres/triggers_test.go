//go:build linux

package postgres_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/sqltest"
)

func testTriggers(t *testing.T, d sqltest.Database) {
	db, f := d.New(t, fencesql.Config{LockTimeout: time.Second}, "orders", "stock")
	guard := func(resource fence.Resource) *fencesql.Guard { return d.Guard(t, db, fencesql.Config{}, resource) }
	sqltest.Execute(t, db, `CREATE TABLE orders (n int)`)
	sqltest.Is(t, guard("others").InstallTriggers(t.Context(), "orders"), fence.ErrResource)
	for _, name := range []string{"nothing", "elect_fence_token_check", "pg_stat_activity", "orders; DROP TABLE orders"} {
		if err := f.InstallTriggers(t.Context(), name); err == nil {
			t.Errorf("%q was guarded", name)
		}
	}
	for range 2 {
		if err := f.InstallTriggers(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
	}
	if err := guard("stock").InstallTriggers(t.Context(), "orders"); err == nil {
		t.Error("one table is guarded twice")
	}
	all, err := d.Mark(t, db, fencesql.Config{}).List(t.Context())
	if err != nil || len(all) != 2 || !slices.Equal(all[0].Tables, []string{"orders"}) || all[1].Tables != nil {
		t.Errorf("status: %+v, %v", all, err)
	}

	write := func(setting string) error {
		tx := sqltest.Begin(t, db, sql.LevelDefault)
		defer tx.Rollback()
		if setting != "unset" {
			sqltest.In(t, tx, `SELECT set_config('elect.token', $1, true)`, setting)
		}
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO orders VALUES (1)`); err != nil {
			return err
		}
		return tx.Commit()
	}
	sqltest.Claim(t, f, 7)
	for _, tt := range []struct {
		setting, state string
		want           error
	}{
		{"unset", "LF002", fence.ErrMissing},
		{"", "LF002", fence.ErrMissing},
		{"-1", "LF003", fence.ErrToken},
		{"seven", "LF003", fence.ErrToken},
		{"0", "LF003", fence.ErrToken},
		{"7.0", "LF003", fence.ErrToken},
		{"281474976710656", "LF003", fence.ErrToken},
		{"9223372036854775808", "LF003", fence.ErrToken},
		{"99999999999999999999", "LF003", fence.ErrToken},
		{"6", "LF001", fence.ErrStale},
		{"9223372036854775807", "LF005", fence.ErrUnclaimed},
	} {
		err := write(tt.setting)
		sqltest.Is(t, fencesql.Refusal(err), tt.want)
		if !strings.Contains(fmt.Sprint(err), tt.state) {
			t.Errorf("%q: %v; want SQLSTATE %s", tt.setting, err, tt.state)
		}
	}
	sqltest.Stale(t, fencesql.Refusal(write("6")), 6, 7)
	for _, right := range []string{"7", "0000000000000000007"} {
		if err := write(right); err != nil {
			t.Error(err)
		}
	}
	sqltest.Claim(t, f, fence.MaxToken)
	sqltest.Stale(t, fencesql.Refusal(write("9223372036854775806")), fence.MaxToken-1, fence.MaxToken)
	if err := write("9223372036854775807"); err != nil {
		t.Error(err)
	}
	// Write and Check make the token known to the triggers.
	if err := f.Write(t.Context(), fence.MaxToken, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO orders VALUES (1)`)
		return err
	}); err != nil {
		t.Error(err)
	}
	// Write reads the refusal of a trigger.
	if err := f.Write(t.Context(), fence.MaxToken, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `SELECT set_config('elect.token', '3', true)`)
		if err == nil {
			_, err = tx.ExecContext(t.Context(), `INSERT INTO orders VALUES (1)`)
		}
		return err
	}); err != nil {
		sqltest.Stale(t, err, 3, fence.MaxToken)
	} else {
		t.Error("a stale token passed the trigger")
	}
	// A resource whose row has gone refuses all.
	sqltest.Execute(t, db, `DELETE FROM elect_fence WHERE resource = 'orders'`)
	sqltest.Is(t, fencesql.Refusal(write("9223372036854775807")), fence.ErrResource)
}

// testEverything: every write to a guarded table is checked, by any role.
func testEverything(t *testing.T, d sqltest.Database) {
	url := d.Make(t)
	db := d.Connect(t, url)
	f := d.Installed(t, db, fencesql.Config{}, "orders")
	sqltest.Execute(t, db,
		`CREATE TABLE customers (id int PRIMARY KEY)`,
		`CREATE TABLE orders (n int, customer int REFERENCES customers ON DELETE CASCADE)`,
		`CREATE TABLE log (n int) PARTITION BY RANGE (n)`,
		`CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (0) TO (100)`,
		`CREATE VIEW open_orders AS SELECT n, customer FROM orders`,
		`INSERT INTO customers VALUES (1)`, `INSERT INTO orders VALUES (1, 1)`,
		`CREATE ROLE app`, `GRANT ALL ON orders, customers, log, log_1, open_orders TO app`)
	t.Cleanup(func() { _, _ = db.Exec(`DROP OWNED BY app; DROP ROLE app`) })
	if err := f.InstallTriggers(t.Context(), "orders", "log"); err != nil {
		t.Fatal(err)
	}
	sqltest.Claim(t, f, 1)
	statements := []string{
		`INSERT INTO orders VALUES (2, 1)`,
		`INSERT INTO orders SELECT 2, 1 WHERE false`,
		`UPDATE orders SET n = 3`,
		`DELETE FROM orders`,
		`TRUNCATE orders`,
		`MERGE INTO orders USING customers ON customer = id WHEN MATCHED THEN UPDATE SET n = 4`,
		`WITH w AS (INSERT INTO orders VALUES (2, 1) RETURNING n) SELECT n FROM w`,
		`COPY orders FROM PROGRAM 'echo 2,1' WITH (FORMAT csv)`,
		`INSERT INTO open_orders VALUES (2, 1)`,
		`DELETE FROM customers`,
		`TRUNCATE customers CASCADE`,
		`INSERT INTO log VALUES (1)`,
		`INSERT INTO log_1 VALUES (1)`,
		`DO 'BEGIN INSERT INTO orders VALUES (2, 1); END'`,
	}
	for _, role := range []string{"elect", "app"} {
		for _, s := range statements {
			if role == "app" && strings.HasPrefix(s, "COPY") {
				continue // not permitted to it
			}
			for _, replica := range []bool{false, role == "elect"} {
				tx := sqltest.Begin(t, db, sql.LevelDefault)
				if replica {
					sqltest.In(t, tx, `SET LOCAL session_replication_role = replica`)
				}
				sqltest.In(t, tx, `SET LOCAL ROLE `+role)
				_, err := tx.ExecContext(t.Context(), s)
				if replica && s == `DELETE FROM customers` {
					err = fence.ErrMissing // nothing cascades there
				}
				sqltest.Is(t, fencesql.Refusal(err), fence.ErrMissing)
				_ = tx.Rollback()
			}
			// With the token it is done.
			tx := sqltest.Begin(t, db, sql.LevelDefault)
			sqltest.In(t, tx, `SET LOCAL ROLE `+role)
			sqltest.In(t, tx, `SET LOCAL elect.token = '1'`)
			if _, err := tx.ExecContext(t.Context(), s); err != nil {
				t.Errorf("%s with a token, as %s: %v", s, role, err)
			}
			_ = tx.Rollback()
		}
	}
	// A search path with operators of its own changes nothing.
	sqltest.Execute(t, db, `CREATE SCHEMA evil`,
		`CREATE FUNCTION evil.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
		`CREATE FUNCTION evil.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
		`CREATE OPERATOR evil.<= (FUNCTION = evil.yes, LEFTARG = bigint, RIGHTARG = bigint)`,
		`CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = text, RIGHTARG = text)`,
		`CREATE FUNCTION evil.no(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
		`CREATE OPERATOR evil.<> (FUNCTION = evil.no, LEFTARG = bigint, RIGHTARG = bigint)`,
		`CREATE TABLE evil.elect_fence AS SELECT 'orders' AS resource, 1::bigint AS token`)
	sqltest.Claim(t, f, 2)
	evil := d.Connect(t, url+"&search_path=evil,pg_catalog,public")
	tx := sqltest.Begin(t, evil, sql.LevelDefault)
	sqltest.In(t, tx, `SET LOCAL elect.token = '1'`)
	_, err := tx.ExecContext(t.Context(), `INSERT INTO orders VALUES (2, 1)`)
	sqltest.Stale(t, fencesql.Refusal(err), 1, 2)
	_ = tx.Rollback()
	// The programs need no rights on the marks, and have none.
	tx = sqltest.Begin(t, db, sql.LevelDefault)
	sqltest.In(t, tx, `SET LOCAL ROLE app`)
	if _, err := tx.ExecContext(t.Context(), `UPDATE elect_fence SET token = 0`); err == nil {
		t.Error("a program may lower marks")
	}
	_ = tx.Rollback()
	if err := f.UninstallTriggers(t.Context(), "orders", "log"); err != nil {
		t.Fatal(err)
	}
	sqltest.Execute(t, db, statements[0], `INSERT INTO log_1 VALUES (1)`)
}

// testLeaks: a token that is set for the session is there for the next user of the connection; one
// that is set for the transaction is not.
func testLeaks(t *testing.T, d sqltest.Database) {
	url := d.Make(t)
	db := d.Connect(t, url)
	f := d.Installed(t, db, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE TABLE orders (n int)`)
	if err := f.InstallTriggers(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	sqltest.Claim(t, f, 1)
	for _, tt := range []struct {
		set  func(tx *sql.Tx) error
		leak bool
	}{
		{func(tx *sql.Tx) error { return f.SetToken(t.Context(), tx, 1) }, false},
		{func(tx *sql.Tx) error { return f.Check(t.Context(), tx, 1) }, false},
		{func(tx *sql.Tx) error { _, err := tx.Exec(`SET LOCAL elect.token = '1'`); return err }, false},
		{func(tx *sql.Tx) error { _, err := tx.Exec(`SET elect.token = '1'`); return err }, true},
		{func(tx *sql.Tx) error { _, err := tx.Exec(`SELECT set_config('elect.token', '1', false)`); return err }, true},
	} {
		pool := d.Connect(t, url)
		pool.SetMaxOpenConns(1)
		tx := sqltest.Begin(t, pool, sql.LevelDefault)
		if err := tt.set(tx); err != nil {
			t.Fatal(err)
		}
		sqltest.In(t, tx, `INSERT INTO orders VALUES (1)`)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		_, err := pool.ExecContext(t.Context(), `INSERT INTO orders VALUES (2)`) // by a client without a token
		if tt.leak != (err == nil) {
			t.Errorf("the next one of the pool: %v; want a leak: %v", err, tt.leak)
		}
		_ = pool.Close()
	}
}

// testTriggerAfterSavepoint: a trigger checks each statement anew. The lock that it took within a
// savepoint has gone with that.
func testTriggerAfterSavepoint(t *testing.T, d sqltest.Database) {
	db, f := d.New(t, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE TABLE orders (n int)`)
	if err := f.InstallTriggers(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	sqltest.Claim(t, f, 2)
	tx := sqltest.Begin(t, db, sql.LevelDefault)
	if err := f.SetToken(t.Context(), tx, 2); err != nil {
		t.Fatal(err)
	}
	sqltest.In(t, tx, `SAVEPOINT s`)
	sqltest.In(t, tx, `INSERT INTO orders VALUES (2)`)
	sqltest.In(t, tx, `ROLLBACK TO SAVEPOINT s`)
	sqltest.Claim(t, f, 3) // does not wait
	_, err := tx.ExecContext(t.Context(), `INSERT INTO orders VALUES (2)`)
	sqltest.Stale(t, fencesql.Refusal(err), 2, 3)
}
