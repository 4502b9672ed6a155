package clock

import "testing"

// TestMonoIsTheKernels: processes of one machine agree about it, however it is read.
func TestMonoIsTheKernels(t *testing.T) {
	before := mono()
	p := ReadPair()
	after := mono()
	if p.Mono < before-tight || p.Mono > after+tight {
		t.Errorf("between %d and %d a pair has %d", before, after, p.Mono)
	}
}
