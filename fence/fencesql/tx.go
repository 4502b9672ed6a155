package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/electd/elect/fence"
)

// check returns the mark, as far as known.
func (m *Mark) check(ctx context.Context, tx *sql.Tx, statement string, resource fence.Resource, token fence.Token) (fence.Token, error) {
	args := []any{string(resource), int64(token)}
	if m.say.inline {
		statement, args = fmt.Sprintf(statement, args...), nil
	}
	var mark sql.NullInt64
	err := tx.QueryRowContext(ctx, statement, args...).Scan(&mark)
	if errors.Is(err, sql.ErrNoRows) {
		highest, err := m.highest(ctx, tx, m.say.refusal, resource)
		switch {
		case err != nil:
			return 0, err
		case token < highest:
			return highest, &fence.StaleError{Shown: token, Highest: highest}
		}
		return highest, fmt.Errorf("fencesql: the mark of %s was above %v and is %v; want it neither removed nor added while it is in use", resource, token, highest)
	}
	if err != nil {
		return 0, m.failed(err, "checking the mark of %s", resource)
	}
	highest, err := markOf(resource, mark)
	switch {
	case err != nil:
		return 0, err
	case token > highest:
		return highest, fmt.Errorf("%w: %v shown, the mark of %s is %v; want a claim before the first write", fence.ErrUnclaimed, token, resource, highest)
	}
	return highest, nil
}

// attempts is how often a transaction is begun if its check meets concurrent claims.
const attempts = 10

// begin begins a transaction that holds the mark. It returns the mark, as far as known.
func (m *Mark) begin(ctx context.Context, statement string, resource fence.Resource, token fence.Token, opts *sql.TxOptions) (*sql.Tx, fence.Token, error) {
	if err := fence.CheckShown(resource, token); err != nil {
		return nil, 0, err
	}
	for attempt := 1; ; attempt++ {
		tx, err := m.db.BeginTx(ctx, opts)
		if err != nil {
			return nil, 0, fmt.Errorf("fencesql: beginning a transaction: %w", err)
		}
		highest, err := m.check(ctx, tx, statement, resource, token)
		if err == nil {
			return tx, highest, nil
		}
		_ = tx.Rollback() // the check has failed, and nothing was done
		if m.dialect.classify(err) != serialized || attempt == attempts || ctx.Err() != nil {
			return nil, highest, err
		}
	}
}

func (m *Mark) finish(ctx context.Context, tx *sql.Tx, work func(*sql.Tx) error) error {
	defer tx.Rollback() // no effect after a commit
	if err := work(tx); err != nil {
		return Refusal(err)
	}
	return m.commit(ctx, tx)
}

// commit commits. Its error distinguishes a commit that was certainly not done from one that may have been.
func (m *Mark) commit(ctx context.Context, tx *sql.Tx) error {
	if ctx.Err() != nil {
		_ = tx.Rollback()
		return context.Cause(ctx)
	}
	err := tx.Commit()
	switch {
	case err == nil:
		return nil
	case m.dialect.classify(err) != unknown:
		return Refusal(fmt.Errorf("fencesql: the commit was refused: %w", err))
	}
	return fmt.Errorf("%w: the commit was not answered: %w", fence.ErrUnknownOutcome, err)
}
