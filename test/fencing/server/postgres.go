//go:build linux

package server

import (
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
}

// StartPostgres makes a database cluster and starts a server with it, which syncs what it
// commits. Further settings are as in postgresql.conf: "name=value".
func StartPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	long.Test(t, "it starts a real server")
	bin := postgresBin(t)
	p := &Postgres{newProcess(t, "PostgreSQL"), bin, freePort(t)}
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
	p.serve(t, p.unprivileged(filepath.Join(p.bin, "postgres"), "-D", p.data()), "pgx", p.URL("postgres"))
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
