package race

import (
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
