package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/fence"
)

// Claim raises the mark of the resource to token, durably, and returns when no
// transaction is open any more that was checked with a smaller token. It is what a new
// leader does before it reads anything. The same token again is no error, and waits for
// no transaction; PostgreSQL makes a commit for it all the same, so that the mark is as
// durable as after the first claim.
//
// A greater mark is a fence.StaleError. A resource that was not added, and any where
// nothing was installed, is refused with fence.ErrResource. If transactions of earlier
// leaders stay open, the claim is refused with fence.ErrBusy and may be repeated: see
// [Config.LockTimeout]. After an error that matches fence.ErrUnknownOutcome the mark may
// have been raised; claiming again is right. After any other it was not.
//
// Claims of one resource wait for each other.
func (f *Fence) Claim(ctx context.Context, resource fence.Resource, token fence.Token) error {
	highest, err := f.claimDurably(ctx, resource, token)
	if err == nil && highest < token {
		f.observe(fence.Decision{Resource: resource, Shown: token, Highest: token, Result: fence.Raised})
	}
	f.tell(resource, token, highest, err)
	return err
}

// claimDurably is claim, and confirms a mark that was there. It returns what claim does.
func (f *Fence) claimDurably(ctx context.Context, resource fence.Resource, token fence.Token) (fence.Token, error) {
	highest, err := f.claim(ctx, resource, token)
	if err == nil && highest == token {
		err = f.confirm(ctx, resource, token)
	}
	return highest, err
}

// claim returns the mark as it was before, as far as it is known.
func (f *Fence) claim(ctx context.Context, resource fence.Resource, token fence.Token) (fence.Token, error) {
	if err := fence.CheckShown(resource, token); err != nil {
		return 0, err
	}
	// Whoever sees its own token has nothing to raise. It must not wait either: what is
	// open may be its own.
	highest, err := f.committed(ctx, resource)
	switch {
	case err != nil && f.dialect.classify(err) == waited:
		return 0, fmt.Errorf("%w: %w", fence.ErrBusy, err)
	case err != nil:
		return 0, err
	case token < highest:
		return highest, &fence.StaleError{Shown: token, Highest: highest}
	case token == highest:
		return highest, nil
	}
	return highest, f.raise(ctx, resource, token)
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// highest reads the mark of the resource with one of the statements that do.
func (f *Fence) highest(ctx context.Context, q queryer, statement string, resource fence.Resource) (fence.Token, error) {
	var mark sql.NullInt64
	err := q.QueryRowContext(ctx, statement, string(resource)).Scan(&mark)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, fmt.Errorf("%w: %s has no row in %s; want elect fence install %s, or Add in Go", fence.ErrResource, resource, f.cfg.Table, resource)
	case err != nil:
		return 0, f.failed(err, "reading the mark of %s", resource)
	}
	return markOf(resource, mark)
}

// committed reads the mark of the resource as it was committed last, beside everything else.
func (f *Fence) committed(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	if !f.say.dirty {
		return f.highest(ctx, f.db, f.say.highest, resource)
	}
	// It may have to wait for a change of the table's definition.
	bounded, cancel := context.WithTimeout(ctx, f.cfg.LockTimeout)
	defer cancel()
	tx, err := f.db.BeginTx(bounded, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return 0, fmt.Errorf("fencesql: reading the mark of %s: %w", resource, err)
	}
	defer tx.Rollback()
	highest, err := f.highest(bounded, tx, f.say.highest, resource)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("%w: reading the mark of %s took longer than %v", fence.ErrBusy, resource, f.cfg.LockTimeout)
	}
	return highest, err
}

// confirm makes a mark that the database shows as durable as one that is raised. An earlier
// claim with the same token may not have heard from the standbys that the server waits for:
// where that wait was cancelled, or the server has crashed meanwhile, it shows what it
// alone has.
func (f *Fence) confirm(ctx context.Context, resource fence.Resource, token fence.Token) (err error) {
	if f.say.confirm == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("fencesql: claiming %s with %v again: %w: %w", resource, token, fence.ErrUnknownOutcome, err)
		}
	}()
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, _, end, err := f.dialect.begin(ctx, conn, f.cfg.LockTimeout)
	if err != nil {
		return err
	}
	defer f.putBack(end)
	defer tx.Rollback() // does nothing after a commit
	if _, err := tx.ExecContext(ctx, f.say.confirm); err != nil {
		return err
	}
	return f.commit(ctx, tx)
}

func (f *Fence) raise(ctx context.Context, resource fence.Resource, token fence.Token) (err error) {
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("fencesql: claiming %s: %w", resource, err)
	}
	defer conn.Close()
	tx, session, end, err := f.dialect.begin(ctx, conn, f.cfg.LockTimeout)
	switch {
	case err != nil && f.dialect.classify(err) == waited: // where a driver begins with the lock
		return fmt.Errorf("fencesql: claiming %s with %v: %w after %v: %w", resource, token, fence.ErrBusy, f.cfg.LockTimeout, err)
	case err != nil:
		return fmt.Errorf("fencesql: claiming %s: %w", resource, err)
	}
	defer f.putBack(end)
	defer tx.Rollback() // does nothing after a commit

	// The server counts each wait for a lock by itself, and there may be several. What this
	// context ends was not committed: the commit has the caller's own.
	bounded, cancel := context.WithTimeout(ctx, f.cfg.LockTimeout+unanswered)
	defer cancel()
	watch := f.watch(ctx, resource, token, session)
	if f.say.queue != "" {
		_, err = tx.ExecContext(bounded, f.say.queue, string(resource))
	}
	if err == nil {
		_, err = tx.ExecContext(bounded, f.say.raise, int64(token), string(resource), int64(token))
	}
	watch.stop()
	switch {
	case err != nil && (f.dialect.classify(err) == waited || bounded.Err() != nil && ctx.Err() == nil):
		return fmt.Errorf("fencesql: claiming %s with %v: %w after %v: %s", resource, token, fence.ErrBusy, f.cfg.LockTimeout, watch)
	case err != nil:
		return f.failed(err, "claiming %s", resource)
	}
	// How many rows an update has changed is counted differently by databases and
	// drivers. What is there now is not.
	highest, err := f.highest(ctx, tx, f.say.highest, resource)
	switch {
	case err != nil:
		return err
	case token < highest:
		return &fence.StaleError{Shown: token, Highest: highest}
	case token > highest:
		return fmt.Errorf("fencesql: claiming %s: its mark is %v after it was raised to %v", resource, highest, token)
	}
	if err := f.commit(ctx, tx); err != nil {
		if f.dialect.classify(err) == waited {
			return fmt.Errorf("fencesql: claiming %s with %v: %w: %w", resource, token, fence.ErrBusy, err)
		}
		return fmt.Errorf("fencesql: claiming %s: %w", resource, err)
	}
	f.cfg.Logger.Info("claimed", "resource", resource, "token", token)
	return nil
}

// putBack puts the session of a claim back as it was before the dialect's begin.
func (f *Fence) putBack(end func() error) {
	if err := end(); err != nil {
		f.cfg.Logger.Warn("the session of a claim could not be put back as it was", "error", err)
	}
}

// watch is a look at whom a claim waits for.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}

	// Written by the watcher, read after done.
	holders []holder // of the last look that saw any
	err     error    // of the last look
}

// unanswered is the time that a server has to say by itself that a claim has waited for
// [Config.LockTimeout], so that the connection need not be closed. MySQL rounds that
// timeout up to a second.
const unanswered = 2 * time.Second

// lookAgain is the time between two looks, of a claim that ends whom it sees.
const lookAgain = 20 * time.Millisecond

// watch looks who is in the way when half of the lock timeout has passed, and ends them if
// it may. It needs a connection beside the claim's, and does without if there is none.
func (f *Fence) watch(ctx context.Context, resource fence.Resource, token fence.Token, session int64) *watch {
	w := &watch{done: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	if session == 0 {
		close(w.done)
		return w
	}
	go func() {
		defer close(w.done)
		timer := time.NewTimer(f.cfg.LockTimeout / 2)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			// What fails is tried again: a connection of the pool may be dead.
			err := f.look(ctx, w, resource, token, session)
			if ctx.Err() != nil || err == nil && !f.cfg.Terminate {
				return
			}
			w.err = err
			timer.Reset(lookAgain)
		}
	}()
	return w
}

// look looks once who is in the way, and ends them if it may.
func (f *Fence) look(ctx context.Context, w *watch, resource fence.Resource, token fence.Token, session int64) error {
	holders, err := f.dialect.holders(ctx, f, session)
	if err != nil {
		return err
	}
	if len(holders) > 0 {
		w.holders = holders
	}
	if !f.cfg.Terminate {
		return nil
	}
	// Transactions of a greater token than ours are not in our way: we are in theirs. Those of
	// our own are another process's of the same leader, which has claimed meanwhile.
	highest, err := f.committed(ctx, resource)
	if err != nil || highest >= token {
		return err
	}
	for _, h := range holders {
		if !h.may {
			continue
		}
		if e := f.dialect.terminate(ctx, f, h); e != nil {
			err = errors.Join(err, fmt.Errorf("ending %s: %w", h.text, e))
			continue
		}
		f.cfg.Logger.Warn("ended a connection in the way of a claim", "resource", resource, "token", token, "holder", h.text)
	}
	return err
}

func (w *watch) stop() {
	w.cancel()
	<-w.done
}

// String says who is in the way. It is called after stop.
func (w *watch) String() string {
	var all []string
	for _, h := range w.holders {
		all = append(all, h.text)
	}
	text := "who holds it is not known"
	if len(all) > 0 {
		text = "held by " + strings.Join(all, "; ")
	}
	if w.err != nil {
		text += " (" + w.err.Error() + ")"
	}
	return text
}
