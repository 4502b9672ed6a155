package fencefile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/place"
)

// Mark keeps the marks of resources in a directory, a small file for each. It is a fence.Mark, for guards in one
// process at a time. Several processes of a machine may raise marks in one directory, but a fence.Guard must be the
// only one of its resource: [Mark.Alone] ensures that.
//
// A resource is installed once ([Mark.Install]). A Raise writes and syncs a new file, renames it, and syncs the
// directory. A missing file is an error (fence.ErrResource), and does not mean that the resource was never claimed: a
// directory that was removed, or restored from an old backup, must not let an older leader pass. A damaged file is an
// error too ([ErrDamaged]).
type Mark struct {
	at       place.At
	dir      string // the path of at
	warnings []string

	mu    sync.Mutex
	alone map[*os.File]struct{} // the files of Alone: without a reference a file would be closed, and its lock lost
}

var _ fence.Mark = (*Mark)(nil)

// NewMark returns the marks in dir. It makes dir if it is absent, for this user alone. A dir that its group may write
// is shared by the group. It need not be closed.
func NewMark(dir string, cfg Config) (*Mark, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("fencefile: %w", err)
	}
	at := place.At{Path: dir, Shared: cfg.SharedPlace}
	made, err := at.Make()
	if err == nil {
		err = errors.Join(syncDirectory(filepath.Dir(dir)), made.Close()) // a process that was stopped may have made it
	}
	if err != nil {
		return nil, fmt.Errorf("fencefile: %w", err)
	}
	d, err := openDirectory(context.Background(), at)
	if err != nil {
		return nil, err
	}
	d.close()
	return &Mark{at: at, dir: dir, warnings: d.warnings}, nil
}

// syncDirectory makes the names in a directory durable, if it may be read.
func syncDirectory(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// Warnings are warnings about the file system of the directory, as in [State]. The slice must not be changed.
func (m *Mark) Warnings() []string { return m.warnings }

// Install installs a resource, so that it can be claimed. Its mark is 0. If the resource is already installed, its
// mark stays. Errors are those of [Mark.Raise].
func (m *Mark) Install(ctx context.Context, resource fence.Resource) error {
	return m.locked(ctx, resource, func(s slot) error {
		from, exists, err := s.found()
		if err != nil {
			return err
		}
		return s.raise(ctx, from, from, exists)
	})
}

// Uninstall removes a resource and its mark, which no guard may use any more. It fails while a guard has it by
// [Mark.Alone]. From then on the resource is refused with fence.ErrResource. After another installation every token
// passes. Uninstalling an absent resource succeeds.
func (m *Mark) Uninstall(ctx context.Context, resource fence.Resource) error {
	release, err := m.Alone(resource)
	if err != nil {
		return err
	}
	defer func() { _ = release() }()
	return m.locked(ctx, resource, func(s slot) error {
		for _, name := range []string{s.temp, s.mark, guardName(resource), s.held} {
			if err := s.remove(name); err != nil {
				return err
			}
		}
		if err := s.sync(); err != nil {
			return fmt.Errorf("%w: the mark may come back: %w", fence.ErrUnknownOutcome, err)
		}
		return nil
	})
}

// Raise implements fence.Mark. It waits for the lock of the resource's mark as long as
// its context lasts. A resource that is not installed, or whose mark was lost, is refused with
// fence.ErrResource. After any error that does not match [fence.ErrUnknownOutcome] the
// mark is as it was.
func (m *Mark) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if err := fence.CheckShown(resource, token); err != nil {
		return err
	}
	return m.locked(ctx, resource, func(s slot) error {
		from, err := m.mark(s, resource)
		if err != nil {
			return err
		}
		return s.raise(ctx, from, token, true)
	})
}

// Highest implements fence.Mark. It takes no lock. A resource that is not installed, or whose
// mark was lost, is refused with fence.ErrResource.
func (m *Mark) Highest(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return 0, err
	}
	s, err := m.slot(ctx, resource)
	if err != nil {
		return 0, err
	}
	defer s.close()
	return m.mark(s, resource)
}

// locked runs do under the lock of a resource's mark.
func (m *Mark) locked(ctx context.Context, resource fence.Resource, do func(slot) error) error {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return err
	}
	s, err := m.slot(ctx, resource)
	if err != nil {
		return err
	}
	defer s.close()
	release, err := s.lock(ctx, s.held, true)
	if err != nil {
		return err
	}
	defer release()
	return do(s)
}

// mark returns a mark, and fence.ErrResource if there is none.
func (m *Mark) mark(s slot, resource fence.Resource) (fence.Token, error) {
	highest, exists, err := s.found()
	if err == nil && !exists {
		err = fmt.Errorf("%w: %s has no mark in %s: it was not installed, or the mark was lost; when no earlier leader is left, install it (elect fence install --at file:%s %s)",
			fence.ErrResource, resource, m.dir, m.dir, resource)
	}
	return highest, err
}

func (m *Mark) slot(ctx context.Context, resource fence.Resource) (slot, error) {
	d, err := openDirectory(ctx, m.at)
	name := fileName(resource)
	return slot{directory: d, of: string(resource), mark: "mark-" + name, temp: "new-" + name, held: "lock-" + name}, err
}

// fileName encodes the name of a resource as part of a file name, differently for each resource even if the file
// system ignores case. Small letters, digits and dashes stand for themselves, "_a" for A, and "=2e" for the character
// of that number. A name that would be too long is replaced by a hash, of 64 digits after "==". The content has the
// resource's own name, and a file with another name in it is refused.
func fileName(resource fence.Resource) string {
	var b []byte
	for _, c := range []byte(resource) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			b = append(b, c)
		case c >= 'A' && c <= 'Z':
			b = append(b, '_', c-'A'+'a')
		default:
			b = fmt.Appendf(b, "=%02x", c)
		}
	}
	if len(b) > 200 {
		return fmt.Sprintf("==%x", sha256.Sum256([]byte(resource)))
	}
	return string(b)
}
