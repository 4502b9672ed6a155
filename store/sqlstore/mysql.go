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

// mysql is MySQL and MariaDB. Each read and write is one statement in autocommit, so a host that
// vanishes leaves no lock behind, and no COMMIT waits for an answer. The isolation level makes no
// difference to an UPDATE, which looks at what was committed last, nor to a SELECT by itself, which
// sees what was committed before it began; only READ UNCOMMITTED shows more. At READ COMMITTED
// InnoDB refuses to write where the binary log has the form of statements: no participant could
// lead, so that is refused at once. The driver closes a connection on which a context ended.
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

// variables are those that judge wants.
const variables = `SHOW SESSION VARIABLES WHERE variable_name IN ('server_uuid', 'server_uid', 'hostname', 'port', 'datadir',
	'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'wsrep_on', 'autocommit', 'tx_isolation', 'transaction_isolation')`

// judge returns the identity of the server's data, and an error for settings by which the server
// forgets what it has acknowledged, or shows what is not so. MySQL has a server_uuid, which is in
// the data directory. MariaDB's server_uid is made of an address of the network and of the port, so
// what is known of the place is added to it.
func judge(v map[string]string) (id string, err error) {
	isolation := v["transaction_isolation"]
	if isolation == "" {
		isolation = v["tx_isolation"]
	}
	logs := v["log_bin"] == "ON"
	switch flush := v["innodb_flush_log_at_trx_commit"]; {
	case v["wsrep_on"] == "ON":
		err = errors.New("wsrep_on=ON: the servers of a Galera cluster do not show each other's writes at once; want one server that all participants ask")
	case flush != "1" && flush != "3":
		err = fmt.Errorf("innodb_flush_log_at_trx_commit=%s: the server forgets acknowledged writes in a crash; want 1", flush)
	case logs && v["sync_binlog"] != "1":
		err = fmt.Errorf("sync_binlog=%s with a binary log: the server rolls acknowledged writes back after a crash; want 1", v["sync_binlog"])
	case v["autocommit"] != "ON":
		err = fmt.Errorf("autocommit=%s: a write would not be committed; want ON", v["autocommit"])
	case isolation == "READ-UNCOMMITTED":
		err = errors.New("the isolation level is READ UNCOMMITTED: it shows what may be rolled back; want REPEATABLE READ")
	case isolation == "READ-COMMITTED" && logs && v["binlog_format"] == "STATEMENT":
		err = errors.New("the isolation level is READ COMMITTED with binlog_format=STATEMENT, where InnoDB does not write; want REPEATABLE READ, or ROW")
	case v["server_uuid"] != "":
		return v["server_uuid"], nil
	case v["hostname"] != "" && v["datadir"] != "":
		return fmt.Sprintf("%s@%s:%s%s", v["server_uid"], v["hostname"], v["port"], v["datadir"]), nil
	default:
		err = errors.New("the server does not tell what it is; want server_uuid, or hostname and datadir")
	}
	return "", driver.Permanent(err)
}

// on runs do on a connection whose settings are right.
func (mysql) on(ctx context.Context, t *table, do func(*sql.Conn) error) (store string, err error) {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	v, err := sessionVariables(ctx, conn)
	if err != nil {
		return "", err
	}
	if store, err = judge(v); err != nil {
		return "", err
	}
	return store, do(conn)
}

// sessionVariables are those of a connection.
func sessionVariables(ctx context.Context, conn *sql.Conn) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, variables)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	v := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		v[name] = value
	}
	return v, rows.Err()
}

func (d mysql) read(ctx context.Context, t *table, name string) (k content, err error) {
	k.store, err = d.on(ctx, t, func(conn *sql.Conn) error {
		return k.scan(conn.QueryRowContext(ctx, t.expand(`SELECT record FROM {table} WHERE name = ?`), name))
	})
	return k, err
}

func (d mysql) write(ctx context.Context, t *table, name string, replaces bool, old, text string) (store string, err error) {
	return d.on(ctx, t, func(conn *sql.Conn) error {
		statement, args := `INSERT IGNORE INTO {table} (name, record) VALUES (?, ?)`, []any{name, text}
		if replaces {
			statement, args = `UPDATE {table} SET record = ? WHERE name = ? AND record = ?`, []any{text, name, old}
		}
		return changed(conn.ExecContext(ctx, t.expand(statement), args...))
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
