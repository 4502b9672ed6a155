//go:build linux

package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MariaDB is a MariaDB server. Its methods belong to the test's goroutine.
type MariaDB struct {
	bin, dir  string
	port      int
	settings  []string
	cmd       *exec.Cmd
	databases atomic.Int64
}

const mariadbPatience = time.Minute

// StartMariaDB makes an empty data directory and starts a server with it, which syncs what
// it commits. Further settings are arguments of mariadbd: "--name=value".
func StartMariaDB(t testing.TB, settings ...string) *MariaDB {
	t.Helper()
	m := &MariaDB{bin: mariadbBin(t), settings: settings}
	dir, err := os.MkdirTemp("", "elect-mariadb-") // not t.TempDir, which others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m.dir = filepath.Join(dir, "data")
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		for _, d := range []string{dir, m.dir} {
			if err := os.Chown(d, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	install := m.command("mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
		"--datadir="+m.dir, "--innodb-log-file-size=16M")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	m.port = freePort(t)
	m.Start(t)
	t.Cleanup(func() {
		if m.cmd != nil {
			m.Kill(t)
		}
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("the last that MariaDB said:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return m
}

// mariadbBin is where the server is. Debian has it in a directory that is not in
// everybody's PATH.
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
		missing := "there is no mariadbd or no mariadb-install-db; on Debian: apt-get install mariadb-server"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return path
}

func (m *MariaDB) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Dir(m.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 { // it refuses to run as root
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// Start starts the server, and returns when it answers.
func (m *MariaDB) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(filepath.Dir(m.dir), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m.cmd = m.command(m.bin, append([]string{"--no-defaults", "--datadir=" + m.dir, "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", m.port),
		"--socket=" + filepath.Join(filepath.Dir(m.dir), "socket"), "--skip-name-resolve", "--innodb-log-file-size=16M",
		"--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=1"}, m.settings...)...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", m.Config("").FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for deadline := time.Now().Add(mariadbPatience); ; {
		err := ping(db)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("MariaDB does not answer: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Config is how a database is connected to.
func (m *MariaDB) Config(database string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", fmt.Sprintf("127.0.0.1:%d", m.port), database
	cfg.Logger = &mysql.NopLogger{} // it says that connections were lost, where that is what is tested
	return cfg
}

// Database makes an empty database and returns how it is connected to.
func (m *MariaDB) Database(t testing.TB) *mysql.Config {
	t.Helper()
	name := fmt.Sprintf("test%d", m.databases.Add(1))
	db, err := sql.Open("mysql", m.Config("").FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return m.Config(name)
}

// Kill kills the server, and returns when nothing of it is left.
func (m *MariaDB) Kill(t testing.TB) {
	t.Helper()
	if err := m.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = m.cmd.Wait() // it is one process
	m.cmd = nil
}
