package fencefile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/place"
)

// State is the content of a file's sidecar.
type State struct {
	// Highest is the mark, 0 before the first claim.
	Highest fence.Token

	// Warnings are warnings about the file system, a sentence each: that it may be on another machine, or is in memory.
	// There are none for a local disk.
	Warnings []string
}

// Config configures a [Guard] or a [Mark]. The zero value of each field is its documented default.
type Config struct {
	// SharedPlace allows a process of root to work in a directory that other users can write to or replace. Without it,
	// such a directory is refused: another user could choose what root reads and writes there. It has no effect for
	// users other than root.
	SharedPlace bool
}

// Guard guards one file, by the mark in its sidecar.
type Guard struct {
	base string   // the name of the file
	at   place.At // its directory
}

// New returns the guard of a file. It does not touch the file system. It need not be closed.
func New(path string, cfg Config) (*Guard, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("fencefile: %w", err)
	}
	base := filepath.Base(abs)
	if base == string(filepath.Separator) || strings.HasSuffix(path, string(filepath.Separator)) || strings.HasSuffix(base, sidecar) {
		return nil, fmt.Errorf("fencefile: %w: %q; want the path of a file that is no sidecar", fence.ErrResource, path)
	}
	return &Guard{base: base, at: place.At{Path: filepath.Dir(abs), Shared: cfg.SharedPlace}}, nil
}

// Install makes the sidecar of the file. The file need not exist yet; its directory must. An existing sidecar stays
// as it is.
func (g *Guard) Install(ctx context.Context) error {
	t, err := g.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	release, err := t.lock(ctx, t.held, true)
	if err != nil {
		return err
	}
	defer release()
	from, exists, err := t.found()
	if err != nil {
		return err
	}
	return t.raise(ctx, from, from, exists)
}

// Uninstall removes the sidecar of the file, and with it the memory of its tokens: after another installation every
// token passes.
func (g *Guard) Uninstall(ctx context.Context) error {
	t, err := g.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	release, err := t.lock(ctx, t.held, false)
	if err != nil {
		return t.unguarded(err)
	}
	defer release()
	t.sweep(fence.MaxToken)
	for _, name := range []string{t.temp, t.mark, t.held} {
		if err := t.remove(name); err != nil {
			return err
		}
	}
	if err := t.sync(); err != nil {
		return fmt.Errorf("%w: the sidecar may come back: %w", fence.ErrUnknownOutcome, err)
	}
	return nil
}

// Claim raises the mark to token, and makes durable what it finds. A new leader calls it before it reads the file. If
// the mark is greater the error is a fence.StaleError; that for a file without a sidecar matches fence.ErrResource.
// It waits for a [Guard.Write] that is about to rename, as long as ctx lasts. After any error that does not match
// [fence.ErrUnknownOutcome] the mark is as it was.
func (g *Guard) Claim(ctx context.Context, token fence.Token) error {
	t, err := g.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.check(token); err != nil {
		return err
	}
	release, err := t.lock(ctx, t.held, false)
	if err != nil {
		return t.unguarded(err)
	}
	defer release()
	from, err := t.highest()
	if err != nil {
		return t.unguarded(err)
	}
	if err := t.raise(ctx, from, token, true); err != nil {
		return err
	}
	t.sweep(token - 1)
	return nil
}

// Status reads the mark. A file without a sidecar matches fence.ErrResource. It
// takes no lock.
func (g *Guard) Status(ctx context.Context) (State, error) {
	t, err := g.open(ctx)
	if err != nil {
		return State{}, err
	}
	defer t.close()
	token, err := t.highest()
	if err != nil {
		return State{}, t.unguarded(err)
	}
	return State{Highest: token, Warnings: t.warnings}, nil
}

// Write replaces the content of the file, as a whole, with what write writes, unless its mark is above the token; it
// first raises a mark below the token. Success means that all of it is on the disk. If the mark is greater the error
// is a fence.StaleError; that for a file without a sidecar matches fence.ErrResource. An error of write is returned
// unchanged. After an error that does not match [fence.ErrUnknownOutcome] the file is as it was.
//
// write is called once, in this goroutine, without the lock, so that a slow one delays no other caller; its content
// may be refused. Its writer is a file and is not buffered. Mode and owner of the file are kept, and it is an error
// if that fails; a new file has mode 0666 less the umask. A path that ends in a link, or is no regular file, is
// refused.
func (g *Guard) Write(ctx context.Context, token fence.Token, write func(io.Writer) error) error {
	t, err := g.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.check(token); err != nil {
		return err
	}
	from, err := t.highest()
	if err != nil {
		return t.unguarded(err)
	}
	if token < from {
		return &fence.StaleError{Shown: token, Highest: from}
	}
	name := t.content(token) + rand.Text()
	if err := t.write(name, write); err != nil {
		return err
	}
	renamed, err := t.admit(ctx, name, token)
	if !renamed {
		_ = t.remove(name) // if this fails a later claim removes it
	}
	return err
}

// admit renames the new content over the file, if the mark allows it.
func (t target) admit(ctx context.Context, name string, token fence.Token) (renamed bool, err error) {
	release, err := t.lock(ctx, t.held, false)
	if err != nil {
		return false, t.unguarded(err)
	}
	defer release()
	from, err := t.highest()
	if err != nil {
		return false, t.unguarded(err)
	}
	switch {
	case token < from:
		return false, &fence.StaleError{Shown: token, Highest: from}
	case token > from:
		// The mark is durable before the content is visible. Otherwise, after a loss of power, the content could stay and a
		// smaller token pass.
		if err := t.raise(ctx, from, token, true); err != nil {
			return false, err
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err := t.rename(name, t.base); err != nil {
		return false, err
	}
	if err := t.sync(); err != nil {
		return true, fmt.Errorf("%w: the new content may be lost again: %w", fence.ErrUnknownOutcome, err)
	}
	return true, nil
}

// sidecar is the suffix of a mark's file.
const sidecar = ".fence"

// target is a guarded file.
type target struct {
	slot
	base string
}

func (g *Guard) open(ctx context.Context) (target, error) {
	d, err := openDirectory(ctx, g.at)
	mark := g.base + sidecar
	return target{slot{directory: d, of: ownFile, mark: mark, temp: mark + ".new", held: mark + ".lock"}, g.base}, err
}

func (t target) check(token fence.Token) error {
	if err := fence.CheckShown(ownFile, token); err != nil {
		return fmt.Errorf("fencefile: %s: %w", filepath.Join(t.path, t.base), err)
	}
	return nil
}

// unguarded explains the error of a missing sidecar.
func (t target) unguarded(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s has no sidecar; install it, with elect fence install or Install in Go", fence.ErrResource, filepath.Join(t.path, t.base))
	}
	return err
}

// content is the prefix of the names of contents that wait to be renamed.
func (t target) content(token fence.Token) string {
	return t.mark + "." + token.Fixed() + "."
}

// write makes a file of the new content, and syncs it.
func (t target) write(name string, write func(io.Writer) error) error {
	var old place.Info
	err := t.do("stat", t.base, func() (err error) {
		old, err = t.dir.Lstat(t.base)
		return err
	})
	exists := err == nil
	perm := fs.FileMode(0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		perm = 0o666
	case err != nil:
		return err
	case !old.Mode.IsRegular():
		return fmt.Errorf("fencefile: %s is %v; want a regular file, or none", filepath.Join(t.path, t.base), old.Mode)
	}
	f, err := t.create(name, perm)
	if err != nil {
		return err
	}
	if exists {
		err = t.do("chmod", name, func() error { return keep(f, old) })
	}
	if err == nil {
		err = write(writer{t.directory, f, name})
	}
	return t.finish(f, name, err)
}

// keep gives a new file the owner and the mode of the old one.
func keep(f *os.File, old place.Info) error {
	now, err := place.Stat(f)
	if err != nil {
		return err
	}
	if old.UID != now.UID || old.GID != now.GID {
		if err := f.Chown(old.UID, old.GID); err != nil {
			return err
		}
	}
	return f.Chmod(old.Mode)
}

// writer is the writer that the caller's function gets.
type writer struct {
	*directory
	f    *os.File
	name string
}

func (w writer) Write(b []byte) (n int, err error) {
	err = w.do("write", w.name, func() (err error) {
		n, err = w.f.Write(b)
		return err
	})
	return n, err
}

// sweep removes the files that killed leaders with tokens up to upTo have left. None of them can be admitted any
// more. What cannot be removed is left to the next claim.
func (t target) sweep(upTo fence.Token) {
	_ = t.do("list", ".", func() error {
		names, err := t.dir.Names()
		for _, name := range names {
			rest, ok := strings.CutPrefix(name, t.mark+".")
			if digits, _, cut := strings.Cut(rest, "."); ok && cut {
				if token, err := fence.ParseToken(digits); err == nil && token <= upTo {
					_ = t.remove(name)
				}
			}
		}
		return err
	})
}
