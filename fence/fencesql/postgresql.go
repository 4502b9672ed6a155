package fencesql

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/fence"
)

// postgresql is PostgreSQL, 12 and later.
//
// A check is a SELECT … FOR SHARE, which conflicts with the UPDATE of a claim until the transaction ends, and which,
// when it has waited for one, looks at the row as it is then (READ COMMITTED) or fails (REPEATABLE READ,
// SERIALIZABLE): manual, sections 13.2 and 13.3.2. A predicate alone holds nothing and reads a snapshot, and FOR KEY
// SHARE does not conflict with an UPDATE of other columns than the key.
//
// A row that is locked FOR SHARE can be locked so by further transactions, even if another waits to update it
// (heap_lock_tuple; README.tuplock). Short overlapping transactions would exclude a claim for ever, with each of its
// waits shorter than lock_timeout. So a check first takes an advisory lock, shared, and a claim takes it exclusively:
// the lock manager's queues are in order (README of its storage/lmgr). The row protects the data: a program that does
// not take the advisory lock is unfair, but no less safe.
type postgresql struct{}

// The advisory lock of a resource is one of its row, by the table and the name. Two resources with the same number by
// chance wait for each other; that has no other effect.
const postgresqlLock = `pg_catalog.hashtextextended(resource, tableoid::pg_catalog.int8)`

func (postgresql) quote(name string) string { return `"` + name + `"` }

func (postgresql) statements(table string) statements {
	r := strings.NewReplacer("{table}", table, "{lock}", postgresqlLock)
	return statements{
		add:     r.Replace(`INSERT INTO {table} (resource) VALUES ($1) ON CONFLICT (resource) DO NOTHING`),
		remove:  r.Replace(`DELETE FROM {table} WHERE resource = $1`),
		highest: r.Replace(`SELECT token FROM {table} WHERE resource = $1`),
		refusal: r.Replace(`SELECT token FROM {table} WHERE resource = $1`),
		queue:   r.Replace(`SELECT pg_advisory_xact_lock({lock}) FROM {table} WHERE resource = $1`),
		raise:   r.Replace(`UPDATE {table} SET token = $1, claimed_at = clock_timestamp() WHERE resource = $2 AND token <= $3`),
		confirm: `SELECT pg_catalog.pg_logical_emit_message(true, 'elect', '')`, // a record in the log, without other effects
		check:   r.Replace(`SELECT token FROM (SELECT token, set_config('elect.token', $2::bigint::text, true), pg_advisory_xact_lock_shared({lock}) FROM {table} WHERE resource = $1 AND token <= $2::bigint FOR SHARE) AS mark`),
		share:   r.Replace(`SELECT token FROM (SELECT token, set_config('idle_in_transaction_session_timeout', '0', true), set_config('application_name', 'elect fence hold', true), pg_advisory_xact_lock_shared({lock}) FROM {table} WHERE resource = $1 AND token <= $2::bigint FOR SHARE) AS mark`),
		token:   `SELECT set_config('elect.token', $1::bigint::text, true)`,
		status:  r.Replace(`SELECT resource, token, (extract(epoch FROM claimed_at) * 1000)::bigint FROM {table} ORDER BY resource`),
	}
}

// SQLSTATEs of the trigger. By the SQL standard classes that begin with I to Z belong to the implementation, and
// PostgreSQL does not use LF.
const (
	stateStale     = "LF001"
	stateMissing   = "LF002"
	stateMalformed = "LF003"
	stateForeign   = "LF004"
	stateUnclaimed = "LF005"
)

// installing serializes concurrent installations: CREATE … IF NOT EXISTS alone may fail then.
const installing = 0x656c656374 // "elect"

const postgresqlTable = `CREATE TABLE IF NOT EXISTS {table} (
	resource   varchar(128) COLLATE "C" PRIMARY KEY CHECK (resource ~ '^[A-Za-z0-9._/:@-]+$'),
	token      bigint NOT NULL DEFAULT 0 CHECK (token = 0 OR token > 0 AND (token & 281474976710655) <> 0),
	claimed_at timestamptz
)`

// The trigger's function runs with the rights of the user who installed it, so that the programs need none on the
// table of marks. Every operator and function in it names its schema: a search_path cannot make it use others. SET
// search_path would do the same, but takes a tenth of a short transaction.
const postgresqlCheck = `CREATE OR REPLACE FUNCTION {check}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $check$
DECLARE
	guarded pg_catalog.text := TG_ARGV[0];
	given   pg_catalog.text := pg_catalog.current_setting('elect.token', true);
	shown   pg_catalog.int8;
	mark    pg_catalog.int8;
BEGIN
	IF given IS NULL OR given OPERATOR(pg_catalog.=) '' THEN
		RAISE EXCEPTION USING ERRCODE = 'LF002',
			MESSAGE = pg_catalog.format('no fencing token shown: %s is guarded, and wants the token of the term that writes', guarded),
			HINT = 'Connect with PGOPTIONS="-c elect.token=TOKEN", or SELECT set_config(''elect.token'', ''TOKEN'', true) in the same transaction.';
	END IF;
	IF given OPERATOR(pg_catalog.!~) '^[0-9]{1,19}$' OR given::pg_catalog.numeric OPERATOR(pg_catalog.>) 9223372036854775807::pg_catalog.numeric THEN
		RAISE EXCEPTION USING ERRCODE = 'LF003', MESSAGE = pg_catalog.format('invalid fencing token: %L', pg_catalog.left(given, 40));
	END IF;
	shown := given::pg_catalog.int8;
	IF (shown OPERATOR(pg_catalog.&) 281474976710655) OPERATOR(pg_catalog.=) 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'LF003', MESSAGE = pg_catalog.format('invalid fencing token: %s', shown);
	END IF;
	SELECT f.token INTO mark FROM (SELECT token, pg_catalog.pg_advisory_xact_lock_shared({lock}) FROM {table}
		WHERE resource OPERATOR(pg_catalog.=) guarded AND token OPERATOR(pg_catalog.<=) shown FOR SHARE) AS f;
	IF NOT FOUND THEN
		SELECT f.token INTO mark FROM {table} AS f WHERE f.resource OPERATOR(pg_catalog.=) guarded;
		IF NOT FOUND THEN
			RAISE EXCEPTION USING ERRCODE = 'LF004', MESSAGE = pg_catalog.format('no such guarded resource: %s', guarded);
		END IF;
		RAISE EXCEPTION USING ERRCODE = 'LF001',
			MESSAGE = pg_catalog.format('stale fencing token: %s shown, the resource has seen %s', shown, mark),
			DETAIL = pg_catalog.format('Table %I.%I is guarded as %s.', TG_TABLE_SCHEMA, TG_TABLE_NAME, guarded);
	END IF;
	IF mark IS NULL OR mark OPERATOR(pg_catalog.<>) shown THEN
		RAISE EXCEPTION USING ERRCODE = 'LF005',
			MESSAGE = pg_catalog.format('not claimed with this token: %s shown, the mark of %s is %s', shown, guarded, mark);
	END IF;
	RETURN NULL;
END
$check$`

// beside is the name of an object in the table's schema that is named after the table.
func (d postgresql) beside(m *Mark, suffix string) string {
	schema, name, ok := strings.Cut(m.cfg.Table, ".")
	if !ok {
		return d.quote(m.cfg.Table + suffix)
	}
	return d.quote(schema) + "." + d.quote(name+suffix)
}

func (postgresql) triggerName(m *Mark) string {
	_, name, ok := strings.Cut(m.cfg.Table, ".")
	if !ok {
		name = m.cfg.Table
	}
	return name
}

func (d postgresql) install(ctx context.Context, m *Mark) error {
	return d.change(ctx, m, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, strings.ReplaceAll(postgresqlTable, "{table}", m.table())); err != nil {
			return err
		}
		var schema, table string
		err := tx.QueryRowContext(ctx, `SELECT quote_ident(n.nspname), quote_ident(c.relname)
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)`, m.table()).Scan(&schema, &table)
		if err != nil {
			return err
		}
		check := schema + "." + d.quote(d.triggerName(m)+"_check")
		text := strings.NewReplacer("{table}", schema+"."+table, "{check}", check, "{lock}", postgresqlLock).Replace(postgresqlCheck)
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `REVOKE ALL ON FUNCTION `+check+`() FROM PUBLIC`)
		return err
	})
}

func (postgresql) warnings(ctx context.Context, m *Mark) ([]string, error) {
	var fsync string
	if err := m.db.QueryRowContext(ctx, `SELECT current_setting('fsync')`).Scan(&fsync); err != nil {
		return nil, err
	}
	if fsync != "on" {
		return []string{"fsync=" + fsync + ": the server may forget marks, and all else, when the machine crashes"}, nil
	}
	return nil, nil
}

func (d postgresql) uninstall(ctx context.Context, m *Mark) error {
	return d.change(ctx, m, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DROP FUNCTION IF EXISTS `+d.beside(m, "_check")+`()`); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DROP TABLE IF EXISTS `+m.table())
		return err
	})
}

// change changes definitions, one change at a time, and waits for locks as long as a claim does.
func (d postgresql) change(ctx context.Context, m *Mark, do func(*sql.Tx) error) error {
	tx, err := m.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after a commit
	if _, err := tx.ExecContext(ctx, `SELECT set_config('lock_timeout', $1, true)`, milliseconds(m.cfg.LockTimeout)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(installing)); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	return m.commit(ctx, tx)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// begin asks for READ COMMITTED, whatever the default is: at the levels above, an UPDATE that has waited for a lock
// fails if another transaction was first. It also makes this commit flush, and wait for synchronous standbys, if
// other commits do not.
func (postgresql) begin(ctx context.Context, conn *sql.Conn, patience time.Duration) (*sql.Tx, int64, func() error, error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, 0, nil, err
	}
	var pid int64
	var ignored string
	err = tx.QueryRowContext(ctx, `SELECT pg_backend_pid(), set_config('lock_timeout', $1, true),
		set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on' ELSE current_setting('synchronous_commit') END, true)`,
		milliseconds(patience)).Scan(&pid, &ignored, &ignored)
	if err != nil {
		_ = tx.Rollback()
		return nil, 0, nil, err
	}
	return tx, pid, func() error { return nil }, nil
}

// holders asks the server for which sessions this one waits, and for which the claims before it wait. Those that may
// be terminated are transactions that have checked a mark (the lock of FOR SHARE on the table is a RowShareLock), and
// claims that have the row and do nothing with it. A transaction that holds a shared mark ([Mark.Share]) is never
// terminated: that would not undo the work that it protects, which goes on elsewhere.
func (postgresql) holders(ctx context.Context, m *Mark, session int64) ([]holder, error) {
	rows, err := m.db.QueryContext(ctx, `WITH RECURSIVE sharers AS MATERIALIZED (
			SELECT DISTINCT pid FROM pg_locks WHERE pid IS NOT NULL AND granted AND locktype = 'relation' AND mode = 'RowShareLock'
				AND relation = to_regclass($2) AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		), way AS (
			SELECT unnest(pg_blocking_pids($1)) AS pid
			UNION SELECT unnest(pg_blocking_pids(way.pid)) FROM way WHERE way.pid NOT IN (SELECT pid FROM sharers)
		)
		SELECT way.pid, concat_ws(', ', 'user ' || a.usename, nullif(a.application_name, ''), 'from ' || host(a.client_addr),
				a.state, 'open for ' || round(extract(epoch FROM clock_timestamp() - a.xact_start), 1) || ' s'),
			coalesce(a.application_name, '') <> 'elect fence hold' AND (way.pid IN (SELECT pid FROM sharers) OR
				coalesce(a.state LIKE 'idle in transaction%' AND a.state_change < clock_timestamp() - $3::bigint * interval '1 millisecond', false))
		FROM way LEFT JOIN pg_stat_activity a ON a.pid = way.pid ORDER BY way.pid`, int32(session), m.table(), (m.cfg.LockTimeout / 4).Milliseconds())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []holder
	for rows.Next() {
		var h holder
		if err := rows.Scan(&h.session, &h.text, &h.may); err != nil {
			return nil, err
		}
		if h.session == 0 {
			h.text = "a prepared transaction"
		} else {
			h.text = fmt.Sprintf("process %d (%s)", h.session, h.text)
		}
		all = append(all, h)
	}
	return all, rows.Err()
}

func (postgresql) terminate(ctx context.Context, m *Mark, h holder) error {
	_, err := m.db.ExecContext(ctx, `SELECT pg_terminate_backend($1)`, int32(h.session))
	return err
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

// classify follows the manual's appendix A.
func (postgresql) classify(err error) verdict {
	code := state(err)
	switch {
	case len(code) != 5:
		return unknown
	case code == "55P03": // lock_not_available
		return waited
	case code == "40001", code == "40P01": // serialization_failure, deadlock_detected
		return serialized
	case code == "42P01": // undefined_table, also in a schema that does not exist
		return absent
	case code == "40003": // statement_completion_unknown
		return unknown
	}
	switch code[:2] {
	case "08", "57", "58", "F0", "XX": // connection, intervention, system, configuration, internal
		return unknown
	}
	return refused
}

// relations returns the table of that name, and its partitions.
func (d postgresql) relations(ctx context.Context, tx *sql.Tx, table string) ([]string, error) {
	var kind sql.NullString
	err := tx.QueryRowContext(ctx, `SELECT (SELECT relkind::text FROM pg_class WHERE oid = to_regclass($1))`, table).Scan(&kind)
	switch {
	case err != nil:
		return nil, err
	case !kind.Valid:
		return nil, fmt.Errorf("there is no table %s; want a name as in a statement", table)
	case kind.String != "r" && kind.String != "p":
		return nil, fmt.Errorf("%s is no table; want the tables that it stands for", table)
	}
	rows, err := tx.QueryContext(ctx, `SELECT relid::regclass::text FROM pg_partition_tree(to_regclass($1))
		UNION SELECT to_regclass($1)::text ORDER BY 1`, table) // the tree of a plain table is empty
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, rows.Err()
}

func (d postgresql) guard(ctx context.Context, m *Mark, resource fence.Resource, tables []string) error {
	err := d.change(ctx, m, func(tx *sql.Tx) error {
		if _, err := m.highest(ctx, tx, m.say.highest, resource); err != nil {
			return err
		}
		return d.each(ctx, tx, m, tables, func(table string, by fence.Resource) error {
			switch by {
			case resource:
				return nil
			case "":
			default:
				return fmt.Errorf("%s is guarded by %s; want UninstallTriggers first", table, by)
			}
			trigger := d.quote(d.triggerName(m))
			if _, err := tx.ExecContext(ctx, `CREATE TRIGGER `+trigger+` BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON `+table+
				` FOR EACH STATEMENT EXECUTE FUNCTION `+d.beside(m, "_check")+`('`+string(resource)+`')`); err != nil {
				return err
			}
			// so that session_replication_role cannot bypass it
			_, err := tx.ExecContext(ctx, `ALTER TABLE `+table+` ENABLE ALWAYS TRIGGER `+trigger)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("fencesql: guarding %s as %s: %w", strings.Join(tables, ", "), resource, err)
	}
	return nil
}

func (d postgresql) unguard(ctx context.Context, m *Mark, resource fence.Resource, tables []string) error {
	err := d.change(ctx, m, func(tx *sql.Tx) error {
		return d.each(ctx, tx, m, tables, func(table string, by fence.Resource) error {
			switch by {
			case "":
				return nil
			case resource:
			default:
				return fmt.Errorf("%s is guarded by %s", table, by)
			}
			_, err := tx.ExecContext(ctx, `DROP TRIGGER `+d.quote(d.triggerName(m))+` ON `+table)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("fencesql: guarding %s no more: %w", strings.Join(tables, ", "), err)
	}
	return nil
}

// each calls do for each of the tables and their partitions, with the resource that guards it now, "" for none.
func (d postgresql) each(ctx context.Context, tx *sql.Tx, m *Mark, tables []string, do func(table string, by fence.Resource) error) error {
	for _, given := range tables {
		names, err := d.relations(ctx, tx, given)
		if err != nil {
			return err
		}
		for _, name := range names {
			var args []byte
			err := tx.QueryRowContext(ctx, `SELECT tgargs FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgname = $2 AND tgfoid = to_regprocedure($3) AND NOT tgisinternal`,
				name, d.triggerName(m), d.beside(m, "_check")+"()").Scan(&args)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if err := do(name, argument(args)); err != nil {
				return err
			}
		}
	}
	return nil
}

// argument is the first argument of a trigger, from its form in the catalog.
func argument(args []byte) fence.Resource {
	first, _, _ := bytes.Cut(args, []byte{0})
	return fence.Resource(first)
}

func (d postgresql) tables(ctx context.Context, m *Mark) (map[fence.Resource][]string, error) {
	rows, err := m.db.QueryContext(ctx, `SELECT tgargs, tgrelid::regclass::text FROM pg_trigger
		WHERE tgname = $1 AND tgfoid = to_regprocedure($2) AND NOT tgisinternal AND tgenabled <> 'D' ORDER BY 2`,
		d.triggerName(m), d.beside(m, "_check")+"()")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[fence.Resource][]string{}
	for rows.Next() {
		var args []byte
		var table string
		if err := rows.Scan(&args, &table); err != nil {
			return nil, err
		}
		by := argument(args)
		if !slices.Contains(all[by], table) {
			all[by] = append(all[by], table)
		}
	}
	return all, rows.Err()
}
