package fencesql

import (
	"context"
	"fmt"

	"github.com/electd/elect/fence"
)

// Mark returns the table as a mark that several guards may have in common, in several
// processes: for what is not in the database, and is written through a fence.Guard.
//
// Share holds a transaction open, with a connection of its own, from the check until
// release: db needs at least as many connections as there are requests at once, and one
// for Raise. Share never returns [ErrUnclaimed]: where the mark is below its token, it
// raises it first. With SQLite a Share is the one writer, so that each waits for the other.
//
// Decisions are logged and observed by the guards ([fence.GuardConfig]), not by the Fence.
func (f *Fence) Mark() fence.Sharer { return mark{f} }

type mark struct{ *Fence }

// Raise implements [fence.Mark].
func (m mark) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	_, err := m.claimDurably(ctx, resource, token)
	return err
}

// Highest implements [fence.Mark].
func (m mark) Highest(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return 0, err
	}
	return m.committed(ctx, resource)
}

// Share implements [fence.Sharer].
func (m mark) Share(ctx context.Context, resource fence.Resource, token fence.Token) (release func() error, err error) {
	if _, err := m.claim(ctx, resource, token); err != nil {
		return nil, err
	}
	// The end of ctx ends the attempt. It must not end the hold: whoever has it may have
	// to finish something first.
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
		// A commit that is answered shows that the transaction was there all the time.
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("fencesql: the mark of %s may not have been held: %w", resource, err)
		}
		return nil
	}, nil
}
