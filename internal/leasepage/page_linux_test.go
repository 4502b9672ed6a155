package leasepage

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/electd/elect/internal/localfs"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPage(t *testing.T) {
	w, err := Create(State{Token: 1<<63 - 1, Until: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Remove()
	other, err := Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	w.Prove(6)
	other.Prove(7)
	b := read(t, w.Path())
	if got := binary.LittleEndian.Uint64(b[Token:]); got != 1<<63-1 {
		t.Errorf("token %d", got)
	}
	if got := binary.LittleEndian.Uint64(b[Until:]); got != 7 {
		t.Errorf("until %d; want 7", got)
	}
	if got := binary.LittleEndian.Uint64(b[Sequence:]); got != 4 {
		t.Errorf("sequence %d after two changes; want 4", got)
	}
	info, err := os.Stat(w.Path())
	if err != nil || info.Mode() != 0o644 || info.Size() != Size {
		t.Errorf("%v, %v; want a file that all can read", info, err)
	}

	reader, err := os.Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	w.Remove()
	if _, err := reader.ReadAt(b, 0); err != nil || binary.LittleEndian.Uint64(b[Until:]) != 0 {
		t.Errorf("a removed page says %v, %v; want 0", b[Until:Until+8], err)
	}
	w.Remove()
	other.Remove()
	var none *Writer
	none.Prove(1)
	none.Close()
	none.Remove()
}

// TestDeadWriters: Tidy removes the pages whose writers are dead, and no other.
func TestDeadWriters(t *testing.T) {
	var pages [2]*Writer
	for i := range pages {
		var err error
		if pages[i], err = Create(State{Token: 1, Until: 1 << 62}); err != nil {
			t.Fatal(err)
		}
	}
	dead, err := os.Open(pages[0].Path())
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	pages[0].Close() // as the kernel does
	Tidy()
	defer pages[1].Remove()
	if _, err := os.Stat(pages[0].Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the page of a dead writer: %v; want it gone", err)
	}
	b := make([]byte, Size)
	if _, err := dead.ReadAt(b, 0); err != nil || binary.LittleEndian.Uint64(b[Until:]) != 0 {
		t.Errorf("a reader of it sees %v, %v; want 0", b[Until:Until+8], err)
	}
	read(t, pages[1].Path())
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	refused := map[string]func(path string) error{
		"a file":                   func(path string) error { return os.WriteFile(path, nil, 0o700) },
		"a link":                   func(path string) error { return os.Symlink(dir, path) },
		"a directory for everyone": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777)) },
	}
	if system, err := localfs.Of(dir); err != nil || system.Kind != localfs.Memory {
		refused["a directory on a disk"] = func(path string) error { return os.Mkdir(path, 0o700) }
	}
	for name, put := range refused {
		path := filepath.Join(dir, name)
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		if err := makeDir(path); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for _, text := range []string{"", "electpg1", "electpg2" + string(make([]byte, 56))} {
		path := filepath.Join(dir, "page")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil {
			t.Errorf("%q was taken for a page", text)
		}
	}
}
