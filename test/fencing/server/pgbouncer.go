//go:build linux

package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// StartPgBouncer starts a PgBouncer in transaction mode before a PostgreSQL server, with two connections to it, and
// returns where a database is behind it.
func StartPgBouncer(t testing.TB, p *Postgres) func(database string) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		bin, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		Absent(t, "there is no pgbouncer; on Debian: apt-get install pgbouncer")
	}
	b, port := newProcess(t, "PgBouncer"), freePort(t)
	users, config := filepath.Join(b.dir, "users"), filepath.Join(b.dir, "config")
	for path, text := range map[string]string{
		users: "\"elect\" \"\"\n",
		config: fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
			"auth_type = trust\nauth_file = %s\npool_mode = transaction\ndefault_pool_size = 2\nignore_startup_parameters = extra_float_digits\n", p.port, port, users),
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at := func(database string) string {
		return fmt.Sprintf("postgres://elect@127.0.0.1:%s/%s?sslmode=disable", port, database)
	}
	b.serve(t, b.unprivileged(bin, config), "pgx", at("postgres")+"&default_query_exec_mode=simple_protocol")
	return at
}
