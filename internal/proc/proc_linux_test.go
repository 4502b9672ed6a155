package proc

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestName has a thread whose name looks like the fields that follow it.
func TestName(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	place := fmt.Sprintf("self/task/%d", unix.Gettid())
	name, err := os.ReadFile("/proc/" + place + "/comm")
	if err != nil {
		t.Fatal(err)
	}
	rename := func(name string) {
		if err := os.WriteFile("/proc/"+place+"/comm", []byte(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	defer rename(string(name))
	rename("a) Z 1 (b) X 2")
	s, ok := ReadAt(place)
	if !ok || s.State != 'R' || s.Dead() || s.Parent != os.Getppid() || s.Group != unix.Getpgrp() || s.Start == 0 {
		t.Errorf("%+v, %t; want one that runs, with parent %d and group %d", s, ok, os.Getppid(), unix.Getpgrp())
	}
}

func TestNobody(t *testing.T) {
	if s, ok := Read(1 << 23); ok { // above any pid
		t.Errorf("of nobody: %+v", s)
	}
}
