package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/electd/elect/driver"
)

// sqlite is SQLite, for the processes of one machine. It has no incarnation to tell: a
// file that was restored in place looks like the one that it was.
type sqlite struct {
	file atomic.Pointer[file] // that of check; nil before, and for a database in memory
}

// file is where a database is.
type file struct {
	path string
	info os.FileInfo
}

func (*sqlite) quote(name string) string { return `"` + name + `"` }

func (*sqlite) schema() string {
	return `CREATE TABLE IF NOT EXISTS {table} (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID`
}

// unfitSQLite says what is wrong with the table ?1 of the database ?2, or is empty.
const unfitSQLite = `SELECT CASE
	WHEN (SELECT type FROM {schema}.sqlite_master WHERE name = ?1) <> 'table' THEN 'it is a view'
	WHEN EXISTS (SELECT 1 FROM sqlite_temp_master WHERE name = ?1) AND ?2 <> 'temp' THEN 'a temporary table or view hides it'
	WHEN (SELECT count(*) FROM pragma_table_info(?1, ?2) WHERE name IN ('name', 'record')
		AND (type = '' OR upper(type) LIKE '%TEXT%' OR upper(type) LIKE '%CHAR%')) < 2 THEN 'its columns name and record are not of type TEXT'
	WHEN NOT EXISTS (SELECT 1 FROM pragma_index_list(?1, ?2) l WHERE l."unique" AND NOT l.partial
		AND (SELECT group_concat(x.name || ' ' || x.coll) FROM pragma_index_xinfo(l.name, ?2) x WHERE x.key) = 'name BINARY')
		THEN 'its primary key is not name alone, with the collation BINARY'
	ELSE coalesce(
		(SELECT 'its column ' || name || ' must have a value, and has no default' FROM pragma_table_info(?1, ?2)
			WHERE name NOT IN ('name', 'record') AND "notnull" AND dflt_value IS NULL AND NOT (pk AND upper(type) = 'INTEGER')),
		(SELECT 'its trigger ' || name || ' can change what is written' FROM {schema}.sqlite_master WHERE type = 'trigger' AND tbl_name = ?1), '')
	END`

func (d *sqlite) check(ctx context.Context, t *table, writes bool) error {
	err := d.on(ctx, t, func(conn *sql.Conn, in *file) error {
		trial := `SELECT name, record FROM {table} WHERE name = ''`
		if writes { // it does nothing, and fails where writes do
			trial = `UPDATE {table} SET record = record WHERE name = '' AND 0`
		}
		if _, err := conn.ExecContext(ctx, t.expand(trial)); err != nil {
			return err
		}
		var unfit string
		name, query := t.plain[strings.LastIndex(t.plain, ".")+1:], strings.ReplaceAll(unfitSQLite, "{schema}", d.quote(t.database()))
		if err := conn.QueryRowContext(ctx, query, name, t.database()).Scan(&unfit); err != nil {
			return err
		} else if unfit != "" {
			return t.unusable(errors.New(unfit))
		}
		if in != nil {
			if n := links(in.info); n > 1 {
				return driver.Permanent(fmt.Errorf("the file %s has %d names: under each SQLite keeps another journal; want one", in.path, n))
			}
			d.file.Store(in)
		}
		return d.durable(ctx, t, conn, in)
	})
	if err == nil || driver.IsPermanent(err) {
		return err
	}
	// A database that is locked, or a disk that fails, may be better the next time.
	switch text := err.Error(); {
	case strings.Contains(text, "no such"), strings.Contains(text, "not a database"), strings.Contains(text, "cannot modify"):
		return t.unusable(err)
	case strings.Contains(text, "readonly"):
		return driver.Permanent(noWrites{fmt.Errorf("the database takes no writes: %w; want a file that may be written, no mode=ro, and no PRAGMA query_only", err)})
	}
	return err
}

// on runs do on a connection to the file that check has found; in is nil for a database in memory.
// SQLite does not see that a file was replaced or removed, or has another name under which it keeps
// another journal: manual, "How To Corrupt An SQLite Database File". So the path is looked at before
// and after. A connection that may have opened another file is not used again.
func (d *sqlite) on(ctx context.Context, t *table, do func(conn *sql.Conn, in *file) error) error {
	in := d.file.Load()
	if in != nil { // before a connection makes the file
		if err := in.there(); err != nil {
			return err
		}
	}
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	path, err := where(ctx, conn, t.database())
	if err != nil {
		return err
	}
	if in == nil && path != "" {
		in = &file{path: path}
		if in.info, err = os.Stat(path); err != nil {
			return err
		}
	}
	if in == nil {
		return do(conn, nil)
	}
	gone := fmt.Errorf("the database is now %s; want %s, with which the participant began", path, in.path)
	if path == in.path {
		err = do(conn, in)
		gone = in.there()
	}
	if gone != nil {
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // which closes it
		return gone
	}
	return err
}

// where returns the path of a connection's database, "" for one in memory.
func where(ctx context.Context, conn *sql.Conn, database string) (path string, err error) {
	rows, err := conn.QueryContext(ctx, `PRAGMA database_list`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		var name, at sql.NullString
		if err := rows.Scan(&n, &name, &at); err != nil {
			return "", err
		}
		if name.String == database {
			path = at.String
		}
	}
	return path, rows.Err()
}

// there returns an error if another file is at the path, or none.
func (f *file) there() error {
	info, err := os.Stat(f.path)
	if err == nil && !os.SameFile(info, f.info) {
		err = errors.New("another file is there")
	}
	if err != nil {
		return fmt.Errorf("the database %s was replaced or removed: %w; want the file with which the participant began", f.path, err)
	}
	return nil
}

// durable returns an error for a connection that does not sync what it commits. In WAL mode
// NORMAL may lose commits when the power fails: SQLite's manual, "PRAGMA synchronous". Without a
// journal on the disk a crash leaves half a write: "PRAGMA journal_mode".
func (d *sqlite) durable(ctx context.Context, t *table, conn *sql.Conn, in *file) error {
	pragma := func(name string, value any) error {
		return conn.QueryRowContext(ctx, `PRAGMA `+d.quote(t.database())+`.`+name).Scan(value)
	}
	var level int
	if err := pragma("synchronous", &level); err != nil {
		return err
	}
	if level < 2 {
		return driver.Permanent(fmt.Errorf("PRAGMA synchronous is %d: commits are lost when the power fails; want FULL (2), for each connection", level))
	}
	if in == nil {
		return nil // its journal is in memory too
	}
	var journal string
	if err := pragma("journal_mode", &journal); err != nil {
		return err
	}
	if journal == "off" || journal == "memory" {
		return driver.Permanent(fmt.Errorf("PRAGMA journal_mode is %s: a crash destroys the database; want WAL or DELETE", journal))
	}
	return nil
}

func (d *sqlite) read(ctx context.Context, t *table, name string) (k content, err error) {
	err = d.on(ctx, t, func(conn *sql.Conn, _ *file) error {
		return k.scan(conn.QueryRowContext(ctx, t.expand(`SELECT record FROM {table} WHERE name = ?`), name))
	})
	return k, err
}

func (d *sqlite) write(ctx context.Context, t *table, name string, replaces bool, old, text string) (store string, err error) {
	return "", d.on(ctx, t, func(conn *sql.Conn, in *file) error {
		if err := d.durable(ctx, t, conn, in); err != nil {
			return err
		}
		statement, args := `INSERT INTO {table} (name, record) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, []any{name, text}
		if replaces {
			statement, args = `UPDATE {table} SET record = ? WHERE name = ? AND record = ?`, []any{text, name, old}
		}
		return changed(conn.ExecContext(ctx, t.expand(statement), args...))
	})
}
