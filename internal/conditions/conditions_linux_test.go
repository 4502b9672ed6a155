package conditions

import (
	"os"
	"runtime"
	"testing"
)

func TestOwnProcess(t *testing.T) {
	held := make([]byte, 32<<20)
	for i := range held {
		held[i] = 1
	}
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for sum, last := 0, before; ; sum++ {
		now, err := CPUTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now < last {
			t.Fatalf("CPU time fell from %v to %v", last, now)
		}
		if now > before { // what runs is seen, in steps of less than a hundredth of a second
			break
		}
		if sum > 1e7 {
			t.Fatal("CPU time stands still")
		}
	}
	m, err := MemoryOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if m.Resident < uint64(len(held)) || m.Share < uint64(len(held)) { // a private block counts in full in both
		t.Errorf("%+v with %d bytes touched", m, len(held))
	}
	runtime.KeepAlive(held)
}

func TestNobodysProcess(t *testing.T) {
	const nobody = 1 << 23 // above any pid
	if used, err := CPUTime(nobody); err == nil {
		t.Errorf("CPU time of nobody: %v", used)
	}
	if m, err := MemoryOf(nobody); err == nil {
		t.Errorf("memory of nobody: %+v", m)
	}
}
