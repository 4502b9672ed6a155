//go:build linux

package mysql_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/server"
)

// TestAbsent: where there is no table of marks, whatever needs it says what to do. Where it may
// not be used, the server says so.
func TestAbsent(t *testing.T) {
	m := server.StartMariaDB(t)
	cfg := m.Database(t)
	db := connect(t, cfg)
	for _, table := range []string{"", "elsewhere", cfg.DBName + ".marks"} {
		for name, err := range each(t, newFence(t, db, fencesql.Config{Table: table}), db) {
			is(t, err, fence.ErrResource)
			if text := err.Error(); !strings.Contains(text, "want Install, or elect fence install") || !strings.Contains(text, "1146") {
				t.Errorf("%s without %q: %v", name, table, err)
			}
		}
	}
	_ = installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE USER reader`, `GRANT SELECT ON `+cfg.DBName+`.elect_fence TO reader`)
	as := cfg.Clone()
	as.User, as.Passwd = "reader", ""
	own := connect(t, as)
	for name, err := range each(t, newFence(t, own, fencesql.Config{}), own) {
		switch name {
		case "status", "highest", "check", "tx", "share": // a right to read is one to lock in share mode
			if errors.Is(err, fence.ErrResource) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || errors.Is(err, fence.ErrResource) || !strings.HasPrefix(err.Error(), "fencesql: ") || !strings.Contains(err.Error(), "1142") {
			t.Errorf("%s: %v; want the server's refusal", name, err)
		}
	}
}

// each is what comes of all that needs the table.
func each(t *testing.T, f *fencesql.Fence, db *sql.DB) map[string]error {
	t.Helper()
	_, status := f.Status(t.Context())
	_, highest := f.Mark().Highest(t.Context(), "orders")
	_, share := f.Mark().Share(t.Context(), "orders", 1)
	tx := begin(t, db, sql.LevelDefault)
	defer tx.Rollback()
	return map[string]error{
		"status": status, "highest": highest, "share": share,
		"add":    f.Add(t.Context(), "orders"),
		"remove": f.Remove(t.Context(), "orders"),
		"claim":  f.Claim(t.Context(), "orders", 1),
		"check":  f.Check(t.Context(), tx, "orders", 1),
		"tx":     f.Tx(t.Context(), "orders", 1, nil, func(*sql.Tx) error { return nil }),
	}
}
