//go:build linux

package sqltest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/electd/elect/fence/fencesql"
)

// Accounts makes a thousand accounts in an empty database, as a resource that is claimed
// with token 1.
func Accounts(t testing.TB, d Database, at string) (*sql.DB, *fencesql.Guard) {
	t.Helper()
	db := d.Connect(t, at)
	f := d.Installed(t, db, fencesql.Config{}, "accounts")
	Execute(t, db, `CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL)`,
		`INSERT INTO accounts WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 999) SELECT id, 0 FROM n`,
		`CREATE TABLE transfers (id SERIAL PRIMARY KEY, account INT, amount BIGINT)`)
	Claim(t, f, 1)
	return db, f
}

// Transfer returns work of so many statements on a table of accounts: an update, and
// then by turns a look and an insert. The accounts differ from transaction to transaction.
func Transfer(ctx context.Context, d Database, table string, statements int) func(*sql.Tx) error {
	update := d.bind(`UPDATE ` + table + ` SET balance = balance + 1 WHERE id = ?`)
	look := d.bind(`SELECT balance FROM ` + table + ` WHERE id = ?`)
	insert := d.bind(`INSERT INTO transfers (account, amount) VALUES (?, ?)`)
	account := 0
	return func(tx *sql.Tx) error {
		account = (account + 7) % 1000
		if _, err := tx.ExecContext(ctx, update, account); err != nil {
			return err
		}
		for i := 1; i < statements; i += 2 {
			var balance int64
			if err := tx.QueryRowContext(ctx, look, account).Scan(&balance); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, insert, account, balance); err != nil {
				return err
			}
		}
		return nil
	}
}

// Bare does work in a transaction without a guard.
func Bare(ctx context.Context, db *sql.DB, work func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}
