//go:build !mutants

package mutation

import "testing"

// TestNothing: whatever the environment says, there are no mistakes in an
// ordinary build.
func TestNothing(t *testing.T) {
	for _, name := range append(append(Names(), OfGroups()...), EarlyWord, AddressKept, "no-such-mistake") {
		t.Setenv(Env, name)
		if Is(name) {
			t.Errorf("%s is made", name)
		}
		if err := Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
