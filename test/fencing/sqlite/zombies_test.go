//go:build linux && cgo

package sqlite_test

import (
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m, database("", "")) }

func TestZombies(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	for _, mode := range [][2]string{{"WAL", "deferred"}, {"DELETE", "deferred"}, {"WAL", "immediate"}} {
		sqltest.Zombies(t, database(mode[0], mode[1]), sqltest.Play{Name: mode[0] + " " + mode[1], Form: sqltest.Tx})
	}
}

// TestUnsafeZombies: leaders that ask in one transaction and write in another.
func TestUnsafeZombies(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	sqltest.UnsafeZombies(t, database("WAL", "deferred"), sqltest.Play{Name: "asks first, and holds nothing", Form: sqltest.AsksBefore})
}
