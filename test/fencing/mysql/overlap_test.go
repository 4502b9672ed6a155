//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// TestOverlap: short transactions of an older leader that overlap do not keep a claim out.
// InnoDB has them wait behind it by itself.
func TestOverlap(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	d := database(server.StartMariaDB(t))
	at := d.Make(t)
	f := d.Installed(t, d.Connect(t, at), fencesql.Config{LockTimeout: 20 * time.Second}, "orders")
	older := d.Guard(t, d.Connect(t, at), fencesql.Config{}, "orders")
	sqltest.Overlap(t, f, func(ctx context.Context) error {
		return older.Write(ctx, 1, nil, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `DO SLEEP(0.03)`)
			return err
		})
	})
}
