package fencefile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/electd/elect/fence"
)

// Mark keeps the marks of resources in a directory, a small file for each. It is a
// fence.Mark, for guards in one process at a time; that several processes of a machine
// raise marks in one directory harms none of them, but a fence.Guard has to be alone in
// front of its resource.
//
// A Raise writes and syncs a new file, renames it, and syncs the directory. A file that
// was removed counts as a resource that was never claimed: keep the directory as
// long as the resource. One that is damaged is an error ([ErrDamaged]).
type Mark struct {
	dir      string
	warnings []string
}

var _ fence.Mark = (*Mark)(nil)

// NewMark returns the marks in dir, which is made if it is absent, for this user alone.
// A dir that its group may write is for all of the group. It needs no closing.
func NewMark(dir string) (*Mark, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("fencefile: %w", err)
	}
	if err := makeDirectory(dir); err != nil {
		return nil, fmt.Errorf("fencefile: %w", err)
	}
	d, err := openDirectory(context.Background(), dir)
	if err != nil {
		return nil, err
	}
	d.close()
	return &Mark{dir: dir, warnings: d.warnings}, nil
}

// makeDirectory makes a directory and those above it, and puts their names on the disk.
func makeDirectory(path string) error {
	above := filepath.Dir(path)
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) && above != path {
		if err := makeDirectory(above); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o700)
	}
	if info, e := os.Stat(path); e == nil && info.IsDir() {
		made := err == nil
		err = syncDirectory(above) // whoever made it may have been stopped before he did
		if !made && errors.Is(err, fs.ErrPermission) {
			err = nil
		}
	}
	return err
}

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// Warnings say what is to be known of the file system of the directory, as those of
// [State] do. The slice must not be changed.
func (m *Mark) Warnings() []string { return m.warnings }

// Raise implements fence.Mark. It waits for the lock of the resource's mark as long as
// its context lasts. After any error that does not match [fence.ErrUnknownOutcome] the
// mark is as it was.
func (m *Mark) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if err := fence.CheckShown(resource, token); err != nil {
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
	from, exists, err := s.found()
	if err != nil {
		return err
	}
	return s.raise(ctx, from, token, exists)
}

// Highest implements fence.Mark. It takes no lock.
func (m *Mark) Highest(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return 0, err
	}
	s, err := m.slot(ctx, resource)
	if err != nil {
		return 0, err
	}
	defer s.close()
	token, _, err := s.found()
	return token, err
}

func (m *Mark) slot(ctx context.Context, resource fence.Resource) (slot, error) {
	d, err := openDirectory(ctx, m.dir)
	name := fileName(resource)
	return slot{directory: d, of: string(resource), mark: "mark-" + name, temp: "new-" + name, held: "lock-" + name}, err
}

// fileName is the name of a resource as part of a file's, another one for each also
// where case does not count. Small letters, digits and dashes stand for themselves, "_a"
// for A, and "=2e" for the character of that number. What would be too long for a
// file is a hash, of 64 digits after "=="; the content has the resource's own name, and
// one with another's is refused.
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
