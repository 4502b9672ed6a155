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

// BenchmarkTerm measures the same transaction in four forms, in turns: bare; by Tx; with
// triggers and a token that each transaction sets; and with triggers and the token that the
// connection began with, which is no round trip more. What the figures are is said at
// BenchmarkTransactions.
func BenchmarkTerm(b *testing.B) {
	for _, flush := range []struct{ name, delay string }{{"own", "0"}, {"2ms", "2000"}} {
		b.Run("flush="+flush.name, func(b *testing.B) { terms(b, "commit_siblings = 0", "commit_delay = "+flush.delay) })
	}
}

func terms(b *testing.B, settings ...string) {
	pg := server.StartPostgres(b, settings...)
	url := pg.Database(b)
	db := connect(b, url)
	f := installed(b, db, fencesql.Config{}, "accounts")
	execute(b, db, `CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)`,
		`INSERT INTO accounts SELECT n, 0 FROM generate_series(0, 999) AS n`, `CREATE TABLE transfers (id bigserial PRIMARY KEY, account int, amount bigint)`,
		`CREATE TABLE watched (LIKE accounts INCLUDING ALL)`, `INSERT INTO watched SELECT * FROM accounts`)
	if err := f.Claim(b.Context(), "accounts", 1); err != nil {
		b.Fatal(err)
	}
	if err := f.Guard(b.Context(), "accounts", "watched"); err != nil {
		b.Fatal(err)
	}
	// Each form has a connection of its own, so that none finds the server's process warmer than another.
	plain, setting, term := connect(b, url), connect(b, url), forTerm(b, url, 1)
	ctx := b.Context()
	bare := func(db *sql.DB, work func(*sql.Tx) error) error {
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
		b.Run(fmt.Sprintf("statements=%d", statements), func(b *testing.B) {
			inTurns(b, []form{
				{"bare", func() error { return bare(plain, work("accounts")) }},
				{"tx", func() error { return f.Tx(ctx, "accounts", 1, nil, work("accounts")) }},
				{"trigger", func() error {
					return bare(setting, func(tx *sql.Tx) error {
						if err := f.SetToken(ctx, tx, 1); err != nil {
							return err
						}
						return work("watched")(tx)
					})
				}},
				{"term", func() error { return bare(term, work("watched")) }},
			})
		})
	}
}

// form is one way to do the same.
type form struct {
	name string
	do   func() error
}

// inTurns runs all forms in turns and reports their medians, and their rates in percent of
// the first one's.
func inTurns(b *testing.B, forms []form) {
	took := make([][]time.Duration, len(forms))
	round := func() {
		for i, f := range forms {
			began := time.Now()
			if err := f.do(); err != nil {
				b.Fatalf("%s: %v", f.name, err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for range 20 { // connections are made, statements prepared
		round()
	}
	clear(took)
	for b.Loop() {
		round()
	}
	var first float64
	for i, f := range forms {
		slices.Sort(took[i])
		median := float64(took[i][len(took[i])/2].Microseconds())
		if i == 0 {
			first = median
		}
		b.ReportMetric(median, f.name+"-µs")
		if i > 0 {
			b.ReportMetric(100*first/median, f.name+"-percent")
		}
	}
}
