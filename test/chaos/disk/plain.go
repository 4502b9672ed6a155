//go:build linux

package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// plain is a directory of the machine's own disk.
type plain struct {
	path      string
	snapshots string // a directory
}

// NewPlain makes a disk that is a directory in dir, which is made if it is absent. It has no
// faults.
func NewPlain(dir string) (Disk, error) {
	d, err := newPlain(dir, "disk")
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newPlain(dir, name string) (*plain, error) {
	path, err := place(dir, name)
	if err != nil {
		return nil, err
	}
	return &plain{path, filepath.Join(filepath.Dir(path), "snapshots")}, nil
}

func (d *plain) Path() string { return d.path }

func (d *plain) Can(f Fault) error {
	if f != (Fault{}) {
		return fmt.Errorf("%w: a plain directory has no faults", ErrUnable)
	}
	return nil
}

func (d *plain) Fault(f Fault) error { return d.Can(f) }

func (d *plain) Snapshot(name string) error {
	to := filepath.Join(d.snapshots, name)
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o700)); err != nil {
		return err
	}
	return copyTree(d.path, to)
}

func (d *plain) Restore(name string) error {
	from := filepath.Join(d.snapshots, name)
	if _, err := os.Stat(from); err != nil {
		return err
	}
	if err := d.Wipe(); err != nil {
		return err
	}
	return copyTree(from, d.path)
}

func (d *plain) Wipe() error {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(d.path, e.Name())))
	}
	return err
}

func (d *plain) PowerLoss() error {
	return fmt.Errorf("%w: what was not synced is not known of a plain directory", ErrUnable)
}

func (d *plain) Close() error { return os.RemoveAll(d.snapshots) }
