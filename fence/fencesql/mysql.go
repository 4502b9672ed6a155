package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// mysql is MySQL and MariaDB, with InnoDB.
//
// A check is a SELECT … LOCK IN SHARE MODE, which both support. It reads the last committed row, at any isolation
// level, and conflicts with the UPDATE of a claim until the transaction ends: manual of MySQL, "Locking Reads". A
// predicate in the write itself is such a read at REPEATABLE READ, but not at READ COMMITTED.
//
// There are no triggers that check. They would run for each row and not for each statement, and TRUNCATE and the
// cascades of foreign keys run none at all. And a program has no place to show the token: a variable like
// @elect_token belongs to the session and outlives the transaction, so that the next user of a pool's connection
// would pass as the leader.
type mysql struct{}

func (mysql) quote(name string) string { return "`" + name + "`" }

func (mysql) statements(table string) statements {
	r := strings.NewReplacer("{table}", table)
	const check = `SELECT token FROM {table} WHERE resource = '%s' AND token <= %d LOCK IN SHARE MODE`
	return statements{
		add:     r.Replace(`INSERT IGNORE INTO {table} (resource) VALUES (?)`),
		remove:  r.Replace(`DELETE FROM {table} WHERE resource = ?`),
		highest: r.Replace(`SELECT token FROM {table} WHERE resource = ?`),
		refusal: r.Replace(`SELECT token FROM {table} WHERE resource = ? LOCK IN SHARE MODE`),
		raise:   r.Replace(`UPDATE {table} SET token = ?, claimed_ms = ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000) WHERE resource = ? AND token <= ?`),
		check:   r.Replace(check),
		share:   r.Replace(check),
		status:  r.Replace(`SELECT resource, token, claimed_ms FROM {table} ORDER BY resource`),
		inline:  true,
		dirty:   true,
	}
}

func (mysql) install(ctx context.Context, m *Mark) error {
	_, err := m.db.ExecContext(ctx, strings.ReplaceAll(`CREATE TABLE IF NOT EXISTS {table} (
		resource   VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
		token      BIGINT NOT NULL DEFAULT 0 CHECK (token = 0 OR token > 0 AND (token & 281474976710655) <> 0),
		claimed_ms BIGINT NULL
	) ENGINE=InnoDB`, "{table}", m.table()))
	if err != nil {
		return err
	}
	var engine string
	schema, name, ok := strings.Cut(m.cfg.Table, ".")
	if !ok {
		schema, name = "", schema
	}
	err = m.db.QueryRowContext(ctx, `SELECT engine FROM information_schema.tables
		WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ?`, schema, name).Scan(&engine)
	if err != nil {
		return err
	}
	if engine != "InnoDB" {
		return fmt.Errorf("the table is of engine %s, which locks no rows; want InnoDB", engine)
	}
	return nil
}

func (mysql) warnings(ctx context.Context, m *Mark) ([]string, error) {
	rows, err := m.db.QueryContext(ctx, `SHOW GLOBAL VARIABLES WHERE variable_name IN ('innodb_flush_log_at_trx_commit', 'wsrep_on')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		switch {
		case name == "wsrep_on" && value == "ON":
			all = append(all, "wsrep_on=ON: the server is one of a Galera cluster, which does not hold a check's lock at the other servers: all leaders must write to the same one")
		case name != "wsrep_on" && value != "1" && value != "3":
			all = append(all, name+"="+value+": the server does not sync each commit: after a crash it may have forgotten marks, and what was written since")
		}
	}
	return all, rows.Err()
}

func (mysql) uninstall(ctx context.Context, m *Mark) error {
	_, err := m.db.ExecContext(ctx, `DROP TABLE IF EXISTS `+m.table())
	return err
}

// begin bounds two waits, for the row and for a change of the table's definition, in whole seconds. The bounds are
// settings of the session, which are restored. READ COMMITTED, whose snapshots begin with each statement, is not
// needed here: the first statement is an UPDATE, which uses no snapshot, so REPEATABLE READ does as well. And READ
// COMMITTED is not possible everywhere: not with a binary log of statements.
func (mysql) begin(ctx context.Context, conn *sql.Conn, patience time.Duration) (*sql.Tx, int64, func() error, error) {
	var session, row, table int64
	err := conn.QueryRowContext(ctx, `SELECT CONNECTION_ID(), @@SESSION.innodb_lock_wait_timeout, @@SESSION.lock_wait_timeout`).Scan(&session, &row, &table)
	if err != nil {
		return nil, 0, nil, err
	}
	set := func(ctx context.Context, row, table int64) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(`SET SESSION innodb_lock_wait_timeout = %d, SESSION lock_wait_timeout = %d`, row, table))
		return err
	}
	end := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return set(ctx, row, table)
	}
	seconds := int64((patience + time.Second - 1) / time.Second)
	if err := set(ctx, seconds, seconds); err != nil {
		return nil, 0, nil, err
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return nil, 0, nil, errors.Join(err, end())
	}
	return tx, session, end, nil
}

// MariaDB gives the number 0 to a transaction that has locked rows and written none, and to its locks. Counting
// distinguishes these transactions from others that have locked rows elsewhere.
const mariadbHolders = `SELECT t.trx_mysql_thread_id, t.trx_id = 0, w.locks, COALESCE(l.lock_mode, ''), COALESCE(t.trx_requested_lock_id = w.lock_id, false),
		COALESCE(p.command = 'Sleep' AND p.time_ms >= ?, false),
		CONCAT_WS(', ', CONCAT('user ', p.user), CONCAT('from ', p.host), p.command, CONCAT('open for ', TIMESTAMPDIFF(SECOND, t.trx_started, NOW()), ' s'))
	FROM (SELECT w.blocking_trx_id AS trx_id, w.blocking_lock_id AS lock_id, COUNT(*) AS locks
		FROM information_schema.innodb_lock_waits w JOIN information_schema.innodb_trx me ON me.trx_id = w.requesting_trx_id
		WHERE me.trx_mysql_thread_id = ? GROUP BY 1, 2) w
	JOIN information_schema.innodb_trx t ON t.trx_id = w.trx_id AND (t.trx_id <> 0 OR t.trx_rows_locked > 0)
	LEFT JOIN information_schema.innodb_locks l ON l.lock_id = w.lock_id
	LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
	WHERE t.trx_mysql_thread_id <> ? ORDER BY 1`

const mysqlHolders = `SELECT t.processlist_id, false, 1, LEFT(l.lock_mode, 1), l.lock_status <> 'GRANTED',
		COALESCE(t.processlist_command = 'Sleep' AND t.processlist_time * 1000 >= ?, false),
		CONCAT_WS(', ', CONCAT('user ', t.processlist_user), CONCAT('from ', t.processlist_host), t.processlist_command)
	FROM performance_schema.data_lock_waits w
	JOIN performance_schema.threads me ON me.thread_id = w.requesting_thread_id
	JOIN performance_schema.threads t ON t.thread_id = w.blocking_thread_id
	JOIN performance_schema.data_locks l ON l.engine_lock_id = w.blocking_engine_lock_id
	WHERE me.processlist_id = ? AND t.processlist_id <> ? ORDER BY 1`

// holders asks the server which sessions are before this one in the queue for the row. Those that may be terminated
// are transactions that have checked the mark, and claims that have the row and do nothing with it. It takes the
// privilege PROCESS.
//
// The server renews that information only when no client has read it for 0.1 seconds (CACHE_MIN_IDLE_TIME in its
// trx0i_s.cc). So clients that poll it wait for longer than that, and not all of them equally long.
func (mysql) holders(ctx context.Context, m *Mark, session int64) ([]holder, error) {
	wait := time.NewTimer(120*time.Millisecond + rand.N(200*time.Millisecond))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-wait.C:
	}
	var version string
	if err := m.db.QueryRowContext(ctx, `SELECT VERSION()`).Scan(&version); err != nil {
		return nil, err
	}
	query := mysqlHolders
	if strings.Contains(version, "MariaDB") {
		query = mariadbHolders
	}
	rows, err := m.db.QueryContext(ctx, query, (m.cfg.LockTimeout / 4).Milliseconds(), session, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []holder
	var nameless []int // of all
	var locks int      // of the nameless that are in the way
	for rows.Next() {
		var h holder
		var noName, waits, idle bool
		var n int
		var mode string
		if err := rows.Scan(&h.session, &noName, &n, &mode, &waits, &idle, &h.text); err != nil {
			return nil, err
		}
		h.text = fmt.Sprintf("connection %d (%s)", h.session, h.text)
		switch {
		case noName && waits: // behind the session, as far as can be seen
			continue
		case noName:
			nameless, locks = append(nameless, len(all)), n
		default:
			h.may = !waits && (mode == "S" || idle)
		}
		all = append(all, h)
	}
	for _, i := range nameless {
		all[i].may = len(nameless) <= locks
		if !all[i].may {
			all[i].text += fmt.Sprintf(", or %d others of these", len(nameless)-1)
		}
	}
	return all, rows.Err()
}

func (mysql) terminate(ctx context.Context, m *Mark, h holder) error {
	_, err := m.db.ExecContext(ctx, fmt.Sprintf(`KILL %d`, h.session))
	if numbered(err, 1094) { // ER_NO_SUCH_THREAD: it has ended by itself
		return nil
	}
	return err
}

// numbered reports whether err is a server's error with that number. The driver has it in a field, which only a
// program that imports the driver can read, and at the beginning of the text.
func numbered(err error, number int) bool {
	if err == nil {
		return false
	}
	prefix := fmt.Sprintf("Error %d", number)
	_, after, ok := strings.Cut(err.Error(), prefix)
	return ok && (strings.HasPrefix(after, " (") || strings.HasPrefix(after, ":"))
}

func (mysql) classify(err error) verdict {
	switch {
	case numbered(err, 1205): // ER_LOCK_WAIT_TIMEOUT
		return waited
	case numbered(err, 1213), // ER_LOCK_DEADLOCK
		numbered(err, 1020): // ER_CHECKREAD, of MariaDB with innodb_snapshot_isolation
		return serialized
	case numbered(err, 1146): // ER_NO_SUCH_TABLE
		return absent
	}
	return unknown
}
