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

// claimDurably is claim, and confirms an existing mark. It returns what claim does.
func (m *Mark) claimDurably(ctx context.Context, resource fence.Resource, token fence.Token) (fence.Token, error) {
	highest, err := m.claim(ctx, resource, token)
	if err == nil && highest == token {
		err = m.confirm(ctx, resource, token)
	}
	return highest, err
}

// claim returns the mark from before, as far as known.
func (m *Mark) claim(ctx context.Context, resource fence.Resource, token fence.Token) (fence.Token, error) {
	if err := fence.CheckShown(resource, token); err != nil {
		return 0, err
	}
	// A leader that finds its own token has nothing to raise. It must not wait either: the open transaction may be its
	// own.
	highest, err := m.committed(ctx, resource)
	switch {
	case err != nil && m.dialect.classify(err) == waited:
		return 0, fmt.Errorf("%w: %w", fence.ErrBusy, err)
	case err != nil:
		return 0, err
	case token < highest:
		return highest, &fence.StaleError{Shown: token, Highest: highest}
	case token == highest:
		return highest, nil
	}
	return highest, m.raise(ctx, resource, token)
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// highest reads the mark of the resource with a statement that does.
func (m *Mark) highest(ctx context.Context, q queryer, statement string, resource fence.Resource) (fence.Token, error) {
	var mark sql.NullInt64
	err := q.QueryRowContext(ctx, statement, string(resource)).Scan(&mark)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, m.missing(resource)
	case err != nil:
		return 0, m.failed(err, "reading the mark of %s", resource)
	}
	return markOf(resource, mark)
}

// missing is the refusal of a resource that has no row.
func (m *Mark) missing(resource fence.Resource) error {
	return fmt.Errorf("%w: %s has no row in %s; want elect fence install %s, or Install in Go", fence.ErrResource, resource, m.cfg.Table, resource)
}

// committed reads the last committed mark of the resource, outside of any transaction.
func (m *Mark) committed(ctx context.Context, resource fence.Resource) (fence.Token, error) {
	if !m.say.dirty {
		return m.highest(ctx, m.db, m.say.highest, resource)
	}
	// It may have to wait for a change of the table's definition.
	bounded, cancel := context.WithTimeout(ctx, m.cfg.LockTimeout)
	defer cancel()
	tx, err := m.db.BeginTx(bounded, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return 0, fmt.Errorf("fencesql: reading the mark of %s: %w", resource, err)
	}
	defer tx.Rollback()
	highest, err := m.highest(bounded, tx, m.say.highest, resource)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("%w: reading the mark of %s took longer than %v", fence.ErrBusy, resource, m.cfg.LockTimeout)
	}
	return highest, err
}

// confirm makes a mark that the database shows as durable as one that is raised. An earlier claim with the same token
// may not have heard from the standbys for which the server waits: if that wait was cancelled, or the server has
// crashed meanwhile, it may show what only it has.
func (m *Mark) confirm(ctx context.Context, resource fence.Resource, token fence.Token) (err error) {
	if m.say.confirm == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("fencesql: claiming %s with %v again: %w: %w", resource, token, fence.ErrUnknownOutcome, err)
		}
	}()
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, _, end, err := m.dialect.begin(ctx, conn, m.cfg.LockTimeout)
	if err != nil {
		return err
	}
	defer m.putBack(end)
	defer tx.Rollback() // no effect after a commit
	if _, err := tx.ExecContext(ctx, m.say.confirm); err != nil {
		return err
	}
	return m.commit(ctx, tx)
}

func (m *Mark) raise(ctx context.Context, resource fence.Resource, token fence.Token) (err error) {
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("fencesql: claiming %s: %w", resource, err)
	}
	defer conn.Close()
	tx, session, end, err := m.dialect.begin(ctx, conn, m.cfg.LockTimeout)
	switch {
	case err != nil && m.dialect.classify(err) == waited: // for drivers that begin with the lock
		return fmt.Errorf("fencesql: claiming %s with %v: %w after %v: %w", resource, token, fence.ErrBusy, m.cfg.LockTimeout, err)
	case err != nil:
		return fmt.Errorf("fencesql: claiming %s: %w", resource, err)
	}
	defer m.putBack(end)
	defer tx.Rollback() // no effect after a commit

	// The server bounds each wait for a lock separately, and there may be several. What this context ends was not
	// committed: the commit uses the caller's own.
	bounded, cancel := context.WithTimeout(ctx, m.cfg.LockTimeout+unanswered)
	defer cancel()
	watch := m.watch(ctx, resource, token, session)
	if m.say.queue != "" {
		_, err = tx.ExecContext(bounded, m.say.queue, string(resource))
	}
	if err == nil {
		_, err = tx.ExecContext(bounded, m.say.raise, int64(token), string(resource), int64(token))
	}
	watch.stop()
	switch {
	case err != nil && (m.dialect.classify(err) == waited || bounded.Err() != nil && ctx.Err() == nil):
		return fmt.Errorf("fencesql: claiming %s with %v: %w after %v: %s", resource, token, fence.ErrBusy, m.cfg.LockTimeout, watch)
	case err != nil:
		return m.failed(err, "claiming %s", resource)
	}
	// Databases and drivers count the rows that an update has changed differently. The resulting mark is certain.
	highest, err := m.highest(ctx, tx, m.say.highest, resource)
	switch {
	case err != nil:
		return err
	case token < highest:
		return &fence.StaleError{Shown: token, Highest: highest}
	case token > highest:
		return fmt.Errorf("fencesql: claiming %s: its mark is %v after it was raised to %v", resource, highest, token)
	}
	if err := m.commit(ctx, tx); err != nil {
		if m.dialect.classify(err) == waited {
			return fmt.Errorf("fencesql: claiming %s with %v: %w: %w", resource, token, fence.ErrBusy, err)
		}
		return fmt.Errorf("fencesql: claiming %s: %w", resource, err)
	}
	m.cfg.Logger.Info("claimed", "resource", resource, "token", token)
	return nil
}

// putBack restores the session of a claim to its state before the dialect's begin.
func (m *Mark) putBack(end func() error) {
	if err := end(); err != nil {
		m.cfg.Logger.Warn("the session of a claim could not be put back as it was", "error", err)
	}
}

// watch observes the transactions that a claim waits for.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}

	// Written by the watcher, read after done.
	holders []holder // of the last check that saw any
	err     error    // of the last check
}

// unanswered is how long a server may take to report by itself that a claim has waited for [Config.LockTimeout], so
// that the connection need not be closed. MySQL rounds that timeout up to a second.
const unanswered = 2 * time.Second

// lookAgain is the time between two checks, for a claim that terminates those it sees.
const lookAgain = 20 * time.Millisecond

// watch checks which transactions are in the way when half of the lock timeout has passed, and terminates them if it
// may. It needs a connection beside the claim's, and does without if there is none.
func (m *Mark) watch(ctx context.Context, resource fence.Resource, token fence.Token, session int64) *watch {
	w := &watch{done: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	if session == 0 {
		close(w.done)
		return w
	}
	go func() {
		defer close(w.done)
		timer := time.NewTimer(m.cfg.LockTimeout / 2)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			// After an error it tries again: a connection of the pool may be dead.
			err := m.look(ctx, w, resource, token, session)
			if ctx.Err() != nil || err == nil && !m.cfg.Terminate {
				return
			}
			w.err = err
			timer.Reset(lookAgain)
		}
	}()
	return w
}

// look checks once which transactions are in the way, and terminates them if it may.
func (m *Mark) look(ctx context.Context, w *watch, resource fence.Resource, token fence.Token, session int64) error {
	holders, err := m.dialect.holders(ctx, m, session)
	if err != nil {
		return err
	}
	if len(holders) > 0 {
		w.holders = holders
	}
	if !m.cfg.Terminate {
		return nil
	}
	// Transactions of a greater token are not in the way: this claim is in theirs. Transactions of the same token belong
	// to another process of the same leader, which has claimed meanwhile.
	highest, err := m.committed(ctx, resource)
	if err != nil || highest >= token {
		return err
	}
	for _, h := range holders {
		if !h.may {
			continue
		}
		if e := m.dialect.terminate(ctx, m, h); e != nil {
			err = errors.Join(err, fmt.Errorf("ending %s: %w", h.text, e))
			continue
		}
		m.cfg.Logger.Warn("ended a connection in the way of a claim", "resource", resource, "token", token, "holder", h.text)
	}
	return err
}

func (w *watch) stop() {
	w.cancel()
	<-w.done
}

// String says which sessions are in the way. It is called after stop.
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
