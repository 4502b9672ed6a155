//go:build linux

package mysql_test

import (
	"errors"
	"path"
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
	d := database(server.StartMariaDB(t))
	at := d.Make(t)
	sqltest.Absent(t, d, "1146", "", "elsewhere", path.Base(at)+".marks")
	db := d.Connect(t, at)
	d.Installed(t, db, fencesql.Config{}, "orders")
	sqltest.Execute(t, db, `CREATE USER reader`, `GRANT SELECT ON `+path.Base(at)+`.elect_fence TO reader`)
	own := d.Connect(t, strings.Replace(at, "root@", "reader@", 1))
	for name, err := range sqltest.Everything(t, d, own, fencesql.Config{}) {
		switch name {
		case "status", "list", "highest", "check", "write", "share": // a right to read is one to lock in share mode
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
