//go:build linux

package postgres_test

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
	pg := server.StartPostgres(t)
	url := pg.Database(t)
	db := connect(t, url)
	for _, table := range []string{"", "elsewhere", "nowhere.marks"} {
		f, err := fencesql.New(db, fencesql.PostgreSQL, fencesql.Config{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range each(t, f, db) {
			is(t, err, fence.ErrResource)
			if text := err.Error(); !strings.Contains(text, "want Install, or elect fence install") || !strings.Contains(text, "42P01") {
				t.Errorf("%s without %q: %v", name, table, err)
			}
		}
	}
	_ = installed(t, db, fencesql.Config{}, "orders")
	execute(t, db, `CREATE ROLE reader LOGIN`, `GRANT SELECT ON elect_fence TO reader`, `CREATE ROLE stranger LOGIN`)
	for _, role := range []string{"reader", "stranger"} {
		own := connect(t, strings.Replace(url, "//elect@", "//"+role+"@", 1))
		f, err := fencesql.New(own, fencesql.PostgreSQL, fencesql.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range each(t, f, own) {
			if role == "reader" && (name == "status" || name == "highest") {
				if err != nil {
					t.Errorf("%s as %s: %v", name, role, err)
				}
				continue
			}
			if err == nil || errors.Is(err, fence.ErrResource) || !strings.HasPrefix(err.Error(), "fencesql: ") || !strings.Contains(err.Error(), "42501") {
				t.Errorf("%s as %s: %v; want the server's refusal", name, role, err)
			}
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
