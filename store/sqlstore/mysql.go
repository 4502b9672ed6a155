package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/register"
)

// mysql is MySQL and MariaDB. Reads and writes are transactions: a session may have
// autocommit off, or read what is not committed, by default. An UPDATE reads what was
// committed last, at REPEATABLE READ too; READ COMMITTED is refused where the binary log
// has the form of statements.
type mysql struct{}

func (mysql) quote(name string) string { return "`" + name + "`" }

// schema compares bytes: 128 of them are the longest name of an election.
func (mysql) schema() string {
	return `CREATE TABLE IF NOT EXISTS {table} (
	name   VARBINARY(128) NOT NULL PRIMARY KEY,
	record VARBINARY(32768) NOT NULL
) ENGINE=InnoDB`
}

func (mysql) check(ctx context.Context, t *table) error {
	schema, name, found := strings.Cut(t.plain, ".")
	if !found {
		schema, name = "", t.plain
	}
	var engine sql.NullString
	err := t.db.QueryRowContext(ctx, `SELECT engine FROM information_schema.tables
		WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ?`, schema, name).Scan(&engine)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return t.unusable(errors.New("it does not exist"))
	case err != nil:
		return err
	case engine.String != "InnoDB":
		return t.unusable(fmt.Errorf("it is of engine %s; want InnoDB, which syncs what it commits", engine.String))
	}
	_, err = (mysql{}).read(ctx, t, "")
	return err
}

// server is the server's identity, and refuses settings by which it forgets what it has
// acknowledged. MySQL calls the identity server_uuid, MariaDB server_uid.
func (mysql) server(ctx context.Context, tx *sql.Tx) (id string, err error) {
	rows, err := tx.QueryContext(ctx, `SHOW GLOBAL VARIABLES WHERE variable_name IN ('server_uuid', 'server_uid', 'innodb_flush_log_at_trx_commit', 'wsrep_on')`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return "", err
		}
		switch {
		case strings.HasPrefix(name, "server_u"):
			id = value
		case name == "wsrep_on" && value == "ON":
			return "", driver.Permanent(errors.New("wsrep_on=ON: the servers of a Galera cluster do not show each other's writes at once; want one server that all participants ask"))
		case strings.HasPrefix(name, "innodb") && value != "1" && value != "3":
			return "", driver.Permanent(fmt.Errorf("%s=%s: the server forgets acknowledged writes in a crash; want 1", name, value))
		}
	}
	return id, rows.Err()
}

// in runs do in a transaction. Its error is that of an unknown outcome, if do has returned none.
func (d mysql) in(ctx context.Context, t *table, do func(tx *sql.Tx) error) (store string, err error) {
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return "", err
	}
	defer tx.Rollback() // after a commit it does nothing
	if store, err = d.server(ctx, tx); err != nil {
		return "", err
	}
	if err := do(tx); err != nil {
		return "", err
	}
	return store, tx.Commit()
}

func (d mysql) read(ctx context.Context, t *table, name string) (k content, err error) {
	k.store, err = d.in(ctx, t, func(tx *sql.Tx) error {
		return k.scan(tx.QueryRowContext(ctx, t.expand(`SELECT record FROM {table} WHERE name = ?`), name))
	})
	return k, err
}

func (d mysql) write(ctx context.Context, t *table, name string, replaces bool, old, text string) (store string, err error) {
	return d.in(ctx, t, func(tx *sql.Tx) error {
		statement, args := `INSERT IGNORE INTO {table} (name, record) VALUES (?, ?)`, []any{name, text}
		if replaces {
			statement, args = `UPDATE {table} SET record = ? WHERE name = ? AND record = ?`, []any{text, name, old}
		}
		return changed(tx.ExecContext(ctx, t.expand(statement), args...))
	})
}

// changed turns the result of a conditional write into an error.
func changed(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return err
	case n == 0:
		return register.ErrConflict
	}
	return nil
}
