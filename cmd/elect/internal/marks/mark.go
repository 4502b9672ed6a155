package marks

import (
	"context"
	"fmt"
	"net/url"

	"github.com/electd/elect/fence"
)

// Kept is the mark of a guard, such as elect fence proxy.
type Kept struct {
	fence.Mark
	Warnings []string // about the mark
	close    func() error
}

// Close closes the connections of the mark. No guard may use it any more.
func (k *Kept) Close() error { return k.close() }

const wantMark = "file:DIR, postgres://, mysql:// or memory"

// Mark opens the mark that a URL names: a directory of this machine, a table that several guards share, or memory. It
// makes no request. In a directory the resources belong to this guard until Close; it is an error if another guard
// has them.
func Mark(at string, cfg Config, resources ...fence.Resource) (*Kept, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme == "" && at != "memory" { // a part of it could be secret
		return nil, fmt.Errorf("%w: it is no URL; want %s", ErrURL, wantMark)
	}
	if err := cfg.check(u); err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "postgres", "postgresql", "mysql":
		password, _ := u.User.Password()
		p, err := openSQL(u, cfg)
		if err != nil {
			return nil, hide(err, password)
		}
		return &Kept{Mark: discreetMark{p.mark, password}, close: p.Close}, nil
	case "file":
		p, err := openFile(u, cfg)
		if err != nil {
			return nil, err
		}
		marks, err := p.open()
		if err != nil {
			return nil, err
		}
		release, err := marks.Alone(resources...)
		if err != nil {
			return nil, err
		}
		return &Kept{Mark: marks, Warnings: marks.Warnings(), close: release}, nil
	}
	if *u == (url.URL{Path: "memory"}) || *u == (url.URL{Scheme: "memory"}) {
		return &Kept{
			Mark: new(fence.Memory), Warnings: []string{"the mark is in memory: a restart forgets it, and lets a stale leader in"},
			close: func() error { return nil },
		}, nil
	}
	return nil, fmt.Errorf("%w: %s; want %s", ErrURL, Shown(at), wantMark)
}

// discreetMark keeps a password out of errors, as discreet does.
type discreetMark struct {
	fence.Sharer
	password string
}

func (d discreetMark) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	return hide(d.Sharer.Raise(ctx, resource, token), d.password)
}

func (d discreetMark) Highest(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	highest, err := d.Sharer.Highest(ctx, resource)
	return highest, hide(err, d.password)
}

func (d discreetMark) Share(ctx context.Context, resource fence.Resource, token fence.Token) (func() error, error) {
	release, err := d.Sharer.Share(ctx, resource, token)
	if err != nil {
		return nil, hide(err, d.password)
	}
	return func() error { return hide(release(), d.password) }, nil
}
