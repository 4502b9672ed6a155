package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/electd/elect/driver"
)

// sqlite is SQLite, for the processes of one machine. It has no incarnation to tell: a
// file that was restored looks like the one that it replaces.
type sqlite struct{}

func (sqlite) quote(name string) string { return `"` + name + `"` }

func (sqlite) schema() string {
	return `CREATE TABLE IF NOT EXISTS {table} (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID`
}

func (sqlite) check(ctx context.Context, t *table) error {
	if _, err := (sqlite{}).read(ctx, t, ""); err != nil {
		return t.unusable(err)
	}
	return (sqlite{}).durable(ctx, t, func(*sql.Conn) error { return nil })
}

// durable runs do with a connection that syncs what it commits. In WAL mode NORMAL may
// lose commits when the power fails: SQLite's manual, "PRAGMA synchronous".
func (sqlite) durable(ctx context.Context, t *table, do func(*sql.Conn) error) error {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var level int
	if err := conn.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&level); err != nil {
		return err
	}
	if level < 2 {
		return driver.Permanent(fmt.Errorf("PRAGMA synchronous is %d: commits are lost when the power fails; want FULL (2), for each connection", level))
	}
	return do(conn)
}

func (sqlite) read(ctx context.Context, t *table, name string) (k content, err error) {
	err = k.scan(t.db.QueryRowContext(ctx, t.expand(`SELECT record FROM {table} WHERE name = ?`), name))
	return k, err
}

func (d sqlite) write(ctx context.Context, t *table, name string, replaces bool, old, text string) (store string, err error) {
	return "", d.durable(ctx, t, func(conn *sql.Conn) error {
		statement, args := `INSERT INTO {table} (name, record) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, []any{name, text}
		if replaces {
			statement, args = `UPDATE {table} SET record = ? WHERE name = ? AND record = ?`, []any{text, name, old}
		}
		return changed(conn.ExecContext(ctx, t.expand(statement), args...))
	})
}
