//go:build linux && cgo

package sqlite_test

import (
	"testing"

	"github.com/electd/elect/test/fencing/sqltest"
)

// TestAbsent: without a table of marks, each operation that needs it says what to do.
func TestAbsent(t *testing.T) {
	sqltest.Absent(t, database("WAL", "deferred"), "no such table", "", "elsewhere")
}
