//go:build linux || darwin || freebsd

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/localfs"
)

var _ interface {
	driver.Examiner
	driver.Prober
} = (*Elector)(nil)

// there is the election's directory, or the nearest one above it that exists.
func (e *Elector) there() string {
	for at := e.path; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return at
		}
	}
}

// Examine implements driver.Examiner. It makes nothing.
func (e *Elector) Examine(context.Context) ([]driver.Finding, error) {
	at := e.there()
	on, err := localfs.Of(at)
	if err != nil {
		return nil, explain("statfs", at, err)
	}
	kind := driver.Finding{What: "file system", Value: "local", Means: "all candidates of this machine see a lock there, and the token counter outlives a loss of power"}
	if err := refuse(at, on); err != nil {
		kind.Value, kind.Wrong, kind.Means = on.Name, true, err.Error()
	} else if on.Kind == localfs.Memory {
		kind.Value, kind.Means = "in memory", "tokens start again at 1 after a reboot: raise era then, or choose a directory on a disk"
	}
	place := driver.Finding{What: "directory", Value: at, Means: "the election is here"}
	if at != e.path {
		place.Means = "the first candidate makes " + e.path
	}
	if err := unix.Access(at, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		place.Wrong, place.Means = true, explain("access", at, err).Error()
	}
	found := []driver.Finding{kind, place}
	for _, path := range []string{e.path, filepath.Join(e.path, lockName)} {
		if st, err := os.Stat(path); err == nil && st.Mode()&0o007 != 0 {
			found = append(found, driver.Finding{
				What: "mode", Value: fmt.Sprintf("%04o", st.Mode().Perm()), Wrong: true, Means: "every user can block the election, or replace its lock; want no rights for others on " + path,
			})
		}
	}
	r := newReader(e.path, slog.New(slog.DiscardHandler))
	defer r.close()
	for range foreignAfter { // so many looks tell who holds the lock without leading
		r.look()
	}
	lock := driver.Finding{What: "lock", Value: "free", Means: "nobody leads"}
	switch s := r.state; {
	case s.Leader != nil:
		lock.Value, lock.Means = "held", s.Leader.ID+" leads"
	case s.Cause != nil:
		lock.Value, lock.Wrong, lock.Means = "held", true, s.Cause.Error()
	}
	return append(found, lock), nil
}

// Probe implements driver.Prober: it looks for the leader, and writes and syncs, as the token counter is, a file that it
// removes.
func (e *Elector) Probe(ctx context.Context) (p driver.Probe, err error) {
	f, err := os.CreateTemp(e.there(), ".elect-doctor-*")
	if err != nil {
		p.Unwritten = err.Error()
	} else {
		defer os.Remove(f.Name())
		defer f.Close()
	}
	for range 20 {
		if ctx.Err() != nil {
			return p, context.Cause(ctx)
		}
		begun := time.Now()
		r := newReader(e.path, slog.New(slog.DiscardHandler))
		r.look()
		r.close()
		p.Reads = append(p.Reads, time.Since(begun))
		if f == nil {
			continue
		}
		begun = time.Now()
		if _, err = f.WriteAt([]byte("0000000000000000000\n"), 0); err == nil {
			err = f.Sync()
		}
		if err != nil {
			p.Writes, p.Unwritten = nil, err.Error()
			return p, nil
		}
		p.Writes = append(p.Writes, time.Since(begun))
	}
	return p, nil
}
