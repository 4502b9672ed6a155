package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/register"
)

// postgresql needs no transaction of several statements, so poolers in transaction mode
// do. At READ COMMITTED, an UPDATE that has waited for another one looks at the row again:
// manual of PostgreSQL, "Transaction Isolation". At the levels above it fails, which is
// resolved by reading.
type postgresql struct{}

func (postgresql) quote(name string) string { return `"` + name + `"` }

func (postgresql) schema() string {
	return `CREATE TABLE IF NOT EXISTS {table} (
	name   TEXT COLLATE "C" PRIMARY KEY,
	record TEXT COLLATE "C" NOT NULL
)`
}

// incarnation names the database cluster and its timeline, which is another one after a
// failover or a restore. It fails on a standby, which may lag.
const incarnation = `(SELECT system_identifier FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)`

func (postgresql) check(ctx context.Context, t *table) error {
	var kept, rows bool
	var commit, standbys, fsync string
	err := t.db.QueryRowContext(ctx, `SELECT
			c.relpersistence = 'p' AND NOT EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class q ON q.oid = p.relid WHERE q.relpersistence <> 'p'),
			c.relkind IN ('r', 'p') AND NOT EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class q ON q.oid = p.relid WHERE q.relkind NOT IN ('r', 'p')),
			`+settings+`, current_setting('fsync')
		FROM pg_class c WHERE c.oid = to_regclass($1)`, t.name).Scan(&kept, &rows, &commit, &standbys, &fsync)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return t.unusable(errors.New("it does not exist"))
	case err != nil:
		return err
	case !rows:
		return t.unusable(errors.New("it is a view, or a table of another server"))
	case !kept:
		return t.unusable(errors.New("it is unlogged or temporary, and lost in a crash"))
	case fsync != "on":
		return driver.Permanent(errors.New("the server has fsync=off: it forgets acknowledged writes in a crash; want fsync=on"))
	}
	if err := forgets(commit, standbys); err != nil {
		return driver.Permanent(err)
	}
	k, err := (postgresql{}).read(ctx, t, "")
	if err == nil && k.store == "" {
		err = errors.New("the server does not tell its system identifier")
	}
	return err
}

// settings are the arguments of forgets.
const settings = `current_setting('synchronous_commit'), current_setting('synchronous_standby_names')`

// forgets returns an error for settings by which the server forgets what it has acknowledged, in a
// crash of its own or of a standby that takes over.
func forgets(commit, standbys string) error {
	switch {
	case commit == "off":
		return errors.New("synchronous_commit is off: the server forgets acknowledged writes in a crash; want on, for the role of the election at least")
	case standbys != "" && (commit == "local" || commit == "remote_write"):
		return fmt.Errorf("synchronous_commit is %s: a synchronous standby may not have what was acknowledged, after a crash of both; want on, for the role of the election at least", commit)
	}
	return nil
}

func (postgresql) read(ctx context.Context, t *table, name string) (k content, err error) {
	var text sql.NullString
	err = t.db.QueryRowContext(ctx, t.expand(`SELECT (SELECT record FROM {table} WHERE name = $1), `+incarnation), name).Scan(&text, &k.store)
	k.text, k.there = text.String, text.Valid
	return k, err
}

func (postgresql) write(ctx context.Context, t *table, name string, replaces bool, old, text string) (store string, err error) {
	statement, args := `INSERT INTO {table} (name, record) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, []any{name, text}
	if replaces {
		statement, args = `UPDATE {table} SET record = $2 WHERE name = $1 AND record = $3`, append(args, old)
	}
	statement += ` RETURNING ` + incarnation + `, ` + settings
	if register.News(old, text) { // not a renewal, which the others need not know at once
		statement += `, pg_notify('` + channel + `', name)::text`
	} else {
		statement += `, ''`
	}
	var commit, standbys, notified string
	err = t.db.QueryRowContext(ctx, t.expand(statement), args...).Scan(&store, &commit, &standbys, &notified)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", register.ErrConflict
	case err != nil:
		return "", err
	}
	if err := forgets(commit, standbys); err != nil { // in this session, whatever the one of check had
		return "", fmt.Errorf("written, but %w", err)
	}
	return store, nil
}
