//go:build linux || darwin || freebsd

package fencefile

import (
	"runtime"
	"testing"
)

// TestAlone: a second guard is refused for as long as the first has its marks, also where it
// has dropped release; and so is taking the resource away.
func TestAlone(t *testing.T) {
	dir := t.TempDir()
	first, second := newMark(t, dir), newMark(t, dir)
	if err := first.Install(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Alone("orders"); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC()
	if _, err := second.Alone("invoices", "orders"); err == nil {
		t.Error("orders has two guards")
	}
	if err := second.Uninstall(t.Context(), "orders"); err == nil {
		t.Error("a mark was removed that a guard uses")
	}
	if _, err := second.Highest(t.Context(), "orders"); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(first)
	release, err := second.Alone("invoices") // of what was refused nothing is kept
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	again, err := first.Alone("invoices")
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}
