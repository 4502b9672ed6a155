package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/electd/elect/fence"
)

// Guard guards one resource, by its row in the table of marks.
type Guard struct {
	mark     *Mark
	resource fence.Resource
}

// New returns the guard of a resource. It makes no request. The caller owns db, and closes it.
func New(db *sql.DB, d Dialect, resource fence.Resource, cfg Config) (*Guard, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return nil, err
	}
	m, err := NewMark(db, d, cfg)
	if err != nil {
		return nil, err
	}
	return &Guard{m, resource}, nil
}

// Install is [Mark.Install] for the resource.
func (g *Guard) Install(ctx context.Context) error { return g.mark.Install(ctx, g.resource) }

// Uninstall is [Mark.Uninstall] for the resource.
func (g *Guard) Uninstall(ctx context.Context) error { return g.mark.Uninstall(ctx, g.resource) }

// Status returns the state of the resource. One that is not installed is refused with fence.ErrResource.
func (g *Guard) Status(ctx context.Context) (State, error) {
	all, err := g.mark.List(ctx)
	if err != nil {
		return State{}, err
	}
	for _, s := range all {
		if s.Resource == g.resource {
			return s, nil
		}
	}
	return State{}, g.mark.missing(g.resource)
}

// Claim raises the mark to token, durably, and returns when no transaction that was checked with a smaller token is
// open any more. A new leader calls it before it reads anything. Claiming again with the same token succeeds, and
// waits for no transaction; PostgreSQL makes a commit for it all the same, so that the mark is as durable as after
// the first claim.
//
// If the mark is greater the error is a fence.StaleError. A resource that is not installed is refused with
// fence.ErrResource. If transactions of earlier leaders stay open, the claim is refused with fence.ErrBusy and may be
// repeated: see [Config.LockTimeout]. After an error that matches fence.ErrUnknownOutcome the mark may have been
// raised; the leader should claim again. After any other error it was not raised.
//
// Claims of one resource wait for each other.
func (g *Guard) Claim(ctx context.Context, token fence.Token) error {
	highest, err := g.mark.claimDurably(ctx, g.resource, token)
	if err == nil && highest < token {
		g.mark.observe(fence.Decision{Resource: g.resource, Shown: token, Highest: token, Result: fence.Raised})
	}
	g.mark.tell(g.resource, token, highest, err)
	return err
}

// Write begins a transaction, checks the mark, does the work, and commits. opts may be nil; it must not ask for a
// read-only transaction.
//
// The errors of the check are those of [Guard.Check]. If the work returns an error or panics, the transaction is
// rolled back; the error is returned, as [Refusal] reads it. The work must not commit or roll back by itself. If ctx
// ends before the commit is sent, nothing is applied. An error that matches fence.ErrUnknownOutcome means that the
// commit may or may not have been done. After any other error it was not done.
func (g *Guard) Write(ctx context.Context, token fence.Token, opts *sql.TxOptions, work func(*sql.Tx) error) error {
	if opts != nil && opts.ReadOnly {
		return errors.New("fencesql: a read only transaction cannot hold the mark; want TxOptions without ReadOnly")
	}
	tx, highest, err := g.mark.begin(ctx, g.mark.say.check, g.resource, token, opts)
	g.mark.tell(g.resource, token, highest, err)
	if err != nil {
		return err
	}
	return g.mark.finish(ctx, tx, work)
}

// Check is the first statement of a transaction that writes to the resource. It holds the
// mark where it is until tx ends, so that a claim of a later leader waits for it.
//
// It is refused with a fence.StaleError if a greater token was claimed, with fence.ErrUnclaimed if this one was not
// claimed, and with fence.ErrResource if the resource is not installed. After any error the caller rolls tx back. At
// REPEATABLE READ and SERIALIZABLE it may fail like any statement that meets a concurrent update; then the caller
// must begin the whole transaction again.
//
// A rollback to a savepoint ends a hold that was taken after it: do not call Check within a savepoint that is rolled
// back while the transaction goes on. With MySQL, a statement that changes definitions commits, and so ends the hold:
// the transaction must not contain one. tx must not be read-only.
//
// Check also makes the token known to triggers, as [Guard.SetToken] does.
func (g *Guard) Check(ctx context.Context, tx *sql.Tx, token fence.Token) error {
	var highest fence.Token
	err := fence.CheckShown(g.resource, token)
	if err == nil {
		highest, err = g.mark.check(ctx, tx, g.mark.say.check, g.resource, token)
	}
	g.mark.tell(g.resource, token, highest, err)
	return err
}

// SetToken makes the token known to the triggers of [Guard.InstallTriggers] until tx ends. It is for programs that
// write to such tables and do not call Check. A program in another language does the same with
//
//	SELECT set_config('elect.token', '42', true)
//
// SET without LOCAL, or false for true, would leave the token in the connection, for
// the next user of the pool.
func (g *Guard) SetToken(ctx context.Context, tx *sql.Tx, token fence.Token) error {
	if err := fence.CheckShown(g.resource, token); err != nil {
		g.mark.tell(g.resource, token, 0, err)
		return err
	}
	if g.mark.say.token == "" {
		return fmt.Errorf("fencesql: tokens for triggers: %w by this dialect; want Check or Write", errors.ErrUnsupported)
	}
	if _, err := tx.ExecContext(ctx, g.mark.say.token, int64(token)); err != nil {
		return fmt.Errorf("fencesql: setting the token: %w", err)
	}
	return nil
}

// InstallTriggers makes the database itself check the mark at every statement that writes to the tables, for programs
// that cannot be changed, or that forget to check. The names are as in a statement. A table that has the trigger
// already stays as it is. InstallTriggers waits for transactions that have written to the tables, for
// [Config.LockTimeout] at most.
//
// The token of a statement is the run-time parameter elect.token. A program of one term
// connects with it: PGOPTIONS="-c elect.token=42" in its environment, or the parameter
// options=-c%20elect.token%3D42 in its URL; in Go with pgx
//
//	cfg.RuntimeParams["elect.token"] = term.Token().String()
//	db := stdlib.OpenDB(*cfg)
//
// Such a pool belongs to that term and is closed with it. Keeping it longer does no harm: the token of an older term
// is always refused. But later connections of the same pool must not begin with the token of a later term: unfinished
// work of the older term could get one of them, and pass. A program that outlives terms and has one pool sets the
// token in each transaction: [Guard.SetToken].
//
// A partitioned table is guarded together with its present partitions. Statements that drop or alter a table are not
// checked.
//
// It is for PostgreSQL; with other databases the error matches errors.ErrUnsupported.
func (g *Guard) InstallTriggers(ctx context.Context, tables ...string) error {
	return g.mark.guarding(ctx, g.resource, tables, guarder.guard)
}

// UninstallTriggers undoes [Guard.InstallTriggers].
func (g *Guard) UninstallTriggers(ctx context.Context, tables ...string) error {
	return g.mark.guarding(ctx, g.resource, tables, guarder.unguard)
}
