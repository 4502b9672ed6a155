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

// BenchmarkTransactions measures the same transaction bare; by Tx; with triggers and a token
// that each transaction sets; and with triggers and the token that the connection began with,
// which is no round trip more.
//
// The server syncs every commit. The cost of a check is the same everywhere, and that of a commit
// is not: the disk of the test may sync in no time, as in memory or behind a cache. flush=2ms has
// the server wait before it syncs, as for a disk that takes that long.
func BenchmarkTransactions(b *testing.B) {
	for _, flush := range []struct{ name, delay string }{{"own", "0"}, {"2ms", "2000"}} {
		b.Run("flush="+flush.name, func(b *testing.B) {
			transactions(b, "commit_siblings = 0", "commit_delay = "+flush.delay)
		})
	}
}

func transactions(b *testing.B, settings ...string) {
	d, ctx := database(server.StartPostgres(b, settings...)), b.Context()
	at := d.Make(b)
	_, f := accounts(b, d, at)
	// Each form has a connection of its own, so that none finds the server's process warmer
	// than another.
	plain, setting, term := d.Connect(b, at), d.Connect(b, at), forTerm(b, at, 1)
	for _, statements := range []int{1, 5} {
		work, watched := sqltest.Transfer(ctx, d, "accounts", statements), sqltest.Transfer(ctx, d, "watched", statements)
		forms := []compare.Form{
			{Name: "bare", Do: func() error { return sqltest.Bare(ctx, plain, work) }},
			{Name: "tx", Do: func() error { return f.Write(ctx, 1, nil, work) }},
			{Name: "trigger", Do: func() error {
				return sqltest.Bare(ctx, setting, func(tx *sql.Tx) error {
					if err := f.SetToken(ctx, tx, 1); err != nil {
						return err
					}
					return watched(tx)
				})
			}},
			{Name: "connection", Do: func() error { return sqltest.Bare(ctx, term, watched) }},
		}
		b.Run(fmt.Sprintf("statements=%d", statements), func(b *testing.B) { compare.InTurns(b, 1, forms...) })
	}
}

// accounts makes them twice: triggers guard those that are named watched.
func accounts(b *testing.B, d sqltest.Database, at string) (*sql.DB, *fencesql.Guard) {
	b.Helper()
	db, f := sqltest.Accounts(b, d, at)
	sqltest.Execute(b, db, `CREATE TABLE watched (LIKE accounts INCLUDING ALL)`, `INSERT INTO watched SELECT * FROM accounts`)
	if err := f.InstallTriggers(b.Context(), "watched"); err != nil {
		b.Fatal(err)
	}
	return db, f
}
