//go:build linux && cgo

package leases_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
)

// sqliteAt opens a database with parameters of the driver, and installs the table if it can.
func sqliteAt(t *testing.T, path, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?_synchronous=FULL&"+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Install(t.Context(), db, sqlstore.SQLite, ""); err != nil {
		t.Fatal(err)
	}
	return db
}

// sqliteElector returns a participant with the database's default parameters and short leases.
func sqliteElector(t *testing.T, db *sql.DB, id string) local {
	t.Helper()
	e, err := sqlstore.New(t.Context(), db, sqlstore.SQLite, "e", id, sqlstore.Config{Lease: 2 * time.Second, MaxLease: 2 * time.Second, Poll: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return local{e, t}
}

// sqliteRefuses: a database without a journal on the disk, or with two names.
func sqliteRefuses(t *testing.T) {
	for _, mode := range []string{"OFF", "MEMORY"} {
		db := sqliteAt(t, filepath.Join(t.TempDir(), "x.db"), "_journal_mode="+mode)
		if _, err := sqlstore.New(t.Context(), db, sqlstore.SQLite, "e", "a", sqlstore.Config{}); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "PRAGMA journal_mode") {
			t.Errorf("%s: %v", mode, err)
		}
	}
	dir := t.TempDir()
	db := sqliteAt(t, filepath.Join(dir, "x.db"), "_journal_mode=WAL")
	if err := os.Link(filepath.Join(dir, "x.db"), filepath.Join(dir, "y.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.New(t.Context(), db, sqlstore.SQLite, "e", "a", sqlstore.Config{}); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "2 names") {
		t.Errorf("a second name: %v", err)
	}
}

// TestSQLiteReplaced: who has the file that was removed leads no more when the leader of the new one begins.
func TestSQLiteReplaced(t *testing.T) {
	long.Test(t, "it waits for leases")
	t.Parallel()
	for _, mode := range []string{"WAL", "DELETE"} {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			parameters := "_busy_timeout=1000&_journal_mode=" + mode
			a := sqliteElector(t, sqliteAt(t, path, parameters), "a").campaign(ctx)
			for _, end := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			sqliteElector(t, sqliteAt(t, path, parameters), "b").campaign(ctx)
			if err := a.Check(); !errors.Is(err, driver.ErrExpired) {
				t.Errorf("%v while another participant leads; want an expired lease", err)
			}
		})
	}
}

// TestSQLiteBusy: a database that is locked when a participant starts may be free later, and one in
// memory has no file to look at.
func TestSQLiteBusy(t *testing.T) {
	long.Test(t, "it waits for leases")
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	tx, err := sqliteAt(t, path, "_journal_mode=DELETE&_txlock=exclusive").Begin()
	if err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite3", "file:"+path+"?_synchronous=FULL&_busy_timeout=10")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	busy := sqliteElector(t, other, "a")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	memory := sqliteAt(t, ":memory:", "")
	memory.SetMaxOpenConns(1)
	for _, e := range []local{busy, sqliteElector(t, memory, "a")} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := e.campaign(ctx).Release(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}
