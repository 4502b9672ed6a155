package fencesql

import (
	"context"
	"fmt"

	"github.com/electd/elect/fence"
)

var _ fence.Sharer = (*Mark)(nil)

// Raise implements [fence.Mark].
func (m *Mark) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	_, err := m.claimDurably(ctx, resource, token)
	return err
}

// Highest implements [fence.Mark].
func (m *Mark) Highest(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return 0, err
	}
	return m.committed(ctx, resource)
}

// Share implements [fence.Sharer]. It never returns fence.ErrUnclaimed: it first raises a mark that is below the
// token. It holds a transaction open, with a connection of its own, until release: db needs at least as many
// connections as there are requests at once, and one for Raise. With SQLite a Share is the only writer, so that
// Shares wait for each other.
func (m *Mark) Share(ctx context.Context, resource fence.Resource, token fence.Token) (release func() error, err error) {
	if _, err := m.claim(ctx, resource, token); err != nil {
		return nil, err
	}
	// The end of ctx ends the attempt. It must not end the hold: the holder may have to finish something first.
	held, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, _, err := m.begin(held, m.say.share, resource, token, nil)
	if !stop() && err == nil {
		_ = tx.Rollback()
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return func() error {
		defer cancel()
		// A commit that is answered shows that the transaction existed all the time.
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("fencesql: the mark of %s may not have been held: %w", resource, err)
		}
		return nil
	}, nil
}
