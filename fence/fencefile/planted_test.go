//go:build linux || darwin || freebsd

package fencefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/internal/place"
)

// plants puts something at a name that leads to the target.
var plants = map[string]func(target, path string) error{
	"link":      func(target, path string) error { return os.Symlink(filepath.Base(target), path) }, // stays below, where os.Root would follow it
	"hard link": os.Link,
	"pipe":      func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
}

// shared is the guard of a file in a directory that others may write.
func shared(path string) *Guard {
	g, err := New(path, Config{SharedPlace: true})
	if err != nil {
		panic(err)
	}
	return g
}

// TestPlanted: what another user may have put at the names of marks and sidecars is
// neither followed nor waited for, and nothing of it is changed.
func TestPlanted(t *testing.T) {
	for is, plant := range plants {
		for _, name := range []string{"lock-orders", "mark-orders", "guard-orders", "file.fence", "file.fence.lock"} {
			t.Run(is+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				m, err := NewMark(dir, Config{})
				if err = errors.Join(err, m.Install(t.Context(), "orders"), guarded(dir+"/file").Install(t.Context())); err != nil {
					t.Fatal(err)
				}
				target, path := dir+"/target", dir+"/"+name
				if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) && err != nil {
					t.Fatal(err)
				}
				// A group may write the directory: so what is made there is given to it.
				if err := errors.Join(os.WriteFile(target, []byte("theirs"), 0o640), plant(target, path), os.Chmod(dir, 0o770)); err != nil {
					t.Fatal(err)
				}
				if m, err = NewMark(dir, Config{SharedPlace: true}); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(name, "file") {
					err = shared(dir+"/file").Claim(t.Context(), 5)
				} else {
					_, alone := m.Alone("orders")
					err = errors.Join(alone, m.Raise(t.Context(), "orders", 5))
				}
				if _, ok := errors.AsType[*place.Refused](err); !ok || !strings.Contains(err.Error(), path+" ") {
					t.Errorf("%v; want %s refused", err, path)
				}
				if st, err := os.Stat(target); err != nil || st.Mode().Perm() != 0o640 || st.Size() != 6 {
					t.Errorf("the target is %v, %v", st, err)
				}
			})
		}
	}
}

// TestRootAmongOthers: root keeps no marks where others can write, and guards no files
// there, unless that is said to be right.
func TestRootAmongOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, change := range []func(string) error{
		func(dir string) error { return os.Chown(dir, 65534, 65534) },
		func(dir string) error { return os.Chmod(dir, 0o770) },
		func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) },
	} {
		dir := t.TempDir()
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		_, err := NewMark(dir, Config{})
		for _, err := range []error{err, guarded(dir + "/file").Install(t.Context())} {
			if _, ok := errors.AsType[*place.Refused](err); !ok || !strings.Contains(err.Error(), "other user") && !strings.Contains(err.Error(), "user 65534") {
				t.Errorf("%v; want a refusal", err)
			}
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%v, %v; want nothing made", entries, err)
		}
		m, err := NewMark(dir, Config{SharedPlace: true})
		if err = errors.Join(err, shared(dir+"/file").Install(t.Context()), shared(dir+"/file").Claim(t.Context(), 5)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(m.Install(t.Context(), "orders"), m.Raise(t.Context(), "orders", 5)); err != nil {
			t.Error(err)
		}
	}
}
