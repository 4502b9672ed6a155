//go:build linux

package file_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/fence/fencefile"
)

// BenchmarkReplace compares a guarded replacement of a file of 4 KiB with a bare one that
// is as durable: written beside it, synced, renamed, and the directory synced. They are
// done in turns in one directory (TMPDIR), and the medians are compared.
func BenchmarkReplace(b *testing.B) {
	dir, content, ctx := b.TempDir(), make([]byte, 4096), context.Background()
	path := filepath.Join(dir, "guarded")
	if err := errors.Join(fencefile.Install(ctx, path), fencefile.Claim(ctx, path, 5)); err != nil {
		b.Fatal(err)
	}
	took := func(do func() error) float64 {
		start := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		return float64(time.Since(start).Nanoseconds())
	}
	guarded := func() error {
		return fencefile.Replace(ctx, path, 5, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
	}
	bare := func() error { return replaceBare(filepath.Join(dir, "bare"), content) }
	took(guarded)
	took(bare)
	var ours, theirs []float64
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			ours = append(ours, took(guarded))
			theirs = append(theirs, took(bare))
			continue
		}
		theirs = append(theirs, took(bare))
		ours = append(ours, took(guarded))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	one, other := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(one/1000, "µs-guarded")
	b.ReportMetric(other/1000, "µs-bare")
	b.ReportMetric(100*other/one, "%-of-bare")
	b.ReportMetric(0, "ns/op")
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
