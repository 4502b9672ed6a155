//go:build linux && cgo

package leases_test

import (
	"path/filepath"
	"testing"

	"github.com/electd/elect/internal/long"
)

// TestFlight: candidates keep flight records that can be replayed, also of a process that was killed. The judge
// replays them.
func TestFlight(t *testing.T) {
	long.Test(t, "it waits for leases")
	t.Parallel()
	d := databases(t)["sqlite"](t)
	w, at := newWorkers(t), d.place(t).url("")
	for node := range 3 {
		w.start(node+1, at)
	}
	w.kill(int(w.leader().Node))
	w.leader()
	// The judge finds a record only where it expects one.
	if found, err := filepath.Glob(filepath.Join(w.dir, "flight", "n*", "e", "flight-00000001.ndjson")); err != nil || len(found) != 3 {
		t.Errorf("records %v, %v; want one of each candidate", found, err)
	}
}
