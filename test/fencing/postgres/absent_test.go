//go:build linux

package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// TestAbsent: without a table of marks, each operation that needs it says what to do. Without the
// rights to it, the server says so.
func TestAbsent(t *testing.T) {
	t.Parallel()
	d := database(server.StartPostgres(t))
	sqltest.Absent(t, d, "42P01", "", "elsewhere", "nowhere.marks")
	url := d.Make(t)
	db := d.Connect(t, url)
	d.Installed(t, db, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE ROLE reader LOGIN`, `GRANT SELECT ON elect_fence TO reader`, `CREATE ROLE stranger LOGIN`)
	for _, role := range []string{"reader", "stranger"} {
		own := d.Connect(t, strings.Replace(url, "//elect@", "//"+role+"@", 1))
		for name, err := range sqltest.Everything(t, d, own, fencesql.Config{}) {
			if role == "reader" && (name == "status" || name == "list" || name == "highest") {
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
