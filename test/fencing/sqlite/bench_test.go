//go:build linux && cgo

package sqlite_test

import (
	"database/sql"
	"testing"

	"github.com/electd/elect/test/fencing/compare"
	"github.com/electd/elect/test/fencing/sqltest"
)

// BenchmarkTransactions measures guarded transactions beside bare ones, on one file that is
// synced at each commit.
func BenchmarkTransactions(b *testing.B) {
	for _, journal := range []string{"WAL", "DELETE"} {
		b.Run(journal, func(b *testing.B) {
			ctx := b.Context()
			db, f := orders(b, database(journal, "deferred"))
			work := func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE orders SET n = n + 1`)
				return err
			}
			compare.Guarded(b, 1,
				func() error { return sqltest.Bare(ctx, db, work) },
				func() error { return f.Write(ctx, 1, nil, work) })
		})
	}
}
