//go:build linux

package mysql_test

import (
	"testing"

	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

func TestKilledServer(t *testing.T) {
	race.Alone(t)
	m := server.StartMariaDB(t)
	sqltest.Kill(t, database(m), func() { m.Kill(t); m.Start(t) })
}
