package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// sqlite is SQLite, 3.35 and later. It has one writer at a time. A check is an UPDATE of the mark with itself, so
// that the transaction is the writer from then on. database/sql cannot choose whether the driver begins it as
// deferred or immediate. As the first statement the check waits for another writer, as BEGIN IMMEDIATE does; after a
// read it fails at once if another connection has written since (SQLITE_BUSY_SNAPSHOT).
//
// There are no triggers that check: a program has no place to show its token that belongs to the transaction alone
// and that a trigger may read.
type sqlite struct{}

func (sqlite) quote(name string) string { return `"` + name + `"` }

func (sqlite) statements(table string) statements {
	r := strings.NewReplacer("{table}", table)
	return statements{
		add:     r.Replace(`INSERT INTO {table} (resource) VALUES (?) ON CONFLICT (resource) DO NOTHING`),
		remove:  r.Replace(`DELETE FROM {table} WHERE resource = ?`),
		highest: r.Replace(`SELECT token FROM {table} WHERE resource = ?`),
		refusal: r.Replace(`SELECT token FROM {table} WHERE resource = ?`),
		raise:   r.Replace(`UPDATE {table} SET token = ?, claimed_ms = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) WHERE resource = ? AND token <= ?`),
		check:   r.Replace(`UPDATE {table} SET token = token WHERE resource = ? AND token <= ? RETURNING token`),
		share:   r.Replace(`UPDATE {table} SET token = token WHERE resource = ? AND token <= ? RETURNING token`),
		status:  r.Replace(`SELECT resource, token, claimed_ms FROM {table} ORDER BY resource`),
	}
}

func (sqlite) install(ctx context.Context, m *Mark) error {
	_, err := m.db.ExecContext(ctx, strings.ReplaceAll(`CREATE TABLE IF NOT EXISTS {table} (
		resource   TEXT NOT NULL PRIMARY KEY,
		token      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(token) = 'integer' AND (token = 0 OR token > 0 AND (token & 281474976710655) <> 0)),
		claimed_ms INTEGER
	)`, "{table}", m.table()))
	return err
}

func (sqlite) warnings(ctx context.Context, m *Mark) ([]string, error) {
	var mode string
	if err := m.db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return nil, err
	}
	if mode == "off" || mode == "memory" {
		return []string{"journal_mode=" + mode + ": the journal is not on the disk: a process that is killed may leave a database that is corrupt"}, nil
	}
	return nil, nil
}

func (sqlite) uninstall(ctx context.Context, m *Mark) error {
	_, err := m.db.ExecContext(ctx, `DROP TABLE IF EXISTS `+m.table())
	return err
}

// synchronousFull is the level at which each commit is synced in every journal mode:
// SQLite, "PRAGMA synchronous". At NORMAL, 1, those of a write-ahead log are not.
const synchronousFull = 2

// begin bounds how long the connection waits, and makes the claim's commit durable if other commits are not. Both are
// settings of the connection, and are restored.
func (sqlite) begin(ctx context.Context, conn *sql.Conn, patience time.Duration) (*sql.Tx, int64, func() error, error) {
	var busy, synchronous int64
	if err := conn.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&busy); err != nil {
		return nil, 0, nil, err
	}
	if err := conn.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&synchronous); err != nil {
		return nil, 0, nil, err
	}
	set := func(ctx context.Context, busy, synchronous int64) error {
		for _, s := range []string{fmt.Sprintf(`PRAGMA busy_timeout = %d`, busy), fmt.Sprintf(`PRAGMA synchronous = %d`, synchronous)} {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
	end := func() error { return set(context.WithoutCancel(ctx), busy, synchronous) }
	if err := set(ctx, patience.Milliseconds(), max(synchronous, synchronousFull)); err != nil {
		return nil, 0, nil, errors.Join(err, end())
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, 0, nil, errors.Join(err, end())
	}
	return tx, 0, end, nil
}

// holders returns nothing: a lock on a file has no session.
func (sqlite) holders(context.Context, *Mark, int64) ([]holder, error) { return nil, nil }

func (sqlite) terminate(context.Context, *Mark, holder) error { return nil }

// classify uses the text, which drivers take from the library. A refused commit leaves the transaction open; drivers
// of database/sql then roll it back, as they must.
func (sqlite) classify(err error) verdict {
	switch text := err.Error(); {
	case strings.Contains(text, "database is locked"), strings.Contains(text, "SQLITE_BUSY"):
		return waited
	case strings.Contains(text, "constraint failed"): // a foreign key that is checked at the commit
		return refused
	case strings.Contains(text, "no such table"):
		return absent
	}
	return unknown
}
