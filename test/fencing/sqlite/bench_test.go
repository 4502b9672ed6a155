//go:build linux

package sqlite_test

import (
	"database/sql"
	"slices"
	"testing"
	"time"
)

// BenchmarkTransactions measures guarded transactions beside bare ones, in turns, on one
// file that is synced at each commit. percent is the rate of the guarded ones, by the
// medians, with the bare ones as 100.
func BenchmarkTransactions(b *testing.B) {
	for _, journal := range []string{"WAL", "DELETE"} {
		b.Run(journal, func(b *testing.B) {
			r := prepare(b, where{Journal: journal, Lock: "deferred", Form: "tx"})
			ctx := b.Context()
			if err := r.f.Claim(ctx, "register", 1); err != nil {
				b.Fatal(err)
			}
			work := func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE register SET value = value + 1`)
				return err
			}
			sideBySide(b, func() error {
				tx, err := r.db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				if err := work(tx); err != nil {
					return err
				}
				return tx.Commit()
			}, func() error { return r.f.Tx(ctx, "register", 1, nil, work) })
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
