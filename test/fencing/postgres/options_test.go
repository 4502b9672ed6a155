//go:build linux

package postgres_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencesql"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// TestOptions is about tokens that connections begin with, for unmodified programs.
func TestOptions(t *testing.T) {
	d := database(server.StartPostgres(t))
	sqltest.Run(t, d,
		sqltest.Case{Name: "what a connection begins with", Test: testStartup},
		sqltest.Case{Name: "a pool for one term", Test: testTermPool},
		sqltest.Case{Name: "a pool for two terms", Test: testSharedPool},
		sqltest.Case{Name: "elect run and psql", Test: testUnmodified},
	)
}

// guardedOrders makes a table that triggers guard, and a role that may write to it and no
// more. It returns the fence, a pool of the table's owner, and where the role connects.
func guardedOrders(t *testing.T, d sqltest.Database) (f *fencesql.Guard, owner *sql.DB, app string) {
	t.Helper()
	url := d.Make(t)
	owner = d.Connect(t, url)
	f = d.Installed(t, owner, fencesql.Config{}, "orders")
	sqltest.Execute(t, owner, `CREATE TABLE orders (n int)`,
		`DO 'BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ''app'') THEN CREATE ROLE app LOGIN; END IF; END'`, `GRANT INSERT ON orders TO app`)
	if err := f.InstallTriggers(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	return f, owner, strings.Replace(url, "//elect@", "//app@", 1)
}

// forTerm is a pool for one term: each of its connections begins with the token.
func forTerm(t testing.TB, url string, token fence.Token) *sql.DB {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["elect.token"] = token.String()
	db := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

const order = `INSERT INTO orders VALUES (1)`

func insert(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}) error {
	t.Helper()
	_, err := db.ExecContext(t.Context(), order)
	return fencesql.Refusal(err)
}

// testStartup: a client that may connect may begin with a token, by each of the ways that drivers
// know. What is set for a transaction goes before it, and what is reset goes back to it.
func testStartup(t *testing.T, d sqltest.Database) {
	const options = "-c elect.token=7"
	for _, way := range []struct {
		name string
		open func(t *testing.T, url string) *sql.DB
	}{
		{"the parameter options", func(t *testing.T, url string) *sql.DB {
			return d.Connect(t, url+"&options=-c%20elect.token%3D7")
		}},
		{"PGOPTIONS", func(t *testing.T, url string) *sql.DB {
			t.Setenv("PGOPTIONS", options)
			return d.Connect(t, url)
		}},
		{"a parameter of its own", func(t *testing.T, url string) *sql.DB { return forTerm(t, url, 7) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			f, owner, app := guardedOrders(t, d)
			sqltest.Claim(t, f, 7)
			db := way.open(t, app+"&default_query_exec_mode=simple_protocol") // DISCARD ALL drops what a driver has prepared
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			passes := func(when string) {
				t.Helper()
				if err := insert(t, conn); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
			set := func(statement string) {
				t.Helper()
				if _, err := conn.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			var super string
			if err := conn.QueryRowContext(t.Context(), `SELECT current_setting('is_superuser')`).Scan(&super); err != nil || super != "off" {
				t.Fatalf("is_superuser is %q, %v: nothing was tested", super, err)
			}
			passes("at once")
			tx, err := conn.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			sqltest.In(t, tx, `SET LOCAL elect.token = '6'`)
			sqltest.Stale(t, insert(t, tx), 6, 7)
			_ = tx.Rollback()
			passes("after a transaction with another token")
			for _, reset := range []string{`RESET elect.token`, `RESET ALL`, `DISCARD ALL`, `SET elect.token TO DEFAULT`} {
				set(`SET elect.token = '6'`)
				sqltest.Stale(t, insert(t, conn), 6, 7)
				set(reset)
				passes(reset)
			}
			// It holds the mark as any other check does.
			tx, err = conn.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := insert(t, tx); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- f.Claim(t.Context(), 8) }()
			d.Wait(t, owner, 1)
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			sqltest.Stale(t, insert(t, conn), 7, 8)
			set(`DISCARD ALL`)
			sqltest.Stale(t, insert(t, conn), 7, 8)
			sqltest.Stale(t, insert(t, db), 7, 8) // and a new connection
		})
	}
	// Without a token, with invalid ones, and with what a pooler that drops parameters leaves.
	f, _, app := guardedOrders(t, d)
	sqltest.Claim(t, f, 7)
	sqltest.Is(t, insert(t, d.Connect(t, app)), fence.ErrMissing)
	sqltest.Is(t, insert(t, d.Connect(t, app+"&options=-c%20elect.token%3D")), fence.ErrMissing)
	sqltest.Is(t, insert(t, d.Connect(t, app+"&options=-c%20elect.token%3Dseven")), fence.ErrToken)
	sqltest.Is(t, insert(t, d.Connect(t, app+"&options=-c%20elect.token%3D-1")), fence.ErrToken)
	sqltest.Is(t, insert(t, d.Connect(t, app+"&options=-c%20elect.token%3D8")), fence.ErrUnclaimed)
	t.Setenv("PGOPTIONS", options)
	sqltest.Is(t, insert(t, d.Connect(t, app+"&options=-c%20work_mem%3D1MB")), fence.ErrMissing) // its own go before PGOPTIONS
}

// testTermPool: each term has a pool of its own. That of an older one is useless to any
// program that has kept it.
func testTermPool(t *testing.T, d sqltest.Database) {
	f, owner, app := guardedOrders(t, d)
	sqltest.Claim(t, f, 1)
	older := forTerm(t, app, 1)
	if err := insert(t, older); err != nil {
		t.Fatal(err)
	}
	kept, err := older.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	sqltest.Claim(t, f, 2)
	newer := forTerm(t, app, 2)
	if err := insert(t, newer); err != nil {
		t.Error(err)
	}
	sqltest.Stale(t, insert(t, kept), 1, 2)
	sqltest.Stale(t, insert(t, older), 1, 2)
	// A token in the transaction works, too.
	tx, err := older.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := f.SetToken(t.Context(), tx, 2); err != nil {
		t.Fatal(err)
	}
	if err := insert(t, tx); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	if n := sqltest.Number(t, owner, `SELECT count(*) FROM orders`); n != 3 {
		t.Errorf("%d rows; want 3", n)
	}
}

// testSharedPool: the trap. A pool that is kept from term to term gives connections of the newer
// term to delayed work of the older one.
func testSharedPool(t *testing.T, d sqltest.Database) {
	f, _, app := guardedOrders(t, d)
	cfg, err := pgx.ParseConfig(app)
	if err != nil {
		t.Fatal(err)
	}
	var term atomic.Uint64 // the one of this process
	pool := stdlib.OpenDB(*cfg, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		c.RuntimeParams = map[string]string{"elect.token": fence.Token(term.Load()).String()}
		return nil
	}))
	defer pool.Close()
	pool.SetMaxIdleConns(0)
	work := func() error { return insert(t, pool) } // of term 1, for ever
	term.Store(1)
	sqltest.Claim(t, f, 1)
	if err := work(); err != nil {
		t.Fatal(err)
	}
	sqltest.Claim(t, f, 2) // another process leads meanwhile
	sqltest.Stale(t, work(), 1, 2)
	sqltest.Claim(t, f, 3) // this one leads again
	term.Store(3)
	if err := work(); err != nil {
		t.Errorf("%v; if this is refused, the documentation is wrong", err)
	}
}

// testUnmodified is a whole run with an unmodified program: psql.
func testUnmodified(t *testing.T, d sqltest.Database) {
	psql := findPsql(t)
	program := harness.Build(t, "../../../cmd/elect")
	dir := filepath.Dir(program)
	f, _, app := guardedOrders(t, d)
	env := append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+filepath.Join(dir, "state"),
		"ELECT_AT="+strings.Replace(app, "//app@", "//elect@", 1))
	lead := func() fence.Token {
		t.Helper()
		cmd := exec.Command(program, "run", "--once", "--name", "orders", "--",
			"sh", "-c", `elect fence claim orders >&2 && PGOPTIONS="-c elect.token=$ELECT_TOKEN" exec "$0" "$@"`,
			psql, "-XAtq", "-c", order+` RETURNING current_setting('elect.token')`, app)
		cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		token, e := fence.ParseToken(strings.TrimSpace(string(out)))
		if err := errors.Join(err, e); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		return token
	}
	first := lead()
	older := startPsql(t, psql, app, "PGOPTIONS=-c elect.token="+first.String()) // of the first term; it still runs
	if said := older.do(order); strings.Contains(said, "ERROR") {
		t.Fatal(said)
	}
	older.do(`BEGIN`)
	if second := lead(); second <= first {
		t.Fatalf("the second token is %v after %v", second, first)
	}
	for _, between := range []string{`ROLLBACK`, `RESET ALL`, `DISCARD ALL`} {
		if said := older.do(order); !strings.Contains(said, "LF001: "+(&fence.StaleError{Shown: first, Highest: highest(t, f)}).Error()) {
			t.Errorf("the older one, before %s: %s", between, said)
		}
		older.do(between)
	}
	if said := startPsql(t, psql, app).do(order); !strings.Contains(said, "LF002") {
		t.Errorf("without a token: %s", said)
	}
}

func highest(t *testing.T, f *fencesql.Guard) fence.Token {
	t.Helper()
	s, err := f.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Highest
}

// findPsql returns the path of psql.
func findPsql(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("psql"); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
	if len(found) == 0 {
		server.Absent(t, "there is no psql; on Debian: apt-get install postgresql-client")
	}
	return found[len(found)-1]
}

// psqlSession is a psql that goes on.
type psqlSession struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

func startPsql(t *testing.T, psql, url string, env ...string) *psqlSession {
	t.Helper()
	cmd := exec.Command(psql, "-XAtq", "-v", "VERBOSITY=verbose", url)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = read.Close()
	})
	return &psqlSession{t, in, bufio.NewScanner(read)}
}

// do executes a statement, and returns the output of psql.
func (p *psqlSession) do(statement string) string {
	p.t.Helper()
	const end = "this was all"
	if _, err := io.WriteString(p.in, statement+";\n\\echo "+end+"\n"); err != nil {
		p.t.Fatal(err)
	}
	var said strings.Builder
	for p.out.Scan() {
		if p.out.Text() == end {
			return said.String()
		}
		said.WriteString(p.out.Text() + "\n")
	}
	p.t.Fatalf("psql has ended after %s:\n%s", statement, said.String())
	return ""
}
