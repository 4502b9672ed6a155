package marks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencefile"
	"github.com/electd/elect/fence/fencehttp"
)

// filePlace is a directory of marks where a resource is named, and else one file that is
// guarded itself.
type filePlace string

func openFile(u *url.URL) (filePlace, error) {
	path := u.Path
	if u.Opaque != "" {
		var err error
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", fmt.Errorf("%w: %q is no path; want file:DIR or file:FILE", ErrURL, u.Opaque)
		}
	}
	if path == "" || u.Host != "" || u.RawQuery != "" {
		return "", fmt.Errorf("%w: %s; want file:DIR or file:FILE, such as file:/var/lib/elect/fence", ErrURL, Shown(u.String()))
	}
	return filePlace(path), nil
}

// marks are those of a directory that is there.
func (p filePlace) marks() (*fencefile.Mark, error) {
	at, err := os.Stat(string(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no directory %s; elect fence install makes it", fence.ErrResource, string(p))
	case err != nil:
		return nil, err
	case !at.IsDir():
		return nil, fmt.Errorf("%w: %s is no directory, and a file has no resource beside itself; leave the name out", ErrURL, string(p))
	}
	return fencefile.NewMark(string(p))
}

// one refuses a directory, whose marks have names: a file that is guarded itself is none.
func (p filePlace) one() error {
	if at, err := os.Stat(string(p)); err == nil && at.IsDir() {
		return fmt.Errorf("%w: %s is a directory; want the name of a resource, or the path of a file", ErrURL, string(p))
	}
	return nil
}

func noTables(tables []string) error {
	if len(tables) > 0 {
		return fmt.Errorf("%w: a file has no tables", ErrUnsupported)
	}
	return nil
}

func (p filePlace) Install(ctx context.Context, resource fence.Resource, tables []string) (warnings []string, err error) {
	if err := noTables(tables); err != nil {
		return nil, err
	}
	if resource != "" {
		marks, err := fencefile.NewMark(string(p))
		if err != nil {
			return nil, err
		}
		if err := marks.Add(ctx, resource); err != nil {
			return marks.Warnings(), err
		}
		return marks.Warnings(), makeSecret(string(p))
	}
	if err := p.one(); err != nil {
		return nil, err
	}
	if err := fencefile.Install(ctx, string(p)); err != nil {
		return nil, err
	}
	s, err := fencefile.Status(ctx, string(p))
	return s.Warnings, err
}

func (p filePlace) Uninstall(ctx context.Context, resource fence.Resource, tables []string) error {
	if err := noTables(tables); err != nil {
		return err
	}
	if resource != "" {
		marks, err := p.marks()
		if err != nil {
			return err
		}
		if _, err := marks.Highest(ctx, resource); errors.Is(err, fence.ErrResource) {
			return err
		}
		if err := marks.Remove(ctx, resource); err != nil { // a damaged one is removed, too
			return err
		}
		return marks.Remove(ctx, fencehttp.Settled(resource)) // else a restarted proxy would trust it
	}
	return fencefile.Uninstall(ctx, string(p))
}

func (p filePlace) Status(ctx context.Context, resource fence.Resource) ([]State, error) {
	if resource == "" {
		if err := p.one(); err != nil {
			return nil, err
		}
		s, err := fencefile.Status(ctx, string(p))
		return []State{{Highest: s.Highest, Warnings: s.Warnings}}, err
	}
	marks, err := p.marks()
	if err != nil {
		return nil, err
	}
	highest, err := marks.Highest(ctx, resource)
	return []State{{Resource: resource, Highest: highest, Warnings: marks.Warnings()}}, err
}

func (p filePlace) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if resource == "" {
		if err := p.one(); err != nil {
			return err
		}
		return fencefile.Claim(ctx, string(p), token)
	}
	// Who guards with these marks, such as elect fence proxy, does not look at them again for
	// a token that it knows, and has work of it under way.
	return fmt.Errorf("%w: the marks of a directory are claimed at the guard that has them: want --at http://HOST:PORT, or https://", ErrUnsupported)
}

func (p filePlace) Close() error { return nil }
