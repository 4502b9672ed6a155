//go:build linux

package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

// Postgres is a PostgreSQL server. Its methods belong to the test's goroutine.
type Postgres struct {
	bin, dir  string
	port      int
	cmd       *exec.Cmd
	databases atomic.Int64
}

const (
	postgresPatience = time.Minute
	nobody           = 65534
)

// StartPostgres makes a database cluster and starts a server with it, which syncs what it
// commits. Further settings are as in postgresql.conf: "name=value".
func StartPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	p := &Postgres{bin: postgresBin(t)}
	dir, err := os.MkdirTemp("", "elect-postgres-") // not t.TempDir, which others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	p.dir = filepath.Join(dir, "data")
	if out, err := p.command("initdb", "-D", p.dir, "-U", "elect", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	p.port = freePort(t)
	conf, err := os.OpenFile(filepath.Join(p.dir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conf.Close()
	fmt.Fprintf(conf, "\nlisten_addresses = '127.0.0.1'\nport = %d\nunix_socket_directories = ''\nshared_buffers = 32MB\n", p.port)
	for _, s := range settings {
		fmt.Fprintln(conf, s)
	}
	p.Start(t)
	t.Cleanup(func() {
		if p.cmd != nil {
			p.Kill(t)
		}
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("the last that PostgreSQL said:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return p
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

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
		missing := "there is no PostgreSQL in /usr/lib/postgresql or in PATH; on Debian: apt-get install postgresql"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return best
}

func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = filepath.Dir(p.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 { // it refuses to run as root
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// Start starts the server, and returns when it answers.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(filepath.Dir(p.dir), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = p.command("postgres", "-D", p.dir)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for deadline := time.Now().Add(postgresPatience); ; {
		err := ping(db)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("PostgreSQL does not answer: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func ping(db *sql.DB) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return db.PingContext(ctx)
}

// URL is where a database is.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://elect@127.0.0.1:%d/%s?sslmode=disable", p.port, database)
}

// Database makes an empty database and returns where it is.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", p.databases.Add(1))
	db, err := sql.Open("pgx", p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return p.URL(name)
}

// Kill kills the server, and returns when nothing of it is left.
func (p *Postgres) Kill(t testing.TB) {
	t.Helper()
	children := childrenOf(p.cmd.Process.Pid)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	p.cmd = nil
	for deadline := time.Now().Add(postgresPatience); ; { // they go when they see that it has gone
		left := 0
		for pid, command := range children {
			if command != "" && commandOf(pid) == command {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes of PostgreSQL are left", left)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// childrenOf are the children of a process, and what they run.
func childrenOf(parent int) map[int]string {
	all := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			all[pid] = commandOf(pid)
		}
	}
	return all
}

// commandOf is what a process runs, "" if it runs no more.
func commandOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(stat), " (")
	command, state, _ := strings.Cut(after, ") ")
	if strings.HasPrefix(state, "Z") {
		return ""
	}
	return command
}
