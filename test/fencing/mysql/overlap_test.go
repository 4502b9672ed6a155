//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// TestOverlap: short transactions of an older leader that overlap do not keep a claim out.
// InnoDB has them wait behind it by itself.
func TestOverlap(t *testing.T) {
	race.Alone(t)
	d := database(server.StartMariaDB(t))
	at := d.Make(t)
	const patience = 20 * time.Second
	f := d.Installed(t, d.Connect(t, at), fencesql.Config{LockTimeout: patience}, "orders")
	sqltest.Claim(t, f, "orders", 1)
	ctx, stop := context.WithCancel(t.Context())
	const writers = 8
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	older := d.Fence(t, d.Connect(t, at), fencesql.Config{})
	var written atomic.Int64
	ended := make(chan error, writers)
	for range writers {
		work.Go(func() {
			for {
				err := older.Tx(ctx, "orders", 1, nil, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, `DO SLEEP(0.03)`)
					return err
				})
				if err != nil {
					ended <- err
					return
				}
				written.Add(1)
			}
		})
	}
	for written.Load() < 10*writers { // all are at work
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	began, before := time.Now(), written.Load()
	err := f.Claim(ctx, "orders", 2)
	ahead := written.Load() - before
	if err != nil {
		t.Fatalf("after %v and %d transactions of the older leader: %v", time.Since(began), ahead, err)
	}
	t.Logf("the claim took %v, and %d transactions of the older leader went ahead of it", time.Since(began), ahead)
	if ahead > 25*writers {
		t.Errorf("%d transactions of the older leader went ahead of the claim", ahead)
	}
	for range writers {
		sqltest.Stale(t, <-ended, 1, 2)
	}
}
