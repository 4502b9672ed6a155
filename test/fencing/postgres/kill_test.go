//go:build linux

package postgres_test

import (
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

func TestKilledServer(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	pg := server.StartPostgres(t)
	sqltest.Kill(t, database(pg), func() { pg.Kill(t); pg.Start(t) })
}
