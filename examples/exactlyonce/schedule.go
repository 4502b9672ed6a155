package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
)

// Exactly once, and what it means.
//
// A run of a job is a row, and its key, the job and the time at which it was due, is
// unique. The row goes from due to running, under the token of the leader that took it,
// and from running to done. Each step is a transaction that shows the token first, so no
// step of a leader that was replaced is ever committed, however late it comes. A leader
// that finds a row running under a smaller token knows that no process will finish it, and
// does so itself.
//
// An effect within this database is part of the transaction that makes the row done: it
// happens exactly once, or the row is not done.
//
// An effect outside cannot be part of it. A process that dies between the effect and the commit
// leaves a row of which none can know whether the effect has happened, and the next
// leader does it again. So it is tried at least once, always with the same key, and
// happens once if the other side keeps the keys that it has seen, as payment services
// do (the header Idempotency-Key). The token, shown there, too, keeps a late leader out where
// the other side checks it. Of a mail or a motor, which do neither, nothing better than
// "at least once" or "at most once" can be had.

const resource fence.Resource = "exactlyonce"

type scheduler struct {
	db     *sql.DB
	guard  *fencesql.Guard
	log    *slog.Logger
	job    string
	every  time.Duration
	takes  time.Duration
	notify string
}

// run is one run of the job.
type run struct {
	due   time.Time
	tries int // how often it was begun, this time included
}

// key is the idempotency key.
func (s *scheduler) key(r run) string { return s.job + "@" + r.due.UTC().Format(time.RFC3339Nano) }

func (s *scheduler) install(ctx context.Context) error {
	if err := s.guard.Install(ctx); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS runs (
			job text, due timestamptz, PRIMARY KEY (job, due),
			state text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'running', 'done')),
			token bigint NOT NULL DEFAULT 0, tries int NOT NULL DEFAULT 0);
		CREATE INDEX IF NOT EXISTS runs_open ON runs (job, due) WHERE state <> 'done';
		CREATE TABLE IF NOT EXISTS invoices (job text, due timestamptz, token bigint, sent timestamptz DEFAULT now())`)
	if err != nil {
		return err
	}
	// From now on the database refuses what forgets to show a token.
	return s.guard.InstallTriggers(ctx, "runs", "invoices")
}

// lead claims before it reads, and then takes one step after the other. Each step
// begins with what the table says, so a step whose outcome is not known is no trouble.
func (s *scheduler) lead(ctx context.Context, term *elect.Term) error {
	claimed := false
	for {
		more, err := false, error(nil)
		if !claimed {
			err = s.guard.Claim(ctx, term.Token())
			claimed = err == nil
		}
		if claimed {
			more, err = s.step(ctx, term.Token())
			claimed = !errors.Is(err, fence.ErrUnclaimed) // as after a restore from a backup
		}
		pause := s.every / 4
		switch {
		case term.Check() != nil:
			return nil // Lead knows why
		case errors.Is(err, fence.ErrStale), errors.Is(err, fence.ErrResource):
			return err // while we lead: the table is not this election's, or is not installed
		case err != nil:
			s.log.Warn("a step failed, and is taken again", "error", err)
			pause = 100 * time.Millisecond
		case more:
			pause = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// step finishes the oldest run that is not done, and reports whether there was one.
func (s *scheduler) step(ctx context.Context, token fence.Token) (bool, error) {
	r, err := s.take(ctx, token)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if r.tries > 1 {
		s.log.Info("an earlier leader has not finished this", "run", s.key(r), "tries", r.tries)
	}
	if err := s.outside(ctx, token, r); err != nil {
		return false, err
	}
	return true, s.finish(ctx, token, r)
}

// take writes down what is due by now, and takes the oldest run that is not done: due, or
// running under the token of a leader that has gone. The clock is the database's. It
// returns sql.ErrNoRows when there is nothing to do.
func (s *scheduler) take(ctx context.Context, token fence.Token) (r run, err error) {
	err = s.guard.Write(ctx, token, nil, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO runs (job, due)
			SELECT $1, due FROM generate_series(
				coalesce((SELECT max(due) FROM runs WHERE job = $1) + $2::int8 * interval '1 us', date_bin($2::int8 * interval '1 us', now(), 'epoch')),
				now(), $2::int8 * interval '1 us') AS due
			ON CONFLICT DO NOTHING`, s.job, s.every.Microseconds()); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `
			UPDATE runs SET state = 'running', token = $2, tries = tries + 1
			WHERE job = $1 AND due = (SELECT min(due) FROM runs WHERE job = $1 AND state <> 'done')
			RETURNING due, tries`, s.job, int64(token)).Scan(&r.due, &r.tries)
	})
	return r, err
}

// finish is the effect in the database, and the end of the run, in one transaction.
func (s *scheduler) finish(ctx context.Context, token fence.Token, r run) error {
	return s.guard.Write(ctx, token, nil, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `UPDATE runs SET state = 'done' WHERE job = $1 AND due = $2 AND state = 'running' AND token = $3`, s.job, r.due, int64(token))
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, fmt.Errorf("%s is no longer at work", s.key(r)))
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO invoices (job, due, token) VALUES ($1, $2, $3)`, s.job, r.due, int64(token))
		return err
	})
}

// outside is the effect that the database knows nothing of.
func (s *scheduler) outside(ctx context.Context, token fence.Token, r run) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(s.takes):
	}
	if s.notify == "" {
		return nil
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.notify, strings.NewReader(s.key(r)))
	if err != nil {
		return err
	}
	q.Header.Set("Idempotency-Key", s.key(r))
	q.Header.Set("Fencing-Token", fmt.Sprintf("%s;%v", resource, token))
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s has not taken %s: %s", q.URL.Redacted(), s.key(r), resp.Status)
	}
	return nil
}
