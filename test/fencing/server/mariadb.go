//go:build linux

package server

import (
	"os/exec"
	"path/filepath"
	"testing"

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
		"--datadir="+m.data(), "--innodb-log-file-size=16M")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	m.Start(t)
	return m
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
	m.serve(t, m.unprivileged(m.bin, append([]string{"--no-defaults", "--datadir=" + m.data(), "--bind-address=127.0.0.1", "--port=" + m.port,
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
