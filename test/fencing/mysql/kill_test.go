//go:build linux

package mysql_test

import (
	"testing"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

func TestKilledServer(t *testing.T) {
	long.Test(t, "it starts a real server and freezes processes")
	t.Parallel()
	m := server.StartMariaDB(t)
	sqltest.Kill(t, database(m), func() { m.Kill(t); m.Start(t) })
}
