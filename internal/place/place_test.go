//go:build linux || darwin || freebsd

package place

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func do(t *testing.T, all ...error) {
	t.Helper()
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

func made(t *testing.T, a At) *Dir {
	t.Helper()
	d, err := a.Make()
	do(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func isRefused(err error, want string) bool {
	refused, ok := errors.AsType[*Refused](err)
	return ok && errors.Is(err, fs.ErrPermission) && strings.Contains(refused.Error(), want)
}

func TestMake(t *testing.T) {
	dir := t.TempDir()
	at := At{Path: dir + "/a/b", Below: []string{"c", "d"}}
	if _, err := at.Open(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened: %v; want fs.ErrNotExist", err)
	}
	if d := made(t, at); d.Path() != at.String() {
		t.Errorf("%s; want %s", d.Path(), at)
	}
	for path := at.String(); path != dir; path = filepath.Dir(path) {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v; want mode 0700", path, st, err)
		}
	}
	// What exists stays as it is.
	do(t, os.Chmod(dir+"/a/b/c", 0o755|os.ModeSticky), os.Chmod(dir+"/a/b/c/d", 0o711))
	at.Group = true
	if d := made(t, at); d.Info().Mode.Perm() != 0o711 {
		t.Errorf("mode %v; want 0711", d.Info().Mode)
	}
	if st, err := os.Stat(dir + "/a/b/c"); err != nil || st.Mode() != 0o755|os.ModeSticky|os.ModeDir {
		t.Errorf("%v, %v; want mode 1755", st, err)
	}
}

func TestGroup(t *testing.T) {
	for _, c := range []struct{ above, want os.FileMode }{{0o700, 0o700}, {0o770, 0o770}, {0o777, 0o700}} {
		dir := t.TempDir()
		do(t, os.Chmod(dir, c.above))
		d := made(t, At{Path: dir + "/a", Shared: true, Group: true})
		if got := d.Info().Mode.Perm(); got != c.want {
			t.Errorf("below %v: mode %v; want %v", c.above, got, c.want)
		}
	}
}

// TestGiveTouchesOnlyWhatIsNew: a directory that another user has put in the place of
// the one that was made has something in it, or changes nothing for anybody.
func TestGiveTouchesOnlyWhatIsNew(t *testing.T) {
	dir := t.TempDir()
	do(t, os.Chmod(dir, 0o770), os.Mkdir(dir+"/old", 0o755), os.WriteFile(dir+"/old/file", nil, 0o600))
	above, err := os.Open(dir)
	do(t, err)
	defer above.Close()
	give(int(above.Fd()), "old")
	if st, err := os.Stat(dir + "/old"); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v; want mode 0755", st, err)
	}
}

func TestNoDirectory(t *testing.T) {
	dir := t.TempDir()
	do(t, os.WriteFile(dir+"/file", nil, 0o600), os.Symlink("nowhere", dir+"/link"), os.Mkdir(dir+"/real", 0o700), os.Symlink("real", dir+"/good"))
	for _, at := range []At{{Path: dir + "/file"}, {Path: dir + "/file/below"}, {Path: dir, Below: []string{"file"}}} {
		if _, err := at.Make(); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s: %v; want ENOTDIR", at, err)
		}
	}
	for _, at := range []At{{Path: dir, Below: []string{"link"}}, {Path: dir, Below: []string{"good"}}} {
		for _, at.Shared = range []bool{false, true} {
			if _, err := at.Make(); !isRefused(err, "is a link") {
				t.Errorf("%s: %v; want that it is a link", at, err)
			}
		}
	}
	for _, name := range []string{".", "..", "../real"} {
		if _, err := (At{Path: dir + "/real", Below: []string{name}}).Make(); !isRefused(err, "want one below it") {
			t.Errorf("%s: %v; want a refusal", name, err)
		}
	}
	// A link that leads nowhere may lead to a disk that is not there.
	for _, shared := range []bool{false, true} {
		if _, err := (At{Path: dir + "/link", Shared: shared}).Make(); err == nil {
			t.Error("a link that leads nowhere was made to lead somewhere")
		}
	}
	if _, err := os.Stat(dir + "/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v; want that nothing was made", err)
	}
	do(t, os.Symlink("loop", dir+"/loop"))
	if _, err := (At{Path: dir + "/loop"}).Make(); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v; want ELOOP", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	d := made(t, At{Path: dir})
	f, isNew, err := d.OpenOrCreate("a", os.O_RDWR, 0o600)
	do(t, err)
	_, err = io.WriteString(f, "text")
	do(t, err, f.Close())
	if !isNew {
		t.Error("a file that was not there was not new")
	}
	f, isNew, err = d.OpenOrCreate("a", os.O_RDWR, 0o600)
	do(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	if string(b) != "text" || isNew || err != nil {
		t.Errorf("%q, %v, %v; want what was written", b, isNew, err)
	}
	if _, err := d.Create("a", os.O_WRONLY, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v; want fs.ErrExist", err)
	}
	other, err := d.Replace("a", os.O_WRONLY, 0o600)
	do(t, err)
	defer other.Close()
	now, err := d.Lstat("a")
	do(t, err)
	of, err := Stat(other)
	do(t, err)
	if before, err := Stat(f); err != nil || !now.Same(of) || now.Same(before) || before.Links != 0 {
		t.Errorf("%+v, %v; want another file", before, err)
	}
	do(t, d.Rename("a", "b"), d.Sync())
	for range 2 {
		if names, err := d.Names(); err != nil || !slices.Equal(names, []string{"b"}) {
			t.Errorf("%q, %v; want b", names, err)
		}
	}
	do(t, d.Remove("b"))
	if _, err := d.Open("b", os.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v; want fs.ErrNotExist", err)
	}
}

// TestPlanted: what is at the name of a file is opened only if it is one.
func TestPlanted(t *testing.T) {
	dir := t.TempDir()
	d := made(t, At{Path: dir})
	do(t, os.WriteFile(dir+"/file", nil, 0o600), os.Symlink("file", dir+"/link"), os.Symlink("nothing", dir+"/dangling"),
		unix.Mkfifo(dir+"/pipe", 0o600), os.WriteFile(dir+"/two", nil, 0o600), os.Link(dir+"/two", dir+"/names"), os.Mkdir(dir+"/dir", 0o700))
	for name, want := range map[string]string{"link": "is a link", "dangling": "is a link", "pipe": "is not a regular file", "names": "has 2 names"} {
		for _, flags := range []int{os.O_RDONLY, os.O_RDWR} {
			if _, err := d.Open(name, flags); !isRefused(err, want) {
				t.Errorf("%s: %v; want a refusal with %q", name, err, want)
			}
			if _, _, err := d.OpenOrCreate(name, flags, 0o600); !isRefused(err, want) {
				t.Errorf("%s: %v; want a refusal with %q", name, err, want)
			}
		}
	}
	if _, err := d.Open("dir", os.O_RDONLY); !isRefused(err, "is not a regular file") {
		t.Errorf("a directory: %v; want a refusal", err)
	}
	if _, err := os.Lstat(dir + "/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v; want that nothing was made", err)
	}
}

// TestOwners: whose files may be used, by whose the directory is.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const other, third = 65534, 11111
	for _, c := range []struct {
		dir  int // its owner
		mode os.FileMode
		file int
		ok   bool
	}{
		{0, 0o700, 0, true}, {0, 0o700, other, false},
		{other, 0o700, other, true}, {other, 0o700, 0, true}, {other, 0o700, third, false},
		{0, 0o770, other, true}, {0, 0o770 | os.ModeSetgid, other, true},
		{0, 0o777, other, false}, {0, 0o777 | os.ModeSticky, other, false}, {0, 0o777 | os.ModeSticky, 0, true},
	} {
		dir := t.TempDir()
		do(t, os.WriteFile(dir+"/file", nil, 0o666), os.Chown(dir+"/file", c.file, c.file), os.Chown(dir, c.dir, c.dir), os.Chmod(dir, c.mode))
		f, err := made(t, At{Path: dir, Shared: true}).Open("file", os.O_RDWR)
		if err == nil {
			_ = f.Close()
		}
		if c.ok != (err == nil) || err != nil && !isRefused(err, "belongs to user") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestExchangedAfterOpening: a directory is what was opened, whatever has its name.
func TestExchangedAfterOpening(t *testing.T) {
	dir, target := t.TempDir(), t.TempDir()
	d := made(t, At{Path: dir, Below: []string{"jobs"}})
	do(t, os.Rename(dir+"/jobs", dir+"/old"), os.Symlink(target, dir+"/jobs"))
	f, err := d.Create("file", os.O_WRONLY, 0o600)
	do(t, err)
	do(t, f.Close())
	if _, err := os.Lstat(dir + "/old/file"); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(target); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v; want nothing where the link leads", entries, err)
	}
}

// TestExchangedWhileOpening: another process exchanges the directory and a link all
// the time. The link is never followed.
func TestExchangedWhileOpening(t *testing.T) {
	dir, target := t.TempDir(), t.TempDir()
	do(t, os.Mkdir(dir+"/jobs", 0o700), os.Symlink(target, dir+"/link"))
	var end atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !end.Load() {
			_ = errors.Join(os.Rename(dir+"/jobs", dir+"/old"), os.Rename(dir+"/link", dir+"/jobs"),
				os.Rename(dir+"/jobs", dir+"/link"), os.Rename(dir+"/old", dir+"/jobs"))
		}
	}()
	var opened, links int
	for range 3000 {
		d, err := At{Path: dir, Below: []string{"jobs"}}.Open()
		switch {
		case err == nil:
			opened++
			f, err := d.Replace("file", os.O_WRONLY, 0o600)
			do(t, err, f.Close(), d.Close())
		case isRefused(err, "is a link"):
			links++
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
			t.Fatal(err)
		}
	}
	end.Store(true)
	<-ended
	if entries, err := os.ReadDir(target); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v; want nothing where the link leads", entries, err)
	}
	t.Logf("it was a directory %d times, and a link %d times", opened, links)
}

// TestRelative: a path that is not absolute begins at the working directory.
func TestRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("a/b", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a", "./a", "a/b", "a/b/..", "."} {
		want, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		d, err := At{Path: path}.Open()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got, err := d.File().Stat(); err != nil || !os.SameFile(got, want) {
			t.Errorf("%s is another directory: %v, %v", path, got, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
