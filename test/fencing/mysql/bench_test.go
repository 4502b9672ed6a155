//go:build linux

package mysql_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/server"
)

// BenchmarkTransactions measures guarded transactions beside bare ones, in turns, on one
// server that syncs every commit. percent is the rate of the guarded ones, by the medians,
// with the bare ones as 100.
func BenchmarkTransactions(b *testing.B) {
	m := server.StartMariaDB(b)
	db := connect(b, m.Database(b))
	f := installed(b, db, fencesql.Config{}, "accounts")
	execute(b, db, `CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL)`,
		`INSERT INTO accounts SELECT seq, 0 FROM seq_0_to_999`, `CREATE TABLE transfers (id SERIAL PRIMARY KEY, account INT, amount BIGINT)`)
	ctx := b.Context()
	if err := f.Claim(ctx, "accounts", 1); err != nil {
		b.Fatal(err)
	}
	for _, statements := range []int{1, 5} {
		b.Run(fmt.Sprintf("statements=%d", statements), func(b *testing.B) {
			account := 0
			work := func(tx *sql.Tx) error {
				account = (account + 7) % 1000
				if _, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = balance + 1 WHERE id = ?`, account); err != nil {
					return err
				}
				for i := 1; i < statements; i += 2 {
					var balance int64
					if err := tx.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = ?`, account).Scan(&balance); err != nil {
						return err
					}
					if _, err := tx.ExecContext(ctx, `INSERT INTO transfers (account, amount) VALUES (?, ?)`, account, balance); err != nil {
						return err
					}
				}
				return nil
			}
			sideBySide(b, func() error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				if err := work(tx); err != nil {
					return err
				}
				return tx.Commit()
			}, func() error { return f.Tx(ctx, "accounts", 1, nil, work) })
		})
	}
}

// sideBySide runs both in turns and reports medians.
func sideBySide(b *testing.B, bare, guarded func() error) {
	var took [2][]time.Duration
	once := func(which int, do func() error, count bool) {
		began := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		if count {
			took[which] = append(took[which], time.Since(began))
		}
	}
	for range 20 { // connections are made, pages read
		once(0, bare, false)
		once(1, guarded, false)
	}
	for b.Loop() {
		once(0, bare, true)
		once(1, guarded, true)
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2].Microseconds())
	}
	b.ReportMetric(median[0], "bare-µs")
	b.ReportMetric(median[1], "guarded-µs")
	b.ReportMetric(100*median[0]/median[1], "percent")
}
