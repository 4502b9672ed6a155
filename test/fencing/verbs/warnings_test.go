//go:build linux

package verbs_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/electd/elect/test/fencing/server"
)

// TestWarnings: install and status report which settings of a server may lose marks, once for all
// resources.
func TestWarnings(t *testing.T) {
	elect := build(t, "").program
	warns := func(t *testing.T, at, want string) {
		t.Helper()
		e := &command{t: t, program: elect, at: at}
		for _, args := range [][]string{{"install", "orders"}, {"install", "stock"}, {"status"}} {
			code, _, said := e.run(args...)
			if code != 0 || !strings.HasPrefix(said, "elect: warning: "+want) || strings.Count(said, "\n") != 1 {
				t.Errorf("%q ended with %d, and said:\n%s", args, code, said)
			}
		}
		if out := e.ok("status", "-o", "json", "stock"); !strings.Contains(out, `"warnings":["`+want) {
			t.Errorf("the status is %s", out)
		}
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		warns(t, server.StartPostgres(t, "fsync = off").Database(t), "fsync=off: ")
	})
	t.Run("MariaDB", func(t *testing.T) {
		cfg := server.StartMariaDB(t, "--innodb-flush-log-at-trx-commit=2").Database(t)
		at := url.URL{Scheme: "mysql", User: url.User(cfg.User), Host: cfg.Addr, Path: "/" + cfg.DBName}
		warns(t, at.String(), "innodb_flush_log_at_trx_commit=2: ")
	})
	t.Run("none", func(t *testing.T) {
		e := &command{t: t, program: elect, at: server.StartPostgres(t).Database(t)}
		for _, args := range [][]string{{"install", "orders"}, {"status"}} {
			if code, _, said := e.run(args...); code != 0 || said != "" {
				t.Errorf("%q ended with %d, and said:\n%s", args, code, said)
			}
		}
	})
}
