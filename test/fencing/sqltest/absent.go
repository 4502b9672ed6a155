//go:build linux

package sqltest

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// Absent wants everything that needs a table of marks to say what to do where there is
// none, and what the database says of it.
func Absent(t *testing.T, d Database, says string, tables ...string) {
	t.Helper()
	db := d.Connect(t, d.Make(t))
	for _, table := range tables {
		for name, err := range Everything(t, d.Fence(t, db, fencesql.Config{Table: table}), db) {
			Is(t, err, fence.ErrResource)
			if err != nil && (!strings.Contains(err.Error(), "want Install, or elect fence install") || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s without %q: %v", name, table, err)
			}
		}
	}
}

// Everything is what comes of all that needs the table.
func Everything(t *testing.T, f *fencesql.Fence, db *sql.DB) map[string]error {
	t.Helper()
	_, status := f.Status(t.Context())
	_, highest := f.Mark().Highest(t.Context(), "orders")
	_, share := f.Mark().Share(t.Context(), "orders", 1)
	tx := Begin(t, db, sql.LevelDefault)
	defer tx.Rollback()
	return map[string]error{
		"status": status, "highest": highest, "share": share,
		"add":    f.Add(t.Context(), "orders"),
		"remove": f.Remove(t.Context(), "orders"),
		"claim":  f.Claim(t.Context(), "orders", 1),
		"check":  f.Check(t.Context(), tx, "orders", 1),
		"tx":     f.Tx(t.Context(), "orders", 1, nil, nothing),
	}
}
