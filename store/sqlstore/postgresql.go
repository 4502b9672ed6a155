package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

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

// unfit says what is wrong with the table c, or NULL. A trigger before each row can change or drop what is written.
// Other triggers can do harm too, but not unnoticed.
const unfit = `CASE
	WHEN c.relkind NOT IN ('r', 'p') OR EXISTS (SELECT FROM parts WHERE relkind NOT IN ('r', 'p'))
		THEN 'it is a view, or a table of another server'
	WHEN c.relpersistence <> 'p' OR EXISTS (SELECT FROM parts WHERE relpersistence <> 'p')
		THEN 'it is unlogged or temporary, and lost in a crash'
	ELSE coalesce((SELECT 'it has no column ' || string_agg(w.name, ' and ') || ' of type text that is long enough and equal to itself only'
		FROM (VALUES ('name', 128), ('record', 32768)) w (name, least) WHERE NOT EXISTS (
			SELECT FROM pg_attribute a LEFT JOIN pg_collation l ON l.oid = a.attcollation
			WHERE a.attrelid = c.oid AND a.attname = w.name AND a.attgenerated = '' AND a.atttypid IN ('text'::regtype, 'varchar'::regtype)
				AND (a.atttypmod < 0 OR a.atttypmod - 4 >= w.least) AND coalesce(l.collisdeterministic, true))),
		(SELECT 'its column ' || string_agg(attname, ' and ') || ' must have a value, and has no default' FROM pg_attribute
			WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('name', 'record')
				AND attnotnull AND NOT atthasdef AND attidentity = ''),
		CASE WHEN NOT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
			WHERE i.indrelid = c.oid AND a.attname = 'name' AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indnkeyatts = 1 AND i.indpred IS NULL)
			THEN 'its primary key is not name alone' END,
		(SELECT 'its rule ' || string_agg(rulename, ' and ') || ' replaces writes' FROM pg_rewrite
			WHERE ev_class = c.oid AND ev_type IN ('2', '3') AND ev_enabled <> 'D'),
		(SELECT 'its trigger ' || string_agg(DISTINCT tgname, ' and ') || ' can change what is written' FROM pg_trigger
			WHERE (tgrelid = c.oid OR tgrelid IN (SELECT oid FROM parts)) AND NOT tgisinternal AND tgenabled IN ('O', 'A') AND tgtype & 3 = 3 AND tgtype & 20 <> 0),
		CASE WHEN row_security_active(c.oid) THEN 'row-level security hides rows from the role ' || current_user END)
	END`

// lacking lists the rights that the role does not have: those on the table c, and those to execute functions. A right
// on both columns is enough.
const lacking = `(SELECT string_agg(p, ', ') FROM unnest(ARRAY[{rights}]) p WHERE EXISTS (SELECT FROM pg_attribute
		WHERE attrelid = c.oid AND (attname = 'record' OR attname = 'name' AND p <> 'UPDATE') AND NOT has_column_privilege(c.oid, attnum, p))),
	(SELECT string_agg(f, ', ') FROM unnest(ARRAY[{functions}]) f WHERE NOT has_function_privilege(f, 'EXECUTE'))`

func (d postgresql) check(ctx context.Context, t *table, writes bool) error {
	rights, functions := `'SELECT'`, `'pg_control_system()', 'pg_walfile_name(pg_lsn)', 'pg_current_wal_insert_lsn()'`
	if writes {
		rights, functions = rights+`, 'INSERT', 'UPDATE'`, functions+`, 'pg_notify(text, text)'`
	}
	var wrong, noRights, noFunctions sql.NullString
	var commit, standbys, fsync, role string
	var standby, readOnly bool
	err := t.db.QueryRowContext(ctx, strings.NewReplacer(`{rights}`, rights, `{functions}`, functions).Replace(
		`WITH parts AS (SELECT q.* FROM pg_partition_tree(to_regclass($1)) p JOIN pg_class q ON q.oid = p.relid)
		SELECT `+unfit+`, `+lacking+`, `+settings+`, current_setting('fsync'), quote_ident(current_user), pg_is_in_recovery(), current_setting('transaction_read_only') <> 'off'
		FROM pg_class c WHERE c.oid = to_regclass($1)`), t.name).Scan(&wrong, &noRights, &noFunctions, &commit, &standbys, &fsync, &role, &standby, &readOnly)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return t.unusable(d.elsewhere(ctx, t))
	case slices.Contains([]string{"28000", "28P01", "3D000", "42501"}, state(err)): // of the user, the database, a right
		return driver.Permanent(fmt.Errorf("the server refuses: %s; want a user that may connect, a database that exists, and USAGE on the table's schema", oneLine(err)))
	case err != nil:
		return err
	case wrong.Valid:
		return t.unusable(errors.New(wrong.String))
	case noRights.Valid:
		return driver.Permanent(noWrites{fmt.Errorf("the role %s lacks rights on the table %s; want GRANT %s ON %[2]s TO %[1]s", role, t.plain, noRights.String)})
	case noFunctions.Valid:
		return driver.Permanent(fmt.Errorf("the role %s lacks rights on functions; want GRANT EXECUTE ON FUNCTION %s TO %[1]s", role, noFunctions.String))
	case fsync != "on":
		return driver.Permanent(errors.New("the server has fsync=off: it forgets acknowledged writes in a crash; want fsync=on"))
	case standby: // it may be promoted
		return errors.New("the server is a standby; want the primary, as with target_session_attrs=read-write")
	case writes && readOnly: // programs that promote a standby set this for a while
		return errors.New("the server takes no writes, by default_transaction_read_only; want off")
	}
	if err := forgets(commit, standbys); err != nil {
		return driver.Permanent(err)
	}
	k, err := d.read(ctx, t, "")
	if err == nil && k.store == "" {
		err = errors.New("the server does not tell its system identifier")
	}
	return err
}

// elsewhere says where a table is that was not found.
func (postgresql) elsewhere(ctx context.Context, t *table) error {
	var path, there string
	name := t.plain[strings.LastIndex(t.plain, ".")+1:]
	err := t.db.QueryRowContext(ctx, `SELECT current_setting('search_path'), string_agg(n.nspname || CASE WHEN has_schema_privilege(n.oid, 'USAGE') THEN '' ELSE ' (without USAGE for ' || current_user || ')' END, ', ')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = $1`, name).Scan(&path, &there)
	if err != nil {
		return errors.New("it does not exist")
	}
	return fmt.Errorf("it is not in the search_path %s, but in the schema %s", path, there)
}

// state is the SQLSTATE of a server's error, "" for any other error. Both pgx and lib/pq have the method.
func state(err error) string {
	if coded, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return coded.SQLState()
	}
	return ""
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

func (d postgresql) read(ctx context.Context, t *table, name string) (content, error) {
	all, err := d.readAll(ctx, t, []string{name})
	if err != nil {
		return content{}, err
	}
	return all[0], nil
}

var _ joiner = postgresql{}

// readAll implements [joiner]. No name contains a slash.
func (postgresql) readAll(ctx context.Context, t *table, names []string) ([]content, error) {
	rows, err := t.db.QueryContext(ctx, t.expand(`SELECT t.name, t.record, i.store FROM (SELECT `+incarnation+` AS store) i
		LEFT JOIN {table} t ON t.name = ANY (string_to_array($1, '/'))`), strings.Join(names, "/"))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all, store := make([]content, len(names)), ""
	for rows.Next() {
		var name, text sql.NullString
		if err := rows.Scan(&name, &text, &store); err != nil {
			return nil, err
		}
		for i := range names {
			if name.Valid && names[i] == name.String {
				all[i].text, all[i].there = text.String, true
			}
		}
	}
	for i := range all {
		all[i].store = store
	}
	return all, rows.Err()
}

func (d postgresql) write(ctx context.Context, t *table, name string, replaces bool, old, text string) (store string, err error) {
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
	store, _, err = d.written(ctx, t, statement, args...)
	return store, err
}

// written executes a statement that writes, and returns the incarnation, the settings, and one more column.
func (postgresql) written(ctx context.Context, t *table, statement string, args ...any) (store, last string, err error) {
	var commit, standbys string
	err = t.db.QueryRowContext(ctx, t.expand(statement), args...).Scan(&store, &commit, &standbys, &last)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", "", register.ErrConflict
	case err != nil:
		return "", "", err
	}
	if err := forgets(commit, standbys); err != nil { // in this session, whatever the one of check had
		return "", "", fmt.Errorf("written, but %w", err)
	}
	return store, last, nil
}

// replaceAll implements [joiner]. The statement waits for no lock, so it cannot deadlock, and a row that another program
// has locked keeps no other waiting. If the server refuses it, for example because of one row at REPEATABLE READ,
// nothing was replaced. The arguments are JSON, because drivers do not agree about arrays.
func (d postgresql) replaceAll(ctx context.Context, t *table, all []change) ([]string, error) {
	type line struct {
		I    int    `json:"i"`
		Name string `json:"name"`
		Old  string `json:"old"`
		Text string `json:"text"`
		News bool   `json:"news"`
	}
	stores, lines := make([]string, len(all)), []line{}
	for i, c := range all {
		if utf8.ValidString(c.old) { // JSON has no other text
			lines = append(lines, line{i, c.name, c.old, c.text, c.news})
		}
	}
	text, err := json.Marshal(lines)
	if err != nil {
		return nil, err
	}
	store, done, err := d.written(ctx, t, `WITH c AS (SELECT * FROM json_to_recordset($1::text::json) AS c (i int, name text, old text, text text, news bool)),
		l AS (SELECT c.* FROM c JOIN {table} t ON t.name = c.name AND t.record = c.old FOR UPDATE OF t SKIP LOCKED),
		d AS (UPDATE {table} t SET record = l.text FROM l WHERE t.name = l.name AND t.record = l.old RETURNING l.i, l.name, l.news)
		SELECT `+incarnation+`, `+settings+`, coalesce(json_agg(i), '[]')::text || coalesce(min(CASE WHEN news THEN pg_notify('`+channel+`', name)::text END), '') FROM d`, string(text))
	if s := state(err); s != "" && !strings.HasPrefix(s, "57") && !strings.HasPrefix(s, "08") { // an operator intervened or, by a pooler, the connection broke: perhaps after the commit
		return stores, nil
	} else if err != nil {
		return nil, err
	}
	var numbers []int
	if err := json.Unmarshal([]byte(done), &numbers); err != nil {
		return nil, err
	}
	for _, i := range numbers {
		stores[i] = store
	}
	return stores, nil
}
