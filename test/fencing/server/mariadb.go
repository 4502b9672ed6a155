//go:build linux

package server

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/electd/elect/internal/long"
)

// MariaDB is a MariaDB server. Its methods belong to the test's goroutine.
type MariaDB struct {
	*process
	bin, port string
	settings  []string
}

// StartMariaDB makes an empty data directory and starts a server with it, which syncs what
// it commits. Further settings are arguments of mariadbd: "--name=value".
func StartMariaDB(t testing.TB, settings ...string) *MariaDB {
	t.Helper()
	long.Test(t, "it starts a real server")
	bin := mariadbBin(t)
	m := &MariaDB{newProcess(t, "MariaDB"), bin, freePort(t), settings}
	install := m.unprivileged("mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
		"--datadir="+m.data(), "--tmpdir="+m.dir, "--innodb-log-file-size=16M")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	m.Start(t)
	return m
}

// logged are settings of a server that has a binary log, and syncs it.
func logged(id int, settings ...string) []string {
	return append([]string{"--log-bin=binlog", "--sync-binlog=1", "--log-slave-updates", fmt.Sprintf("--server-id=%d", id)}, settings...)
}

// StartMariaDBPair starts a server, and a replica that follows it by GTID and takes no writes from ordinary users. If
// synchronous is set, each commit waits until the replica has it.
func StartMariaDBPair(t testing.TB, synchronous bool) (primary, replica *MariaDB) {
	t.Helper()
	primary = StartMariaDB(t, logged(1, "--rpl-semi-sync-master-timeout=600000", "--rpl-semi-sync-master-wait-point=AFTER_SYNC")...)
	replica = StartMariaDB(t, logged(2, "--read-only", "--rpl-semi-sync-slave-enabled=ON")...)
	replica.Exec(t, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %s, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos", primary.port))
	replica.Exec(t, "START SLAVE")
	replica.Follows(t, primary)
	if synchronous {
		primary.Exec(t, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
		primary.until(t, "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'", func(row map[string]string) bool { return row["Value"] == "1" })
	}
	return primary, replica
}

// Follows returns when a replica has what the primary has now.
func (m *MariaDB) Follows(t testing.TB, primary *MariaDB) {
	t.Helper()
	var at string
	primary.until(t, "SELECT @@gtid_binlog_pos AS at", func(row map[string]string) bool { at = row["at"]; return true })
	m.until(t, "SELECT MASTER_GTID_WAIT('"+at+"', 1) AS waited", func(row map[string]string) bool { return row["waited"] == "0" })
}

// Promote makes a replica, which has executed all that it has received, take writes.
func (m *MariaDB) Promote(t testing.TB) {
	t.Helper()
	m.Exec(t, "STOP SLAVE IO_THREAD")
	m.until(t, "SHOW SLAVE STATUS", func(received map[string]string) bool {
		executed := ""
		m.until(t, "SELECT @@gtid_slave_pos AS at", func(row map[string]string) bool { executed = row["at"]; return true })
		return received["Gtid_IO_Pos"] == executed
	})
	for _, statement := range []string{"STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF"} {
		m.Exec(t, statement)
	}
}

// Exec executes a statement as root.
func (m *MariaDB) Exec(t testing.TB, statement string) {
	t.Helper()
	db := m.open(t)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (m *MariaDB) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", m.Config("").FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// until repeats a query until its first row is right.
func (m *MariaDB) until(t testing.TB, query string, right func(row map[string]string) bool) {
	t.Helper()
	db := m.open(t)
	defer db.Close()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		row, err := first(t, db, query)
		if err == nil && right(row) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v, %v", query, row, err)
		}
	}
}

// first returns the first row of a query, by column.
func first(t testing.TB, db *sql.DB, query string) (map[string]string, error) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		return nil, err
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	row := map[string]string{}
	err = rows.Scan(into...)
	for i, name := range names {
		row[name] = values[i].String
	}
	return row, err
}

func (m *MariaDB) data() string { return filepath.Join(m.dir, "data") }

// mariadbBin is the directory of the server. Debian has it in a directory that is not in every
// PATH.
func mariadbBin(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("mariadbd")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/mariadbd")
	}
	if err == nil {
		_, err = exec.LookPath("mariadb-install-db")
	}
	if err != nil {
		Absent(t, "there is no mariadbd or no mariadb-install-db; on Debian: apt-get install mariadb-server")
	}
	return path
}

// Start starts the server, and returns when it answers.
func (m *MariaDB) Start(t testing.TB) {
	t.Helper()
	// A server that starts removes the temporary tables of all servers that share its tmpdir.
	m.serve(t, m.unprivileged(m.bin, append([]string{"--no-defaults", "--datadir=" + m.data(), "--tmpdir=" + m.dir, "--bind-address=127.0.0.1", "--port=" + m.port,
		"--socket=" + filepath.Join(m.dir, "socket"), "--skip-name-resolve", "--innodb-log-file-size=16M",
		"--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=1"}, m.settings...)...), "mysql", m.Config("").FormatDSN())
}

// Config is how a database is connected to.
func (m *MariaDB) Config(database string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", "127.0.0.1:"+m.port, database
	return cfg
}

// Database makes an empty database and returns how it is connected to.
func (m *MariaDB) Database(t testing.TB) *mysql.Config {
	t.Helper()
	return m.Config(m.create(t, "mysql", m.Config("").FormatDSN()))
}
