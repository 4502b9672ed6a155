//go:build linux

package postgres_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/electd/elect/test/fencing/compare"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
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
	d, ctx := database(server.StartPostgres(b, settings...)), b.Context()
	at := d.Make(b)
	_, f := accounts(b, d, at)
	// Each form has a connection of its own, so that none finds the server's process warmer than another.
	plain, setting, term := d.Connect(b, at), d.Connect(b, at), forTerm(b, at, 1)
	for _, statements := range []int{1, 5} {
		work, watched := sqltest.Transfer(ctx, d, "accounts", statements), sqltest.Transfer(ctx, d, "watched", statements)
		b.Run(fmt.Sprintf("statements=%d", statements), func(b *testing.B) {
			compare.InTurns(b, 1,
				compare.Form{Name: "bare", Do: func() error { return sqltest.Bare(ctx, plain, work) }},
				compare.Form{Name: "tx", Do: func() error { return f.Tx(ctx, "accounts", 1, nil, work) }},
				compare.Form{Name: "trigger", Do: func() error {
					return sqltest.Bare(ctx, setting, func(tx *sql.Tx) error {
						if err := f.SetToken(ctx, tx, 1); err != nil {
							return err
						}
						return watched(tx)
					})
				}},
				compare.Form{Name: "term", Do: func() error { return sqltest.Bare(ctx, term, watched) }},
			)
		})
	}
}
