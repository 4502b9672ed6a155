//go:build linux || darwin || freebsd

package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/electd/elect/agent/supervise/internal/keeper"
)

// TestFilesOfTheCall: a keeper gets the same file even if its owner has closed it meanwhile, and another file has the
// number. A file that is closed already is refused.
func TestFilesOfTheCall(t *testing.T) {
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(t.TempDir(), name), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	lock := open("lock")
	was, err := lock.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var c Command
	c.under.hold = []*os.File{lock}
	list, err := c.files(&keeper.Spec{}, -1)
	if err != nil || len(list) != 4 {
		t.Fatalf("%v, %v; want the three of the command, and the lock", list, err)
	}
	lock.Close()
	defer open("another").Close()
	kept := os.NewFile(uintptr(list[3]), "kept") // closes it
	defer kept.Close()
	defer list[:3].close()
	if is, err := kept.Stat(); err != nil || !os.SameFile(was, is) {
		t.Errorf("the keeper would get %v, %v; want the lock", is, err)
	}
	if list, err := c.files(&keeper.Spec{}, -1); !errors.Is(err, os.ErrClosed) || list != nil {
		t.Errorf("%v, %v; want a closed lock to be refused", list, err)
	}
}
