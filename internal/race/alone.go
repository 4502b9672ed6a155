package race

import (
	"fmt"
	"os"
	"testing"
)

// Alone skips a test of real processes where CI has the race detector on: other
// tests keep the processors busy there, and what it tests is built without the
// detector anyway. CI runs these by themselves.
func Alone(t *testing.T) {
	t.Helper()
	if Enabled && os.Getenv("CI") == "true" {
		t.Skip("CI runs it by itself, without the race detector")
	}
}

// Main runs the tests of a package, for its TestMain: none of them where CI has the
// race detector on. It is for packages whose code runs in one goroutine, so that the
// detector would take ten times as long and see nothing, and for those that only start
// real programs and servers. CI runs these by themselves.
func Main(m *testing.M) int {
	if Enabled && os.Getenv("CI") == "true" {
		fmt.Println("CI runs these by themselves, without the race detector")
		return 0
	}
	return m.Run()
}
