package fencefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/electd/elect/internal/place"
)

// directory is a directory that is open for one call.
type directory struct {
	dir      *place.Dir
	path     string
	warnings []string // about the file system
	before   func(string) error
	mode     fs.FileMode // of new files that all users of the directory need
	group    int         // of new files; -1 leaves the kernel's choice
}

// openDirectory opens a directory. It refuses one that is not local.
func openDirectory(ctx context.Context, at place.At) (*directory, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	path := at.Path
	d := &directory{path: path, before: place.TraceOf(ctx), mode: 0o600, group: -1}
	err := d.do("open", ".", func() (err error) {
		d.dir, err = at.Open()
		return err
	})
	if err == nil {
		d.warnings, err = fileSystem(path)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	if info := d.dir.Info(); info.Mode&0o020 != 0 {
		d.mode, d.group = 0o660, info.GID
	}
	return d, nil
}

func (d *directory) close() {
	if d.dir != nil {
		_ = d.dir.Close() // nothing was written through it
	}
}

// do announces an operation and runs it. Its error names the operation and, if known, what would be right.
func (d *directory) do(operation, name string, f func() error) error {
	err := d.before(operation + " " + name)
	if err == nil {
		err = f()
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*place.Refused](err); ok {
		return fmt.Errorf("fencefile: %w", err) // that error says where, and what would be right
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the error below names the whole path
	}
	return fmt.Errorf("fencefile: %s %s: %w%s", operation, filepath.Join(d.path, name), err, d.wanted(operation, err))
}

// wanted is what would be right after an operation has failed.
func (d *directory) wanted(operation string, err error) string {
	switch {
	case full(err):
		return "; want room for the new content beside the old"
	case !errors.Is(err, fs.ErrPermission):
		return ""
	}
	switch operation {
	case "create", "rename", "remove":
		return fmt.Sprintf("; want the right to make and remove files in %s, for a file is replaced by another one", d.path)
	case "chmod":
		return "; want the right to give the new file the owner and the mode of the old one"
	case "open", "lock", "read":
		return "; want the user who made it, or a directory that a group of both may write when it is made"
	}
	return ""
}

// The intervals at which the lock is tried.
const (
	shortest = time.Millisecond
	longest  = 25 * time.Millisecond
)

// lock waits for the lock of a file, which it may create. The lock is held until release is called, or the process
// ends.
func (d *directory) lock(ctx context.Context, name string, create bool) (release func(), err error) {
	for wait := shortest; ; wait = min(2*wait, longest) {
		f, err := d.tryLock(name, create)
		switch {
		case err != nil:
			return nil, err
		case f != nil:
			return func() {
				_ = d.before("unlock " + name) // the lock is released in any case
				_ = f.Close()
			}, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("fencefile: waiting for %s: %w", filepath.Join(d.path, name), context.Cause(ctx))
		}
	}
}

// tryLock returns nil if another process has the lock.
func (d *directory) tryLock(name string, create bool) (*os.File, error) {
	var f *os.File
	err := d.do("open", name, func() (err error) {
		if !create {
			f, err = d.dir.Open(name, os.O_RDWR)
			return err
		}
		var made bool
		if f, made, err = d.dir.OpenOrCreate(name, os.O_RDWR, 0o600); made {
			d.share(f)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var held bool
	err = d.do("lock", name, func() (err error) {
		held, err = flock(f)
		return err
	})
	if err == nil && held {
		// Uninstall may have removed the file meanwhile: then its lock excludes no other process.
		var ours, theirs place.Info
		if ours, err = place.Stat(f); err == nil {
			theirs, err = d.dir.Lstat(name)
		}
		held = err == nil && ours.Same(theirs)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil || !held {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// share makes a new file usable for all users who may write the directory. If that fails, those users get an error
// that says so.
func (d *directory) share(f *os.File) {
	if d.group >= 0 {
		_ = f.Chown(-1, d.group)
		_ = f.Chmod(d.mode)
	}
}

// read returns the content of a small file, at most one byte more than the longest mark.
func (d *directory) read(name string) (b []byte, err error) {
	err = d.do("read", name, func() error {
		f, err := d.dir.Open(name, os.O_RDONLY)
		if err != nil {
			return err
		}
		b, err = io.ReadAll(io.LimitReader(f, maxRecord+1))
		return errors.Join(err, f.Close())
	})
	return b, err
}

// create makes a file that must not exist.
func (d *directory) create(name string, perm fs.FileMode) (f *os.File, err error) {
	err = d.do("create", name, func() (err error) {
		f, err = d.dir.Create(name, os.O_WRONLY, perm)
		return err
	})
	return f, err
}

// finish syncs a file and closes it. If that fails, or err is set, it removes the file.
func (d *directory) finish(f *os.File, name string, err error) error {
	if err == nil {
		err = d.do("sync", name, f.Sync)
	}
	if e := d.do("close", name, f.Close); err == nil {
		err = e
	}
	if err != nil {
		_ = f.Close()
		_ = d.remove(name) // if this fails a later writer removes it
	}
	return err
}

func (d *directory) remove(name string) error {
	return d.do("remove", name, func() error {
		if err := d.dir.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func (d *directory) rename(from, to string) error {
	return d.do("rename", to, func() error { return d.dir.Rename(from, to) })
}

// sync makes the names in the directory durable.
func (d *directory) sync() error {
	return d.do("sync", ".", d.dir.Sync)
}
