//go:build linux

package file_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/electd/elect/fence/fencefile"
	"github.com/electd/elect/test/fencing/compare"
)

// BenchmarkReplace compares a guarded replacement of a file of 4 KiB with a bare one that
// is as durable: written beside it, synced, renamed, and the directory synced, in one
// directory (TMPDIR).
func BenchmarkReplace(b *testing.B) {
	dir, content, ctx := b.TempDir(), make([]byte, 4096), context.Background()
	path := filepath.Join(dir, "guarded")
	guard, err := fencefile.New(path, fencefile.Config{})
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(guard.Install(ctx), guard.Claim(ctx, 5)); err != nil {
		b.Fatal(err)
	}
	guarded := func() error {
		return guard.Write(ctx, 5, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
	}
	bare := func() error { return replaceBare(filepath.Join(dir, "bare"), content) }
	compare.Guarded(b, 1, bare, guarded)
}

func replaceBare(path string, content []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
