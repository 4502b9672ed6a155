//go:build linux

package mysql_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

func TestMain(m *testing.M) { sqltest.Main(m, database(nil)) }

func TestZombies(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	sqltest.Zombies(t, database(server.StartMariaDB(t)),
		sqltest.Play{Name: "read committed", Form: sqltest.Tx, Isolation: sql.LevelReadCommitted},
		sqltest.Play{Name: "repeatable read", Form: sqltest.Tx, Isolation: sql.LevelRepeatableRead},
		sqltest.Play{Name: "terminating", Form: sqltest.Tx, Timeout: 4 * time.Second, Terminate: true},
		sqltest.Play{Name: "a bare predicate at repeatable read", Form: sqltest.Predicate, Isolation: sql.LevelRepeatableRead},
	)
}

func TestUnsafeZombies(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	sqltest.UnsafeZombies(t, database(server.StartMariaDB(t)),
		sqltest.Play{Name: "a bare predicate at read committed", Form: sqltest.Predicate, Isolation: sql.LevelReadCommitted},
		sqltest.Play{Name: "asks first, and holds nothing", Form: sqltest.Asks, Isolation: sql.LevelRepeatableRead},
	)
}
