package marks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencefile"
	"github.com/electd/elect/fence/fencehttp"
)

// filePlace is a directory of marks if a resource is named, and otherwise one file that is guarded itself.
type filePlace struct {
	path   string
	shared bool
}

func openFile(u *url.URL, cfg Config) (p filePlace, err error) {
	p = filePlace{u.Path, cfg.SharedPlace}
	if u.Opaque != "" {
		if p.path, err = url.PathUnescape(u.Opaque); err != nil {
			return p, fmt.Errorf("%w: %q is no path; want file:DIR or file:FILE", ErrURL, u.Opaque)
		}
	}
	const parameter = "shared-place"
	query, err := url.ParseQuery(u.RawQuery)
	if err == nil && len(query[parameter]) == 1 {
		p.shared, err = strconv.ParseBool(query.Get(parameter))
		p.shared = p.shared || cfg.SharedPlace
		delete(query, parameter)
	}
	if err != nil || len(query) > 0 || p.path == "" || u.Host != "" {
		return p, fmt.Errorf("%w: %s; want file:DIR or file:FILE, such as file:/var/lib/elect/fence, with no parameter but shared-place=true", ErrURL, Shown(u.String()))
	}
	return p, nil
}

func (p filePlace) config() fencefile.Config { return fencefile.Config{SharedPlace: p.shared} }

func (p filePlace) open() (*fencefile.Mark, error) { return fencefile.NewMark(p.path, p.config()) }

// guard is the guard of one file.
func (p filePlace) guard() (*fencefile.Guard, error) {
	if err := p.one(); err != nil {
		return nil, err
	}
	return fencefile.New(p.path, p.config())
}

// marks are those of an existing directory.
func (p filePlace) marks() (*fencefile.Mark, error) {
	at, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no directory %s; elect fence install makes it", fence.ErrResource, p.path)
	case err != nil:
		return nil, err
	case !at.IsDir():
		return nil, fmt.Errorf("%w: %s is no directory, and a file has no resource beside itself; leave the name out", ErrURL, p.path)
	}
	return p.open()
}

// one refuses a directory, whose marks have names, because it is not a guarded file.
func (p filePlace) one() error {
	if at, err := os.Stat(p.path); err == nil && at.IsDir() {
		return fmt.Errorf("%w: %s is a directory; want the name of a resource, or the path of a file", ErrURL, p.path)
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
		marks, err := p.open()
		if err != nil {
			return nil, err
		}
		if err := marks.Install(ctx, resource); err != nil {
			return marks.Warnings(), err
		}
		return marks.Warnings(), p.makeSecret()
	}
	g, err := p.guard()
	if err != nil {
		return nil, err
	}
	if err := g.Install(ctx); err != nil {
		return nil, err
	}
	s, err := g.Status(ctx)
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
		if err := marks.Uninstall(ctx, resource); err != nil { // a damaged one is removed too
			return err
		}
		return marks.Uninstall(ctx, fencehttp.Settled(resource)) // otherwise a restarted proxy would trust it
	}
	g, err := fencefile.New(p.path, p.config())
	if err != nil {
		return err
	}
	return g.Uninstall(ctx)
}

func (p filePlace) Status(ctx context.Context, resource fence.Resource) ([]State, error) {
	if resource == "" {
		g, err := p.guard()
		if err != nil {
			return nil, err
		}
		s, err := g.Status(ctx)
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
		g, err := p.guard()
		if err != nil {
			return err
		}
		return g.Claim(ctx, token)
	}
	// A guard with these marks, such as elect fence proxy, does not read them again for a token that it knows, and has
	// admitted work of that token.
	return fmt.Errorf("%w: the marks of a directory are claimed at the guard that has them: want --at http://HOST:PORT, or https://", ErrUnsupported)
}

func (p filePlace) Close() error { return nil }
