package disk

import "testing"

// Whenever the power fails, the directory is void or as it was.
func TestVoidAndPower(t *testing.T) {
	for point := 1; ; point++ {
		at := newFakeDisk()
		d := &Dir{path: "x", at: at}
		at.fault[at.point+point] = dieHalf
		if d.Void("why") == nil {
			if point < 4 {
				t.Fatalf("it is written in %d operations; want a file, a write, a sync, a rename and a sync", point-1)
			}
			return
		}
		sectors, changes := at.unsynced()
		for n := range changes + 1 {
			for _, survive := range outages(sectors) {
				if says, err := voided(at.outage(n, survive)); err != nil || says != "" && says != "why" {
					t.Fatalf("point %d, %d changes: %q, %v", point, n, says, err)
				}
			}
		}
	}
}
