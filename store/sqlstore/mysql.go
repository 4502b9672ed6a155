package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// trials change nothing, and need the rights of a read, an INSERT and an UPDATE. Nothing else tells what the roles of a
// user permit.
var trials = []string{
	`SELECT name, record FROM {table} WHERE name = ''`,
	`EXPLAIN INSERT IGNORE INTO {table} (name, record) VALUES ('', '')`,
	`UPDATE {table} SET record = record WHERE name = '' AND 1 = 0`,
}

// refused are errors of a server that no later attempt mends, by number, and what would be right.
var refused = []struct {
	numbers []int
	want    string
}{
	{[]int{1044, 1142, 1143}, "GRANT SELECT, INSERT, UPDATE ON {table} to the user"},
	{[]int{1045, 1049, 1698}, "a user and a database that exist, and a password that is right"},
	{[]int{1046}, "a database in the URL, or as table=database.name"},
	{[]int{1054, 1146, 1347, 1471}, "one made by elect install (sqlstore.Install)"}, // no such column or table, or a view
	{[]int{1792}, "tx_read_only=OFF"},
}

// refusalOf makes an error of check permanent if it lasts, and says what would be right.
func refusalOf(t *table, err error) error {
	if err == nil || driver.IsPermanent(err) {
		return err
	}
	for _, r := range refused {
		for _, n := range r.numbers {
			if numbered(err, n) {
				is := fmt.Errorf("the table %s cannot be used: %s; want %s", t.plain, oneLine(err), t.expand(r.want))
				if strings.HasPrefix(r.want, "GRANT") {
					is = noWrites{is}
				}
				return driver.Permanent(is)
			}
		}
	}
	if numbered(err, 1290) || numbered(err, 1836) { // it may be promoted
		return fmt.Errorf("the server takes no writes, as a replica: %w; want the primary", err)
	}
	return err
}

// numbered reports whether err is a server's error with that number. The driver has the number in a field, which only a
// program that imports the driver can read, and at the beginning of the text.
func numbered(err error, number int) bool {
	_, after, ok := strings.Cut(err.Error(), fmt.Sprintf("Error %d", number))
	return ok && (strings.HasPrefix(after, " (") || strings.HasPrefix(after, ":"))
}

// unfit says what is wrong with the table. INSERT IGNORE gives a value to a column without a default. Only a user with
// the right TRIGGER sees triggers. The queries are plain: MariaDB 10.11 crashed on one with the same conditions in
// correlated subqueries.
func (mysql) unfit(ctx context.Context, t *table, conn *sql.Conn) (wrong, err error) {
	schema, name, found := strings.Cut(t.plain, ".")
	if !found {
		schema, name = "", t.plain
	}
	ask := func(query string) (found [][4]string, err error) {
		rows, err := conn.QueryContext(ctx, query, schema, name)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var r [4]string
			if err := rows.Scan(&r[0], &r[1], &r[2], &r[3]); err != nil {
				return nil, err
			}
			found = append(found, r)
		}
		return found, rows.Err()
	}
	const of = ` WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ?`
	kinds, err := ask(`SELECT table_type, COALESCE(engine, ''), '', '' FROM information_schema.tables` + of)
	if err != nil {
		return nil, err
	} else if len(kinds) == 0 {
		return errors.New("it is temporary"), nil
	}
	if kind, engine := kinds[0][0], kinds[0][1]; kind != "BASE TABLE" {
		return fmt.Errorf("it is a %s", kind), nil
	} else if engine != "InnoDB" {
		return fmt.Errorf("it is of engine %s; want InnoDB, which syncs what it commits", engine), nil
	}
	columns, err := ask(`SELECT column_name, data_type, COALESCE(character_maximum_length, 0), COALESCE(collation_name, 'binary_bin') FROM information_schema.columns` + of)
	if err != nil {
		return nil, err
	}
	longest := map[string]int{"name": driver.MaxName, "record": register.MaxRecord}
	for _, c := range columns {
		want, ours := longest[strings.ToLower(c[0])]
		if n, err := strconv.ParseUint(c[2], 10, 64); !ours || err != nil || n < uint64(want) || !strings.HasSuffix(c[3], "_bin") || c[1] == "binary" || c[1] == "char" {
			continue
		}
		delete(longest, strings.ToLower(c[0]))
	}
	if len(longest) > 0 {
		return fmt.Errorf("it has no column %s of type VARBINARY that is long enough", strings.Join(slices.Sorted(maps.Keys(longest)), " and ")), nil
	}
	parts, err := ask(`SELECT index_name, non_unique, COALESCE(column_name, ''), sub_part IS NOT NULL FROM information_schema.statistics` + of)
	if err != nil {
		return nil, err
	}
	keys := map[string][][4]string{}
	for _, p := range parts {
		keys[p[0]] = append(keys[p[0]], p)
	}
	unique := false
	for _, key := range keys {
		unique = unique || len(key) == 1 && key[0][1] == "0" && strings.EqualFold(key[0][2], "name") && key[0][3] == "0"
	}
	if !unique {
		return errors.New("its primary key is not name alone"), nil
	}
	triggers, err := ask(`SELECT trigger_name, '', '', '' FROM information_schema.triggers
		WHERE event_object_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND event_object_table = ? AND action_timing = 'BEFORE' AND event_manipulation <> 'DELETE'`)
	if err == nil && len(triggers) > 0 {
		wrong = fmt.Errorf("its trigger %s can change what is written", triggers[0][0])
	}
	return wrong, err
}

func (d mysql) check(ctx context.Context, t *table, writes bool) error {
	var wrong error
	_, err := d.on(ctx, t, func(conn *sql.Conn) error {
		for i, trial := range trials {
			if i > 0 && !writes {
				break
			}
			if _, err := conn.ExecContext(ctx, t.expand(trial)); err != nil {
				return err
			}
		}
		var err error
		wrong, err = d.unfit(ctx, t, conn)
		return err
	})
	if err == nil && wrong != nil {
		return t.unusable(wrong)
	}
	return refusalOf(t, err)
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
