package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/electd/elect/driver"
)

// examine implements [dialect].
func (postgresql) examine(ctx context.Context, t *table) ([]driver.Finding, error) {
	var version, commit, standbys string
	var standby bool
	var senders int
	err := t.db.QueryRowContext(ctx, `SELECT current_setting('server_version'), `+settings+`, pg_is_in_recovery(), (SELECT count(*) FROM pg_stat_replication)`).
		Scan(&version, &commit, &standbys, &standby, &senders)
	if err != nil {
		return nil, err
	}
	pooled, err := t.pooled(ctx)
	if err != nil {
		return nil, err
	}
	role := driver.Finding{What: "role", Value: "primary", Means: "it takes writes"}
	if standby {
		role = driver.Finding{What: "role", Value: "standby", Wrong: true, Means: "it takes no writes, and nobody can be elected; want the URL of the primary, or target_session_attrs=read-write"}
	}
	return []driver.Finding{
		{What: "version", Value: "PostgreSQL " + version, Means: "elections need 12 or later"},
		role,
		committed(commit, standbys),
		replicated(commit, standbys, senders),
		pooled,
	}, nil
}

// rights says whether the user can lead. Nothing is changed for that.
func (t *table) rights(ctx context.Context) driver.Finding {
	f := driver.Finding{What: "rights", Value: "enough", Means: "the user may read and write the table"}
	if err := t.dialect.check(ctx, t, true); err != nil {
		f.Value, f.Wrong, f.Means = "not known", driver.IsPermanent(err), oneLine(err)
		if _, lacks := errors.AsType[noWrites](err); lacks {
			f.Value = "missing"
		}
	}
	return f
}

// committed says what synchronous_commit means.
func committed(commit, standbys string) driver.Finding {
	f := driver.Finding{What: "synchronous_commit", Value: commit, Means: "what is acknowledged survives a crash of the server"}
	if err := forgets(commit, standbys); err != nil {
		f.Means, f.Wrong = err.Error(), true
	}
	return f
}

// replicated says what the standbys mean.
func replicated(commit, standbys string, senders int) driver.Finding {
	f := driver.Finding{What: "synchronous_standby_names", Value: standbys}
	switch {
	case standbys != "" && senders == 0:
		f.Means = "no standby is connected, so every write waits for one, and no lease can be renewed"
		f.Wrong = true
	case standbys != "" && commit != "local":
		f.Means = fmt.Sprintf("a write is acknowledged when these have it, and tokens rise after a failover to one of them; %d standbys are connected", senders)
	case senders > 0:
		f.Value = "none"
		f.Means = fmt.Sprintf("%d standbys are connected, and a failover to one may lose acknowledged writes: leases stay exclusive, tokens may repeat; raise era then", senders)
	default:
		f.Value = "none"
		f.Means = "no standby is connected; after a restore from a backup tokens may repeat: raise era then"
	}
	return f
}

// pooled reports a pooler in transaction mode: behind it, two connections that are open at the same
// time share a process of the server. It does not see a pooler in session mode.
func (t *table) pooled(ctx context.Context) (driver.Finding, error) {
	f := driver.Finding{What: "pooler", Value: "not seen", Means: "two connections have two processes of the server"}
	if t.db.Stats().MaxOpenConnections == 1 {
		return driver.Finding{What: "pooler", Value: "not known", Means: "it takes two connections to see one"}, nil
	}
	var conns [2]*sql.Conn
	for i := range conns {
		conn, err := t.db.Conn(ctx)
		if err != nil {
			return f, err
		}
		defer conn.Close()
		conns[i] = conn
	}
	has := map[int]*sql.Conn{} // by the process
	for range 10 {             // with other clients, a pooler may give them two processes at a time
		for _, conn := range conns {
			var pid int
			if err := conn.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
				return f, err
			}
			if was := has[pid]; was != nil && was != conn {
				f.Value, f.Means = "in transaction mode", "two connections share one process of the server, as with PgBouncer; elections work through it, and need each statement to reach the primary"
				return f, nil
			}
			has[pid] = conn
		}
	}
	return f, nil
}

// examine implements [dialect].
func (mysql) examine(ctx context.Context, t *table) ([]driver.Finding, error) {
	var version, readOnly string
	if err := t.db.QueryRowContext(ctx, `SELECT VERSION(), @@global.read_only`).Scan(&version, &readOnly); err != nil {
		return nil, err
	}
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	v, err := sessionVariables(ctx, conn)
	if err != nil {
		return nil, err
	}
	return append([]driver.Finding{{What: "version", Value: version, Means: "the table has to be of InnoDB, which was checked"}}, judged(v, readOnly != "0")...), nil
}

// judged says what variables of MySQL mean.
func judged(v map[string]string, readOnly bool) []driver.Finding {
	flush := driver.Finding{What: "innodb_flush_log_at_trx_commit", Value: v["innodb_flush_log_at_trx_commit"], Means: "what is acknowledged survives a crash of the server"}
	if flush.Value != "1" && flush.Value != "3" {
		flush.Wrong, flush.Means = true, "the server forgets acknowledged writes in a crash; want 1"
	}
	sync := driver.Finding{What: "sync_binlog", Value: v["sync_binlog"], Means: "the binary log has what is acknowledged, after a crash too"}
	switch {
	case v["log_bin"] != "ON":
		sync.Means = "there is no binary log, so it does not count; standbys cannot follow this server"
	case sync.Value != "1":
		sync.Wrong, sync.Means = true, "the server rolls acknowledged writes back after a crash; want 1"
	}
	role := driver.Finding{What: "read_only", Value: "OFF", Means: "it takes writes"}
	if readOnly {
		role = driver.Finding{What: "read_only", Value: "ON", Wrong: true, Means: "it takes no writes from ordinary users, as a replica; want the URL of the primary"}
	}
	id := driver.Finding{What: "identity", Value: "server_uuid", Means: "a server that takes over is noticed: leases stay exclusive, tokens may repeat; raise era then"}
	if v["server_uuid"] == "" {
		id.Value = "host name, port and data directory"
		id.Means = "a server that takes over is noticed only if it differs in one of them; give each server another host name, and raise era after a failover"
	}
	found := []driver.Finding{role, flush, sync, id}
	if _, err := judge(v); err != nil && !flush.Wrong && !sync.Wrong {
		found = append(found, driver.Finding{What: "session", Value: "refused", Wrong: true, Means: err.Error()})
	}
	return found
}

// examine implements [dialect].
func (d *sqlite) examine(ctx context.Context, t *table) ([]driver.Finding, error) {
	var version string
	if err := t.db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return nil, err
	}
	found := []driver.Finding{{What: "version", Value: "SQLite " + version, Means: "elections need 3.35 or later, and all participants on one machine"}}
	sync := driver.Finding{What: "synchronous, journal_mode", Value: "right", Means: "what is acknowledged survives a loss of power"}
	if err := d.check(ctx, t, true); err != nil {
		sync.Value, sync.Wrong, sync.Means = "refused", true, err.Error()
	}
	return append(found, sync), nil
}
