package file_test

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/electd/elect/file"
)

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"b/lock", "a/lock", "notes/readme", ".hidden/lock", "lock"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, err := file.List(&url.URL{Scheme: "file", Path: dir})
	if want := []string{"a", "b"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("got %q, %v; want %q", names, err, want)
	}
	if names, err = file.List(&url.URL{Scheme: "file", Path: dir + "/notes"}); err != nil || len(names) > 0 {
		t.Errorf("a directory without elections: %q, %v", names, err)
	}
	if names, err = file.List(&url.URL{Scheme: "file", Path: dir + "/none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %q, %v; want fs.ErrNotExist", names, err)
	}
	if names, err = file.List(&url.URL{Scheme: "file", Host: "host", Path: dir}); err == nil {
		t.Errorf("a URL with a host: %q; want an error", names)
	}
}
