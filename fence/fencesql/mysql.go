package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// mysql is MySQL and MariaDB, with InnoDB.
//
// A check is a SELECT … LOCK IN SHARE MODE, which both know. It reads the row as it was
// committed last, at any isolation level, and conflicts with the UPDATE of a claim until
// the transaction ends.
type mysql struct{}

func (mysql) quote(name string) string { return "`" + name + "`" }

func (mysql) statements(table string) statements {
	r := strings.NewReplacer("{table}", table)
	return statements{
		add:     r.Replace(`INSERT IGNORE INTO {table} (resource) VALUES (?)`),
		remove:  r.Replace(`DELETE FROM {table} WHERE resource = ?`),
		highest: r.Replace(`SELECT token FROM {table} WHERE resource = ?`),
		refusal: r.Replace(`SELECT token FROM {table} WHERE resource = ? LOCK IN SHARE MODE`),
		raise:   r.Replace(`UPDATE {table} SET token = ?, claimed_ms = ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000) WHERE resource = ? AND token <= ?`),
		check:   r.Replace(`SELECT token FROM {table} WHERE resource = ? AND token <= ? LOCK IN SHARE MODE`),
		share:   r.Replace(`SELECT token FROM {table} WHERE resource = ? AND token <= ? LOCK IN SHARE MODE`),
		status:  r.Replace(`SELECT resource, token, claimed_ms FROM {table} ORDER BY resource`),
	}
}

func (mysql) install(ctx context.Context, f *Fence) error {
	_, err := f.db.ExecContext(ctx, strings.ReplaceAll(`CREATE TABLE IF NOT EXISTS {table} (
		resource   VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
		token      BIGINT NOT NULL DEFAULT 0 CHECK (token = 0 OR token > 0 AND (token & 281474976710655) <> 0),
		claimed_ms BIGINT NULL
	) ENGINE=InnoDB`, "{table}", f.table()))
	return err
}

func (mysql) uninstall(ctx context.Context, f *Fence) error {
	_, err := f.db.ExecContext(ctx, `DROP TABLE IF EXISTS `+f.table())
	return err
}

func (mysql) begin(ctx context.Context, conn *sql.Conn, patience time.Duration) (*sql.Tx, int64, func() error, error) {
	var session, before int64
	if err := conn.QueryRowContext(ctx, `SELECT CONNECTION_ID(), @@SESSION.innodb_lock_wait_timeout`).Scan(&session, &before); err != nil {
		return nil, 0, nil, err
	}
	set := func(ctx context.Context, seconds int64) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(`SET SESSION innodb_lock_wait_timeout = %d`, seconds))
		return err
	}
	seconds := max(1, int64((patience+time.Second-1)/time.Second)) // it has whole seconds, and no fewer than one
	if err := set(ctx, seconds); err != nil {
		return nil, 0, nil, err
	}
	end := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return set(ctx, before)
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, 0, nil, errors.Join(err, end())
	}
	return tx, session, end, nil
}

func (mysql) holders(ctx context.Context, f *Fence, session int64) ([]holder, error) {
	return nil, fmt.Errorf("looking who holds a lock: %w by this dialect", errors.ErrUnsupported)
}

func (mysql) terminate(ctx context.Context, f *Fence, h holder) error {
	_, err := f.db.ExecContext(ctx, fmt.Sprintf(`KILL %d`, h.session))
	return err
}

// classify goes by the text: the driver's error has its number in a field.
func (mysql) classify(err error) verdict {
	text := err.Error()
	switch {
	case strings.Contains(text, "Error 1205 "): // ER_LOCK_WAIT_TIMEOUT
		return waited
	case strings.Contains(text, "Error 1213 "): // ER_LOCK_DEADLOCK
		return serialized
	}
	return unknown
}
