package keeper

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOuter: a number outside is the one that the kernel tells, or an error, and never that inside.
func TestOuter(t *testing.T) {
	o, err := openOuter()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(os.Getppid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := o.number(fd); err != nil || n != os.Getppid() {
			t.Errorf("%d, %v; want %d", n, err, os.Getppid())
		}
	}
	unix.Close(fd)
	if n, err := o.number(fd); err == nil {
		t.Errorf("without a pidfd: %d; want an error", n)
	}
	for _, fd := range []int{o.slot, o.info, o.status, o.stat} {
		unix.Close(fd)
	}
	if n, err := o.number(o.slot); err == nil {
		t.Errorf("with closed files: %d; want an error", n)
	}
}
