//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// said is a log that is read while it is written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) until(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		s.mu.Lock()
		now := s.text.String()
		s.mu.Unlock()
		if strings.Contains(now, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing says %q:\n%s", text, now)
		}
	}
}

// TestPgBouncer: elections work through PgBouncer in transaction mode, of a program with pgx and of the command, while
// other clients use the same connections to the server. LISTEN is of no use there, which is said, and candidates poll.
func TestPgBouncer(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for trials of notifications")
	pg := server.StartPostgres(t)
	behind := server.StartPgBouncer(t, pg)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	direct := (&database{dialect: sqlstore.PostgreSQL, make: func(t testing.TB) *url.URL { return parse(t, pg.Database(t)) }}).place(t)
	pooled := *direct
	pooled.at = parse(t, behind(direct.at.Path[1:])+"&default_query_exec_mode=exec")

	// Another client's statements are in between.
	other := pooled.open(t)
	busy, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer func() { stop(); work.Wait() }()
	for range 4 {
		work.Go(func() {
			for busy.Err() == nil {
				var n string
				if err := other.QueryRowContext(busy, "SELECT $1 || $2 || $3", "a", "b", "c").Scan(&n); err != nil && busy.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("pgx", func(t *testing.T) {
		db, log := pooled.open(t), &said{}
		l := sqlstore.NewListener(db, listen(db), slog.New(slog.NewTextHandler(log, nil)))
		t.Cleanup(l.Close)
		cfg := sqlstore.Config{Lease: 2 * time.Second, MaxLease: 2 * time.Second, Poll: 200 * time.Millisecond, Listener: l}
		a, b := at(t, db, "e", "a", cfg), at(t, db, "e", "b", cfg)
		was := campaigned(t, ctx, a)
		log.until(t, "so participants only poll")
		won := local{b, t}.campaigns(ctx)
		released(t, was)
		if is := <-won; is == nil || is.Token() <= was.Token() {
			t.Errorf("%v after token %v", is, was.Token())
		}
	})
	t.Run("elect run", func(t *testing.T) {
		program, dir := harness.Build(t, "../../../cmd/elect"), t.TempDir()
		election := behind(direct.at.Path[1:]) + "&lease=4s&max_lease=4s&poll=200ms"
		run := func(id string) (*exec.Cmd, *said) {
			cmd, log := exec.Command(program, "run", "--election", election, "--name", "command", "--id", id, "--", "sh", "-c", "echo $ELECT_TOKEN > "+id+"; exec sleep 600"), &said{}
			cmd.Dir, cmd.Stderr = dir, log
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd, log
		}
		leads := func(id string) {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
				if _, err := os.Stat(filepath.Join(dir, id)); err == nil {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s does not lead", id)
				}
			}
		}
		a, log := run("a")
		defer func() { _ = a.Process.Kill(); _ = a.Wait() }()
		leads("a")
		log.until(t, "so participants only poll")
		b, _ := run("b")
		if err := a.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		leads("b")
		defer func() { _ = b.Process.Signal(syscall.SIGTERM); _ = b.Wait() }()
		out, err := exec.Command(program, "doctor", "--election", election, "--name", "command").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "transaction mode") {
			t.Errorf("%v; want doctor to report the pooler:\n%s", err, out)
		}
		log.mu.Lock()
		defer log.mu.Unlock()
		if strings.Contains(log.text.String(), "does not answer") || strings.Contains(log.text.String(), "prepared statement") {
			t.Errorf("statements were lost:\n%s", log.text.String())
		}
	})
}
