package kubernetes

import (
	"maps"
	"slices"
	"testing"

	"github.com/electd/elect/driver/electtest"
)

// TestConformance runs in fake time. The era is not raised when the Lease is deleted: tokens rise all the same.
func TestConformance(t *testing.T) {
	var s *server
	var of testing.TB
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		if of != t {
			s, of = newServer(t), t
		}
		return s.open(t, 0, name, id)
	}, electtest.Config{
		Bubble: true,
		Cannot: map[electtest.Fault]string{
			electtest.Freeze: "a goroutine cannot freeze another: see the conformance of processes in test/fencing/leases",
			electtest.Crash:  "as Freeze",
		},
		Restart: func(testing.TB) { s.restart() },
		Recreate: func(testing.TB) {
			for _, path := range slices.Collect(maps.Keys(s.leases)) {
				s.delete(path)
			}
		},
	})
}
