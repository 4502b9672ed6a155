//go:build linux

package sqltest

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// Absent requires each operation that needs a table of marks to say what to do if there is none,
// with the database's own message.
func Absent(t *testing.T, d Database, says string, tables ...string) {
	t.Helper()
	db := d.Connect(t, d.Make(t))
	for _, table := range tables {
		for name, err := range Everything(t, d, db, fencesql.Config{Table: table}) {
			Is(t, err, fence.ErrResource)
			if err != nil && (!strings.Contains(err.Error(), "want Install, or elect fence install") || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s without %q: %v", name, table, err)
			}
		}
	}
}

// Everything returns the errors of all operations that need the table.
func Everything(t *testing.T, d Database, db *sql.DB, cfg fencesql.Config) map[string]error {
	t.Helper()
	f, mark := d.Guard(t, db, cfg, "orders"), d.Mark(t, db, cfg)
	_, status := f.Status(t.Context())
	_, list := mark.List(t.Context())
	_, highest := mark.Highest(t.Context(), "orders")
	_, share := mark.Share(t.Context(), "orders", 1)
	tx := Begin(t, db, sql.LevelDefault)
	defer tx.Rollback()
	return map[string]error{
		"status": status, "list": list, "highest": highest, "share": share,
		"uninstall": f.Uninstall(t.Context()),
		"claim":     f.Claim(t.Context(), 1),
		"check":     f.Check(t.Context(), tx, 1),
		"write":     f.Write(t.Context(), 1, nil, nothing),
	}
}
