//go:build linux

package server

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/electd/elect/internal/long"
)

// Postgres is a PostgreSQL server. Its methods belong to the test's goroutine.
type Postgres struct {
	*process
	bin, port string
	args      []string // of the server
}

// StartPostgres makes a database cluster and starts a server with it, which syncs what it
// commits. Further settings are as in postgresql.conf: "name=value".
func StartPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	long.Test(t, "it starts a real server")
	bin := postgresBin(t)
	p := &Postgres{process: newProcess(t, "PostgreSQL"), bin: bin, port: freePort(t)}
	if out, err := p.unprivileged(filepath.Join(bin, "initdb"), "-D", p.data(), "-U", "elect", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	conf, err := os.OpenFile(filepath.Join(p.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conf.Close()
	fmt.Fprintf(conf, "\nlisten_addresses = '127.0.0.1'\nport = %s\nunix_socket_directories = ''\nshared_buffers = 32MB\n", p.port)
	for _, s := range settings {
		fmt.Fprintln(conf, s)
	}
	p.Start(t)
	return p
}

// StartStandby makes a copy of the server's data and starts a server with it, which follows the first
// one under that name, and answers reads.
func (p *Postgres) StartStandby(t testing.TB, name string) *Postgres {
	t.Helper()
	s := &Postgres{process: newProcess(t, "PostgreSQL-"+name), bin: p.bin, port: freePort(t)}
	s.args = []string{"-c", "port=" + s.port, "-c", "cluster_name=" + name, "-c", "synchronous_standby_names="}
	copied := s.unprivileged(filepath.Join(p.bin, "pg_basebackup"), "-h", "127.0.0.1", "-p", p.port, "-U", "elect", "-D", s.data(), "-R", "-c", "fast", "--no-sync")
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	s.Start(t)
	return s
}

// Promote ends a standby's recovery: it accepts writes when this returns.
func (p *Postgres) Promote(t testing.TB) {
	t.Helper()
	db, err := sql.Open("pgx", p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var promoted bool
	if err := db.QueryRowContext(t.Context(), "SELECT pg_promote(true, 60)").Scan(&promoted); err != nil || !promoted {
		t.Fatalf("pg_promote: %t, %v", promoted, err)
	}
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// postgresBin is where the programs of the newest version are that is installed.
func postgresBin(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	best, newest := "", 0
	for _, path := range found {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		if err == nil && version > newest {
			best, newest = filepath.Dir(path), version
		}
	}
	if path, err := exec.LookPath("postgres"); best == "" && err == nil {
		best = filepath.Dir(path)
	}
	if best == "" {
		Absent(t, "there is no PostgreSQL in /usr/lib/postgresql or in PATH; on Debian: apt-get install postgresql")
	}
	return best
}

// Start starts the server, and returns when it answers.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	p.serve(t, p.unprivileged(filepath.Join(p.bin, "postgres"), append([]string{"-D", p.data()}, p.args...)...), "pgx", p.URL("postgres"))
}

// URL is where a database is.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://elect@127.0.0.1:%s/%s?sslmode=disable", p.port, database)
}

// Database makes an empty database and returns where it is.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	return p.URL(p.create(t, "pgx", p.URL("postgres")))
}
