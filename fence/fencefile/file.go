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

// State is what a file's sidecar says.
type State struct {
	// Highest is the mark, 0 before the first claim.
	Highest fence.Token

	// Warnings say what is to be known of the file system, a sentence each: that it may be
	// on another machine, or is in memory. There are none for a local disk.
	Warnings []string
}

// Config is what a [Guard] or a [Mark] may be told. The zero value of each field is its
// documented default.
type Config struct {
	// SharedPlace allows a process of root to work in a directory that other users can write
	// to, or can put another one in the place of. Without it, such a directory is refused:
	// what root reads and writes there could be another user's choice. It has no effect for
	// users other than root.
	SharedPlace bool
}

// Guard guards one file, by the mark in its sidecar.
type Guard struct {
	base string   // the name of the file
	at   place.At // its directory
}

// New returns the guard of a file. It does not touch the file system. It needs no closing.
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

// Install makes the sidecar of the file, which need not exist yet; its directory must. A
// sidecar that is there stays as it is.
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

// Uninstall removes the sidecar of the file. Then nothing is known of the tokens that it
// has seen: installed again, it takes any.
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

// Claim raises the mark to token, and puts on the disk what it finds: what
// a new leader does before it reads the file. A greater mark is a fence.StaleError; a
// file without a sidecar matches fence.ErrResource. It waits for a [Guard.Write] that
// is about to rename, as long as ctx lasts. After any error that does not match
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

// Write gives the file the content that write writes, as a whole, unless its mark is
// above the token; a mark below is raised first. Success means that all of it is on the
// disk. A greater mark is a fence.StaleError, a file without a sidecar matches
// fence.ErrResource, and after an error of write, which is returned as it is, as after
// any other that does not match [fence.ErrUnknownOutcome], the file is as it was.
//
// write is called once, by this goroutine, without the lock, so that a slow one keeps
// nobody waiting; it may run in vain. Its writer is a file and is not buffered. Mode and
// owner of the file are kept, and it is an error if they cannot be; a new one has mode
// 0666 less the umask. A path that ends in a link, or is no regular file, is refused.
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
		_ = t.remove(name) // a later claim does, if this fails
	}
	return err
}

// admit renames the new content over the file, if the mark lets it.
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
		// It is durable before the content is seen: else, after a loss of power, the
		// content could stand and a smaller token pass.
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

// sidecar is how the name of a file's mark ends.
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

// unguarded says of a missing sidecar what that means.
func (t target) unguarded(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s has no sidecar; install it, with elect fence install or Install in Go", fence.ErrResource, filepath.Join(t.path, t.base))
	}
	return err
}

// content is how the names begin of contents that wait to be renamed.
func (t target) content(token fence.Token) string {
	return t.mark + "." + token.Fixed() + "."
}

// write makes a file of the new content, and puts it on the disk.
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

// writer is the file that a writer gets to see.
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

// sweep removes what leaders up to a token have left behind that were killed. None of it
// can be admitted any more. What cannot be removed is left to the next claim.
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
