package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// sqlite is SQLite, 3.35 and later. It has one writer at a time. A check is an UPDATE of
// the mark with itself, so that the transaction is the writer from there on, whether it
// was begun as deferred or immediate.
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

func (sqlite) install(ctx context.Context, f *Fence) error {
	_, err := f.db.ExecContext(ctx, strings.ReplaceAll(`CREATE TABLE IF NOT EXISTS {table} (
		resource   TEXT NOT NULL PRIMARY KEY,
		token      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(token) = 'integer' AND (token = 0 OR token > 0 AND (token & 281474976710655) <> 0)),
		claimed_ms INTEGER
	)`, "{table}", f.table()))
	return err
}

func (sqlite) uninstall(ctx context.Context, f *Fence) error {
	_, err := f.db.ExecContext(ctx, `DROP TABLE IF EXISTS `+f.table())
	return err
}

func (sqlite) begin(ctx context.Context, conn *sql.Conn, patience time.Duration) (*sql.Tx, int64, func() error, error) {
	var before int64
	if err := conn.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&before); err != nil {
		return nil, 0, nil, err
	}
	set := func(ctx context.Context, milliseconds int64) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, milliseconds))
		return err
	}
	if err := set(ctx, patience.Milliseconds()); err != nil {
		return nil, 0, nil, err
	}
	end := func() error { return set(context.WithoutCancel(ctx), before) }
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, 0, nil, errors.Join(err, end())
	}
	return tx, 0, end, nil
}

// holders has nobody to ask: a lock on a file has no session.
func (sqlite) holders(context.Context, *Fence, int64) ([]holder, error) { return nil, nil }

func (sqlite) terminate(context.Context, *Fence, holder) error { return nil }

// classify goes by the text, which drivers take from the library.
func (sqlite) classify(err error) verdict {
	if text := err.Error(); strings.Contains(text, "database is locked") || strings.Contains(text, "SQLITE_BUSY") {
		return waited
	}
	return unknown
}
