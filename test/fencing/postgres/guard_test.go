//go:build linux

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/test/fencing/server"
	"github.com/electd/elect/test/fencing/sqltest"
)

// holdEnv is where a leader's process locks a row, and holds it for ever.
const holdEnv = "FENCING_HOLD"

func holdRow(at string) {
	db, err := sql.Open("pgx", at+"&application_name="+strconv.Itoa(os.Getpid()))
	if err != nil {
		panic(err)
	}
	tx, err := db.Begin()
	if err == nil {
		_, err = tx.Exec(`UPDATE stock SET n = n - 1`)
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// mandate is one with a lease that is renewed until the test says when it ends.
type mandate struct {
	lease time.Duration
	end   atomic.Pointer[time.Time]
}

func (m *mandate) Remaining() (time.Duration, bool) {
	if end := m.end.Load(); end != nil {
		return max(time.Until(*end), 0), true
	}
	return m.lease, true
}

func (m *mandate) Token() fence.Token            { return 1 }
func (m *mandate) Context() context.Context      { return context.Background() }
func (m *mandate) Check() error                  { return nil }
func (m *mandate) Release(context.Context) error { return nil }

// TestGuardFreesRows: a leader that is frozen in the middle of a transaction has locked a row, for which its successor
// waits. The successor gets it when the leader's lease is over, although the server checks nothing, has no keepalives,
// and the frozen process says nothing.
func TestGuardFreesRows(t *testing.T) {
	pg := server.StartPostgres(t, "tcp_keepalives_idle=7200", "idle_in_transaction_session_timeout=0")
	contain, err := supervise.Contain(t.Context(), supervise.Auto, "frees-rows", nil)
	if err == nil {
		err = contain.GuardNetwork()
	}
	if errors.Is(err, supervise.ErrContain) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		lease time.Duration
		end   func(t *testing.T, m *mandate, f *supervise.Family, leader int, locked func() bool) (over time.Time)
	}{
		{"its lease is not renewed", time.Second, func(t *testing.T, m *mandate, f *supervise.Family, leader int, locked func() bool) time.Time {
			over := time.Now().Add(m.lease)
			m.end.Store(&over)
			return over
		}},
		// What the kernel sends for a process that dies when the guard is closed does not arrive: only the reset does.
		{"it dies after its lease", time.Hour, func(t *testing.T, m *mandate, f *supervise.Family, leader int, locked func() bool) time.Time {
			m.end.Store(new(time.Time))
			f.Renew()
			_ = syscall.Kill(leader, syscall.SIGKILL)
			harness.Eventually(t, "the leader is dead", func() bool { stat, ok := proc.Read(leader); return !ok || stat.Dead() })
			if !locked() {
				t.Error("the row is free before the connection is reset, so that nothing is shown")
			}
			over := time.Now()
			f.Kill()
			return over
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := database(pg)
			at := d.Make(t)
			db := d.Connect(t, at)
			sqltest.Execute(t, db, `CREATE TABLE stock (n int)`, `INSERT INTO stock VALUES (5)`)
			m := &mandate{lease: c.lease}
			command := supervise.Command{
				Path: "/bin/sh", Args: []string{"sh", "-c", `"$0" & exec sleep 1000`, exe}, Env: append(os.Environ(), holdEnv+"="+at),
				Stderr: os.Stderr, Containment: contain,
			}
			command.Under(driver.Guarded{Mandate: m, Exclusive: true})
			family, err := supervise.Start(t.Context(), command)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { family.Kill(); family.Wait() })
			leader := 0
			harness.Eventually(t, "the leader has locked the row", func() bool {
				err := db.QueryRow(`SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE 'UPDATE%'`).Scan(&leader)
				return err == nil
			})
			free, done := time.Time{}, make(chan error, 1)
			go func() {
				_, err := db.Exec(`UPDATE stock SET n = n + 10`)
				free = time.Now()
				done <- err
			}()
			d.Wait(t, db, 1) // the successor waits
			if err := syscall.Kill(leader, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			over := c.end(t, m, family, leader, func() bool {
				var waiting int
				return db.QueryRow(d.Waiting).Scan(&waiting) == nil && waiting == 1
			})
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			t.Logf("the successor had the row %v after the end", free.Sub(over))
			family.Wait()
			if n := sqltest.Number(t, db, `SELECT n FROM stock`); n != 15 {
				t.Errorf("the row is %d; want 15, without the write of the dead leader", n)
			}
		})
	}
}
