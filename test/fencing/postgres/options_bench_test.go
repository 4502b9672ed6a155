//go:build linux

package postgres_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

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
			inTurns(b, []form{
				{"bare", func() error { return sqltest.Bare(ctx, plain, work) }},
				{"tx", func() error { return f.Tx(ctx, "accounts", 1, nil, work) }},
				{"trigger", func() error {
					return sqltest.Bare(ctx, setting, func(tx *sql.Tx) error {
						if err := f.SetToken(ctx, tx, 1); err != nil {
							return err
						}
						return watched(tx)
					})
				}},
				{"term", func() error { return sqltest.Bare(ctx, term, watched) }},
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
