//go:build linux

package verbs_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/fencing/server"
)

// TestPostgres: a table of marks, and triggers on tables of programs without fencing.
func TestPostgres(t *testing.T) {
	p := server.StartPostgres(t)
	at := p.Database(t)
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE invoices (n int); CREATE TABLE payments (n int)`); err != nil {
		t.Fatal(err)
	}
	e := build(t, at)
	everywhere(e)

	e.ok("install", "billing", "invoices", "payments")
	e.ok("claim", "--token", "7", "billing")
	const write = `INSERT INTO invoices VALUES (1)`
	if _, err := db.ExecContext(t.Context(), write); err == nil {
		t.Error("a write without a token was taken by a guarded table")
	}
	for token, taken := range map[string]bool{"6": false, "7": true} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), `SELECT set_config('elect.token', $1, true)`, token); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), write); (err == nil) != taken {
			t.Errorf("a write with %s: %v; want it taken: %t", token, err, taken)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	s := e.status("billing")
	if len(s.Resources) != 1 || s.Resources[0].Highest != "7" || !tables(s.Resources[0].Tables, "invoices", "payments") {
		t.Errorf("the status is %+v", s)
	}
	e.fails(69, "guard", "uninstall")
	e.ok("uninstall", "billing", "payments")
	if s := e.status("billing"); len(s.Resources) != 1 || !tables(s.Resources[0].Tables, "invoices") {
		t.Errorf("the status is %+v", s)
	}
	e.ok("uninstall", "billing")
	if _, err := db.ExecContext(t.Context(), write); err != nil {
		t.Errorf("a write to a table that is not guarded any more: %v", err)
	}
	e.fails(69, "still guarded there: orders; ", "uninstall")
	e.ok("uninstall", "orders")
	e.ok("uninstall")

	// Another table of marks, and a token from the environment.
	e.at += "&fence_table=mine"
	e.ok("install", "orders")
	e.env = []string{"ELECT_TOKEN=9"}
	e.ok("claim", "orders")
	var n int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM mine`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows in the table that the URL names: %v", n, err)
	}

	p.Kill(t)
	e.fails(69, "connection refused", "claim", "orders")
}

// tables reports whether these tables are named, in any schema.
func tables(have []string, want ...string) bool {
	slices.Sort(have)
	return slices.EqualFunc(have, want, func(a, b string) bool { return a == b || strings.HasSuffix(a, "."+b) })
}

func TestMariaDB(t *testing.T) {
	m := server.StartMariaDB(t)
	cfg := m.Database(t)
	at := url.URL{Scheme: "mysql", User: url.User(cfg.User), Host: cfg.Addr, Path: "/" + cfg.DBName}
	if cfg.Passwd != "" {
		at.User = url.UserPassword(cfg.User, cfg.Passwd)
	}
	e := build(t, at.String())
	everywhere(e)
	e.ok("install", "orders")
	e.ok("uninstall", "orders")
	e.ok("uninstall")
}

func TestRedis(t *testing.T) {
	r := server.StartRedis(t)
	e := build(t, "redis://"+r.Addr+"/0")
	e.fails(69, "no such guarded resource", "status", "orders")
	everywhere(e)
	e.fails(64, "Redis has no tables", "install", "orders", "invoices")
	e.fails(64, "Redis does not list its resources", "status")
	e.ok("uninstall", "orders")
	e.fails(69, "no such guarded resource", "uninstall", "orders")
}

// everywhere tests what holds at each place: it leaves orders with the greatest token.
func everywhere(e *command) {
	e.t.Helper()
	e.fails(69, "", "claim", "--token", "5", "orders") // nothing is installed
	e.ok("install", "orders")
	e.fails(69, "no such guarded resource", "claim", "--token", "5", "others")
	if s := e.status("orders"); len(s.Resources) != 1 || s.Resources[0].Highest != "0" {
		e.t.Errorf("the status before the first claim is %+v", s)
	}
	e.ok("claim", "--token", "5", "orders")
	e.ok("claim", "--token", "5", "orders")
	e.ok("install", "orders") // again, and the mark stays
	e.fails(75, "4 shown, the resource has seen 5", "claim", "--token", "4", "orders")
	for _, wrong := range []string{"0", "-1", "x", "9223372036854775808", "281474976710656"} {
		e.fails(64, "invalid fencing token", "claim", "--token="+wrong, "orders")
	}
	e.fails(64, "no token is given", "claim", "orders")
	if s := e.status("orders"); len(s.Resources) != 1 || s.Resources[0].Resource != "orders" || s.Resources[0].Highest != "5" {
		e.t.Errorf("the status is %+v", s)
	}
	e.ok("claim", "--token", "9223372036854775807", "orders")
	e.fails(75, "the resource has seen 9223372036854775807", "claim", "--token", "9223372036854775806", "orders")
}

// command is elect fence at a place.
type command struct {
	t       *testing.T
	program string
	at      string
	env     []string
}

func build(t *testing.T, at string) *command {
	t.Helper()
	return &command{t: t, program: harness.Build(t, "../../../cmd/elect"), at: at}
}

func (e *command) run(args ...string) (code int, out, said string) {
	e.t.Helper()
	cmd := exec.CommandContext(e.t.Context(), e.program, append([]string{"fence"}, args...)...)
	cmd.Env = append(append(os.Environ(), "ELECT_AT="+e.at), e.env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), stdout.String(), stderr.String()
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return 0, stdout.String(), stderr.String()
}

func (e *command) ok(args ...string) string {
	e.t.Helper()
	code, out, said := e.run(args...)
	if code != 0 {
		e.t.Fatalf("%q ended with %d:\n%s", args, code, said)
	}
	return out
}

func (e *command) fails(want int, says string, args ...string) {
	e.t.Helper()
	if code, _, said := e.run(args...); code != want || !strings.Contains(said, says) || strings.Count(said, "\n") != 1 {
		e.t.Errorf("%q ended with %d; want %d, and %q in one line:\n%s", args, code, want, says, said)
	}
}

type status struct {
	At        string
	Resources []struct {
		Resource, Highest string
		Tables            []string
	}
}

func (e *command) status(resource string) (s status) {
	e.t.Helper()
	out := e.ok("status", "-o", "json", resource)
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		e.t.Fatal(fmt.Errorf("%w: %s", err, out))
	}
	return s
}
