package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/electd/elect/fence"
)

// Check is the first statement of a transaction that writes to the resource. It holds the
// mark where it is until tx ends, so that a claim of a later leader waits for it.
//
// It is refused with a fence.StaleError if a greater token was claimed, with
// [ErrUnclaimed] if this one was not claimed, and with fence.ErrResource if the resource
// was not added, or nothing was installed. After any error the caller rolls tx back. At
// REPEATABLE READ and SERIALIZABLE it may fail as any statement may that meets a
// concurrent update; then the whole transaction is to be begun anew.
//
// The hold ends with what it was taken in: it must not be taken within a savepoint that is
// rolled back while the transaction goes on. With MySQL, a statement that changes
// definitions commits, and ends the hold with it: none belongs into the transaction. tx
// must not be read only.
//
// The token is made known to the triggers of guarded tables, too, as by [Fence.SetToken].
func (f *Fence) Check(ctx context.Context, tx *sql.Tx, resource fence.Resource, token fence.Token) error {
	var highest fence.Token
	err := fence.CheckShown(resource, token)
	if err == nil {
		highest, err = f.check(ctx, tx, f.say.check, resource, token)
	}
	f.tell(resource, token, highest, err)
	return err
}

// check returns the mark, as far as it is known.
func (f *Fence) check(ctx context.Context, tx *sql.Tx, statement string, resource fence.Resource, token fence.Token) (fence.Token, error) {
	args := []any{string(resource), int64(token)}
	if f.say.inline {
		statement, args = fmt.Sprintf(statement, args...), nil
	}
	var mark sql.NullInt64
	err := tx.QueryRowContext(ctx, statement, args...).Scan(&mark)
	if errors.Is(err, sql.ErrNoRows) {
		highest, err := f.highest(ctx, tx, f.say.refusal, resource)
		switch {
		case err != nil:
			return 0, err
		case token < highest:
			return highest, &fence.StaleError{Shown: token, Highest: highest}
		}
		return highest, fmt.Errorf("fencesql: the mark of %s was above %v and is %v; want nobody to remove and add it while it is in use", resource, token, highest)
	}
	if err != nil {
		return 0, f.failed(err, "checking the mark of %s", resource)
	}
	highest, err := markOf(resource, mark)
	switch {
	case err != nil:
		return 0, err
	case token > highest:
		return highest, fmt.Errorf("%w: %v shown, the mark of %s is %v; want a claim before the first write", ErrUnclaimed, token, resource, highest)
	}
	return highest, nil
}

// SetToken makes the token known to the triggers of guarded tables, until tx ends: what a
// program does that writes to such tables and does not call Check. A program in
// another language does the same with
//
//	SELECT set_config('elect.token', '42', true)
//
// SET without LOCAL, or false for true, would leave the token in the connection, for
// whoever is given it next by a pool.
func (f *Fence) SetToken(ctx context.Context, tx *sql.Tx, token fence.Token) error {
	var wrong error
	switch {
	case token == 0:
		wrong = fmt.Errorf("%w: 0; want the token of the term that writes", fence.ErrMissing)
	case !token.Valid():
		wrong = fmt.Errorf("%w: %d; want 1 to %d, with a count from 1", fence.ErrToken, uint64(token), uint64(fence.MaxToken))
	}
	if wrong != nil {
		f.tell("", token, 0, wrong)
		return wrong
	}
	if f.say.token == "" {
		return fmt.Errorf("fencesql: tokens for triggers: %w by this dialect; want Check or Tx", errors.ErrUnsupported)
	}
	if _, err := tx.ExecContext(ctx, f.say.token, int64(token)); err != nil {
		return fmt.Errorf("fencesql: setting the token: %w", err)
	}
	return nil
}

// attempts is how often a transaction is begun whose check meets concurrent claims.
const attempts = 10

// Tx begins a transaction, checks the mark, does the work, and commits. opts may be nil;
// it must not ask for a read only transaction.
//
// The errors of the check are those of [Fence.Check]. If the work returns an error or
// panics, the transaction is rolled back; the error is returned, as [Refusal] reads it.
// The work must not commit or roll back by itself. If ctx ends before the commit is sent,
// nothing is applied. An error that matches fence.ErrUnknownOutcome says that the commit
// may or may not have been done, and no other error leaves that open.
func (f *Fence) Tx(ctx context.Context, resource fence.Resource, token fence.Token, opts *sql.TxOptions, work func(*sql.Tx) error) error {
	if opts != nil && opts.ReadOnly {
		return errors.New("fencesql: a read only transaction cannot hold the mark; want TxOptions without ReadOnly")
	}
	tx, highest, err := f.begin(ctx, f.say.check, resource, token, opts)
	f.tell(resource, token, highest, err)
	if err != nil {
		return err
	}
	return f.finish(ctx, tx, work)
}

// begin begins a transaction that holds the mark, and returns that, as far as it is known.
func (f *Fence) begin(ctx context.Context, statement string, resource fence.Resource, token fence.Token, opts *sql.TxOptions) (*sql.Tx, fence.Token, error) {
	if err := fence.CheckShown(resource, token); err != nil {
		return nil, 0, err
	}
	for attempt := 1; ; attempt++ {
		tx, err := f.db.BeginTx(ctx, opts)
		if err != nil {
			return nil, 0, fmt.Errorf("fencesql: beginning a transaction: %w", err)
		}
		highest, err := f.check(ctx, tx, statement, resource, token)
		if err == nil {
			return tx, highest, nil
		}
		_ = tx.Rollback() // the check has failed, and nothing was done
		if f.dialect.classify(err) != serialized || attempt == attempts || ctx.Err() != nil {
			return nil, highest, err
		}
	}
}

func (f *Fence) finish(ctx context.Context, tx *sql.Tx, work func(*sql.Tx) error) error {
	defer tx.Rollback() // does nothing after a commit
	if err := work(tx); err != nil {
		return Refusal(err)
	}
	return f.commit(ctx, tx)
}

// commit commits, and tells apart whether that is known not to have been done.
func (f *Fence) commit(ctx context.Context, tx *sql.Tx) error {
	if ctx.Err() != nil {
		_ = tx.Rollback()
		return context.Cause(ctx)
	}
	err := tx.Commit()
	switch {
	case err == nil:
		return nil
	case f.dialect.classify(err) != unknown:
		return Refusal(fmt.Errorf("fencesql: the commit was refused: %w", err))
	}
	return fmt.Errorf("%w: the commit was not answered: %w", fence.ErrUnknownOutcome, err)
}
