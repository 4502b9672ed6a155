//go:build linux

package postgres_test

import (
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

func TestMain(m *testing.M) {
	supervise.KeeperMain(nil)
	if at := os.Getenv(holdEnv); at != "" {
		holdRow(at)
	}
	sqltest.Main(m, database(nil))
}

func TestZombies(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	sqltest.Zombies(t, database(server.StartPostgres(t)),
		sqltest.Play{Name: "read committed", Form: sqltest.Tx, Isolation: sql.LevelReadCommitted},
		sqltest.Play{Name: "repeatable read", Form: sqltest.Tx, Isolation: sql.LevelRepeatableRead},
		sqltest.Play{Name: "serializable", Form: sqltest.Tx, Isolation: sql.LevelSerializable},
		sqltest.Play{Name: "terminating", Form: sqltest.Tx, Isolation: sql.LevelReadCommitted, Timeout: 2 * time.Second, Terminate: true},
		sqltest.Play{Name: "trigger", Form: sqltest.Trigger, Isolation: sql.LevelReadCommitted},
		sqltest.Play{Name: "the token of the connection", Form: sqltest.Connection, Isolation: sql.LevelReadCommitted},
		sqltest.Play{Name: "trigger at repeatable read", Form: sqltest.Trigger, Isolation: sql.LevelRepeatableRead},
	)
}

func TestUnsafeZombies(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	sqltest.UnsafeZombies(t, database(server.StartPostgres(t)),
		sqltest.Play{Name: "a bare predicate", Form: sqltest.Predicate, Isolation: sql.LevelReadCommitted},
		sqltest.Play{Name: "a bare predicate at repeatable read", Form: sqltest.Predicate, Isolation: sql.LevelRepeatableRead},
		sqltest.Play{Name: "asks first, and holds nothing", Form: sqltest.Asks, Isolation: sql.LevelReadCommitted},
		sqltest.Play{Name: "claims when it has read", Form: sqltest.ReadsFirst, Isolation: sql.LevelReadCommitted},
		sqltest.Play{Name: "FOR KEY SHARE", Form: sqltest.KeyShare, Isolation: sql.LevelReadCommitted},
	)
}
