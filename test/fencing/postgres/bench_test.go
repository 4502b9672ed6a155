//go:build linux

package postgres_test

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
// with the bare ones as 100. What a check costs is the same everywhere (adds-µs), and
// what a commit costs is not: where the disk of the test syncs in no time, as in
// memory or behind a cache, flush=2ms has the server wait before it does, as for a disk
// that takes two milliseconds.
func BenchmarkTransactions(b *testing.B) {
	for _, flush := range []struct{ name, delay string }{{"own", "0"}, {"2ms", "2000"}} {
		b.Run("flush="+flush.name, func(b *testing.B) {
			transactions(b, "commit_siblings = 0", "commit_delay = "+flush.delay)
		})
	}
}

func transactions(b *testing.B, settings ...string) {
	pg := server.StartPostgres(b, settings...)
	db := connect(b, pg.Database(b))
	f := installed(b, db, fencesql.Config{}, "accounts")
	execute(b, db, `CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)`,
		`INSERT INTO accounts SELECT n, 0 FROM generate_series(0, 999) AS n`, `CREATE TABLE transfers (id bigserial PRIMARY KEY, account int, amount bigint)`)
	if err := f.Claim(b.Context(), "accounts", 1); err != nil {
		b.Fatal(err)
	}
	execute(b, db, `CREATE TABLE watched (LIKE accounts INCLUDING ALL)`, `INSERT INTO watched SELECT * FROM accounts`)
	if err := f.Guard(b.Context(), "accounts", "watched"); err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	bare := func(work func(*sql.Tx) error) error {
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
	for _, statements := range []int{1, 5} {
		// The accounts differ from transaction to transaction.
		account := 0
		work := func(table string) func(tx *sql.Tx) error {
			return func(tx *sql.Tx) error {
				account = (account + 7) % 1000
				if _, err := tx.ExecContext(ctx, `UPDATE `+table+` SET balance = balance + 1 WHERE id = $1`, account); err != nil {
					return err
				}
				for i := 1; i < statements; i += 2 {
					var balance int64
					if err := tx.QueryRowContext(ctx, `SELECT balance FROM `+table+` WHERE id = $1`, account).Scan(&balance); err != nil {
						return err
					}
					if _, err := tx.ExecContext(ctx, `INSERT INTO transfers (account, amount) VALUES ($1, $2)`, account, balance); err != nil {
						return err
					}
				}
				return nil
			}
		}
		for _, form := range []struct {
			name string
			do   func() error
		}{
			{"tx", func() error { return f.Tx(ctx, "accounts", 1, nil, work("accounts")) }},
			{"trigger", func() error {
				return bare(func(tx *sql.Tx) error {
					if err := f.SetToken(ctx, tx, 1); err != nil {
						return err
					}
					return work("watched")(tx)
				})
			}},
		} {
			b.Run(fmt.Sprintf("%s/statements=%d", form.name, statements), func(b *testing.B) {
				sideBySide(b, func() error { return bare(work("accounts")) }, form.do)
			})
		}
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
	for range 20 { // connections are made, statements prepared
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
	b.ReportMetric(median[1]-median[0], "adds-µs")
	b.ReportMetric(100*median[0]/median[1], "percent")
}
