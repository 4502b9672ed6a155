//go:build linux || darwin || freebsd

package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/place"
)

func do(t *testing.T, all ...error) {
	t.Helper()
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

// bystander is a file that an attack is to reach. It fails the test if it has changed.
func bystander(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bystander")
	do(t, os.WriteFile(path, []byte("theirs"), 0o644))
	t.Cleanup(func() {
		st, err := os.Stat(path)
		do(t, err)
		if text, err := os.ReadFile(path); err != nil || string(text) != "theirs" || st.Mode().Perm() != 0o644 {
			t.Errorf("the bystander has %q, %v, and mode %v", text, err, st.Mode())
		}
	})
	return path
}

// TestPlanted: what another user may have put at the names of a data directory.
func TestPlanted(t *testing.T) {
	for is, plant := range map[string]func(target, path string) error{
		"link": os.Symlink, "hard link": os.Link, "pipe": func(_, path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		for _, name := range []string{lockName, identityName, ballotName, pinsName, pausedName, voidName, historyName, olderName} {
			t.Run(is+" "+name, func(t *testing.T) {
				path, target := t.TempDir(), bystander(t)
				d, err := Open(t.Context(), at(path), owner)
				do(t, err, d.Save([]byte("a vote")), d.Close())
				if err := os.Remove(filepath.Join(path, name)); !errors.Is(err, fs.ErrNotExist) {
					do(t, err)
				}
				do(t, plant(target, filepath.Join(path, name)))
				d, err = Open(t.Context(), at(path), owner)
				if err == nil { // it is opened later
					defer d.Close()
					switch name {
					case pausedName:
						_, err = d.Pause()
					default:
						_, err = d.History()
					}
				}
				if _, ok := errors.AsType[*place.Refused](err); !ok || !strings.Contains(err.Error(), "/"+name+" ") {
					t.Errorf("%v; want %s refused", err, name)
				}
			})
		}
		// What is left of an earlier process is replaced.
		for _, name := range []string{identityName + temporary, pinsName + temporary, pausedName + temporary} {
			t.Run(is+" "+name, func(t *testing.T) {
				path, target := t.TempDir(), bystander(t)
				do(t, plant(target, filepath.Join(path, name)))
				d := mustOpen(t, path)
				do(t, d.SetPause(Pause{Paused: true}))
				if p, err := d.Pause(); err != nil || !p.Paused {
					t.Errorf("%+v, %v; want it paused", p, err)
				}
			})
		}
	}
}

// TestLinkOnTheWay: neither the directory of the election nor that of the node may be
// a link.
func TestLinkOnTheWay(t *testing.T) {
	for _, below := range []string{"e", "e/n1"} {
		base, target := t.TempDir(), t.TempDir()
		link := filepath.Join(base, below)
		do(t, os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(target, link))
		for _, shared := range []bool{false, true} {
			_, err := Open(t.Context(), place.At{Path: base, Below: []string{"e", "n1"}, Shared: shared}, owner)
			if refused, ok := errors.AsType[*place.Refused](err); !ok || refused.Path != link || !strings.Contains(refused.Says, "is a link") {
				t.Errorf("%v; want that %s is a link", err, link)
			}
		}
		if entries, err := os.ReadDir(target); err != nil || len(entries) > 0 {
			t.Errorf("%v, %v; want nothing where the link leads", entries, err)
		}
	}
}

// TestRootAmongOthers: root keeps no data where others can write, unless that is said
// to be right.
func TestRootAmongOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	base := t.TempDir()
	do(t, os.Chown(base, 65534, 65534))
	data := place.At{Path: base, Below: []string{"e", "n1"}}
	if _, err := Open(t.Context(), data, owner); err == nil || !strings.Contains(err.Error(), base+" belongs to user 65534") {
		t.Errorf("%v; want that it belongs to another user", err)
	}
	if entries, err := os.ReadDir(base); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v; want nothing made", entries, err)
	}
	data.Shared = true
	d, err := Open(t.Context(), data, owner)
	do(t, err, d.Save([]byte("a vote")), d.Close())
	for _, path := range []string{base + "/e", base + "/e/n1"} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v; want mode 0700", st, err)
		}
	}
}
