//go:build linux && cgo

package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// TestAbsent: where there is no table of marks, whatever needs it says what to do.
func TestAbsent(t *testing.T) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "empty"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, table := range []string{"", "elsewhere"} {
		f, err := fencesql.New(db, fencesql.SQLite, fencesql.Config{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		_, status := f.Status(t.Context())
		_, highest := f.Mark().Highest(t.Context(), "orders")
		_, share := f.Mark().Share(t.Context(), "orders", 1)
		for name, err := range map[string]error{
			"status": status, "highest": highest, "share": share,
			"add":    f.Add(t.Context(), "orders"),
			"remove": f.Remove(t.Context(), "orders"),
			"claim":  f.Claim(t.Context(), "orders", 1),
			"tx":     f.Tx(t.Context(), "orders", 1, nil, func(*sql.Tx) error { return nil }),
		} {
			is(t, err, fence.ErrResource)
			if err != nil && !strings.Contains(err.Error(), "want Install, or elect fence install") {
				t.Errorf("%s without %q: %v", name, table, err)
			}
		}
	}
}
