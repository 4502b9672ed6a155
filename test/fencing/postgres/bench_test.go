//go:build linux

package postgres_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/compare"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// BenchmarkTransactions measures guarded transactions beside bare ones, on one server that
// syncs every commit. What a check costs is the same everywhere, and what a commit costs
// is not: where the disk of the test syncs in no time, as in memory or behind a cache,
// flush=2ms has the server wait before it does, as for a disk that takes two milliseconds.
func BenchmarkTransactions(b *testing.B) {
	for _, flush := range []struct{ name, delay string }{{"own", "0"}, {"2ms", "2000"}} {
		b.Run("flush="+flush.name, func(b *testing.B) {
			transactions(b, "commit_siblings = 0", "commit_delay = "+flush.delay)
		})
	}
}

// accounts makes them twice: triggers guard those that are named watched.
func accounts(b *testing.B, d sqltest.Database, at string) (*sql.DB, *fencesql.Fence) {
	b.Helper()
	db, f := sqltest.Accounts(b, d, at)
	sqltest.Execute(b, db, `CREATE TABLE watched (LIKE accounts INCLUDING ALL)`, `INSERT INTO watched SELECT * FROM accounts`)
	if err := f.Guard(b.Context(), "accounts", "watched"); err != nil {
		b.Fatal(err)
	}
	return db, f
}

func transactions(b *testing.B, settings ...string) {
	d, ctx := database(server.StartPostgres(b, settings...)), b.Context()
	db, f := accounts(b, d, d.Make(b))
	for _, statements := range []int{1, 5} {
		work, watched := sqltest.Transfer(ctx, d, "accounts", statements), sqltest.Transfer(ctx, d, "watched", statements)
		for _, form := range []struct {
			name string
			do   func() error
		}{
			{"tx", func() error { return f.Tx(ctx, "accounts", 1, nil, work) }},
			{"trigger", func() error {
				return sqltest.Bare(ctx, db, func(tx *sql.Tx) error {
					if err := f.SetToken(ctx, tx, 1); err != nil {
						return err
					}
					return watched(tx)
				})
			}},
		} {
			b.Run(fmt.Sprintf("%s/statements=%d", form.name, statements), func(b *testing.B) {
				compare.Guarded(b, 1, func() error { return sqltest.Bare(ctx, db, work) }, form.do)
			})
		}
	}
}
