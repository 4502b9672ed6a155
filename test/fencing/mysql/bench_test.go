//go:build linux

package mysql_test

import (
	"fmt"
	"testing"

	"github.com/electd/elect/test/fencing/compare"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// BenchmarkTransactions measures guarded transactions beside bare ones, on one server that
// syncs every commit.
func BenchmarkTransactions(b *testing.B) {
	d, ctx := database(server.StartMariaDB(b)), b.Context()
	db, f := sqltest.Accounts(b, d, d.Make(b))
	for _, statements := range []int{1, 5} {
		b.Run(fmt.Sprintf("statements=%d", statements), func(b *testing.B) {
			work := sqltest.Transfer(ctx, d, "accounts", statements)
			compare.Guarded(b, 1,
				func() error { return sqltest.Bare(ctx, db, work) },
				func() error { return f.Write(ctx, 1, nil, work) })
		})
	}
}
