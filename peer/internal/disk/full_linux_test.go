package disk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/place"
)

// TestReallyFull: on a file system without a byte left a ballot can be saved,
// because its slots have their place; a pin cannot, and nothing is lost.
func TestReallyFull(t *testing.T) {
	path := t.TempDir()
	if err := unix.Mount("elect", path, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(path, "n1")
	at := place.At{Path: path, Below: []string{"host"}}
	host, err := OpenHost(t.Context(), at, "elect", "n1")
	if err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, dir)
	if err := errors.Join(d.Pin("n2", dirOf(2)), d.Save(ballotOf(1))); err != nil {
		t.Fatal(err)
	}
	ballast, err := os.Create(filepath.Join(path, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 512))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := errors.Join(d.Save(ballotOf(2)), d.Save(make([]byte, MaxBallot)), d.Save(ballotOf(3)), d.Mirror()); err != nil {
		t.Errorf("a full disk stands in the way of a ballot: %v", err)
	}
	if err := d.Pin("n3", dirOf(3)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v; want no space", err)
	}
	if again, err := OpenHost(t.Context(), at, "elect", "n1"); err != nil || again.Dir != host.Dir || again.Starts != 2 {
		t.Errorf("a full disk stands in the way of a start: %+v, %v", again, err)
	}
	if _, err := OpenHost(t.Context(), place.At{Path: path, Below: []string{"new"}}, "elect", "n2"); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v; want no space for a host that is not known", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, dir)
	if pins := d.Pins(); numberOf(d.Ballot()) != 3 || len(pins) != 1 || pins["n2"] != dirOf(2) {
		t.Errorf("ballot %d, pins %v", numberOf(d.Ballot()), pins)
	}
	if err := errors.Join(os.Remove(ballast.Name()), ballast.Close()); err != nil {
		t.Fatal(err)
	}
	if err := d.Pin("n3", dirOf(3)); err != nil {
		t.Error(err)
	}
}
