//go:build linux && cgo

package leases_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// refuses fails the test if a place is not refused for good, with that text.
func refuses(t *testing.T, at, want string) {
	t.Helper()
	u := parse(t, at)
	e, err := openers[u.Scheme](t.Context(), driver.Target{URL: u, Name: "e", ID: "a"})
	if err == nil {
		_ = e.Close()
	}
	if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want a permanent error with %q", err, want)
	}
}

// TestRefused: a database that could forget what it has acknowledged is refused.
func TestRefused(t *testing.T) {
	t.Parallel()
	t.Run("postgresql", func(t *testing.T) {
		pg := server.StartPostgres(t)
		d := database{dialect: sqlstore.PostgreSQL, make: func(t testing.TB) *url.URL { return parse(t, pg.Database(t)) }}
		refuses(t, d.make(t).String(), "it does not exist; want one made by elect install")
		p := d.place(t)
		refuses(t, p.url("")+"&options=-csynchronous_commit%3Doff", "synchronous_commit is off")
		p.exec(t, "ALTER TABLE elect_leases RENAME TO other")
		p.exec(t, "CREATE VIEW elect_leases AS SELECT * FROM other")
		refuses(t, p.url(""), "it is a view")
		p.exec(t, "DROP VIEW elect_leases")
		p.exec(t, "CREATE TABLE elect_leases (name TEXT PRIMARY KEY, record TEXT NOT NULL) PARTITION BY HASH (name)")
		p.exec(t, "CREATE UNLOGGED TABLE part PARTITION OF elect_leases FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
		refuses(t, p.url(""), "unlogged")
		p.exec(t, "DROP TABLE elect_leases")
		p.exec(t, "ALTER TABLE other RENAME TO elect_leases")
		p.exec(t, "ALTER TABLE elect_leases SET UNLOGGED")
		refuses(t, p.url(""), "unlogged")
		p.exec(t, "ALTER TABLE elect_leases SET LOGGED")
		postgresShapes(t, p)
		p.standbys(t, "s1")
		for _, level := range []string{"local", "remote_write"} {
			refuses(t, p.url("")+"&options=-csynchronous_commit%3D"+level, "synchronous_commit is "+level)
		}
	})
	t.Run("mariadb", func(t *testing.T) {
		m := server.StartMariaDB(t, "--log-bin=binlog", "--server-id=1", "--sync-binlog=1")
		d := database{dialect: sqlstore.MySQL, make: func(t testing.TB) *url.URL {
			cfg := m.Database(t)
			return parse(t, "mysql://"+cfg.User+"@"+cfg.Addr+"/"+cfg.DBName)
		}}
		refuses(t, d.make(t).String(), "doesn't exist; want one made by elect install")
		p := d.place(t)
		p.exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
		refuses(t, p.url(""), "innodb_flush_log_at_trx_commit=2")
		p.exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
		p.exec(t, "SET GLOBAL sync_binlog = 0")
		refuses(t, p.url(""), "sync_binlog=0")
		p.exec(t, "SET GLOBAL sync_binlog = 1")
		p.exec(t, "SET GLOBAL tx_isolation = 'READ-UNCOMMITTED'")
		refuses(t, p.url(""), "READ UNCOMMITTED")
		p.exec(t, "SET GLOBAL tx_isolation = 'READ-COMMITTED'")
		p.exec(t, "SET GLOBAL binlog_format = 'STATEMENT'")
		refuses(t, p.url(""), "binlog_format=STATEMENT")
		p.exec(t, "SET GLOBAL tx_isolation = 'REPEATABLE-READ'")
		p.exec(t, "SET GLOBAL autocommit = 0")
		refuses(t, p.url(""), "autocommit=OFF")
		p.exec(t, "SET GLOBAL autocommit = 1")
		mariaShapes(t, p)
		p.exec(t, "ALTER TABLE elect_leases ENGINE = MyISAM")
		refuses(t, p.url(""), "engine MyISAM; want InnoDB")
	})
	t.Run("sqlite", func(t *testing.T) {
		refuses(t, "sqlite:"+t.TempDir()+"/none.db", "no such table")
		sqliteRefuses(t)
		sqliteShapes(t)
	})
}

// TestNonsense: a record that is not elect's elects nobody, is shown as trouble, and takes
// the lease of a leader that cannot renew it. When it is deleted, and the era raised, the
// election goes on.
func TestNonsense(t *testing.T) {
	long.Test(t, "it waits for leases")
	t.Parallel()
	for name, start := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			p := d.place(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			m := elector(t, p, "a").campaign(ctx)
			p.exec(t, `UPDATE elect_leases SET record = 'nonsense'`)
			select {
			case <-m.Context().Done():
			case <-ctx.Done():
				t.Fatal("it leads on")
			}
			if err := m.Check(); !errors.Is(err, driver.ErrExpired) {
				t.Errorf("%v; want an expired lease", err)
			}
			if err := m.Release(ctx); err != nil {
				t.Error(err)
			}
			p.exec(t, `UPDATE elect_leases SET record = ''`) // nor is that: it is no free record
			for s, err := range elector(t, p, "b").Watch(ctx) {
				if err != nil || s.Stale {
					if s.Cause == nil || !strings.Contains(s.Cause.Error(), "not one of elect's") {
						t.Errorf("%+v, %v; want what is wrong with the record", s, err)
					}
					break
				}
			}
			p.exec(t, `DELETE FROM elect_leases`)
			p.era++
			n := elector(t, p, "c").campaign(ctx)
			if n.Token() <= m.Token() {
				t.Errorf("token %v after %v", n.Token(), m.Token())
			}
			if err := n.Release(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOldRow: when an old record is written back, as a restore does, the leader ends before the next
// one leads. A participant that has seen nothing newer repeats tokens, which a raised era prevents.
func TestOldRow(t *testing.T) {
	long.Full(t, "it waits for leases")
	for name, start := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			p := d.place(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			first := elector(t, p, "a").campaign(ctx)
			var old string
			if err := p.open(t).QueryRowContext(ctx, `SELECT record FROM elect_leases`).Scan(&old); err != nil {
				t.Fatal(err)
			}
			released(t, first)
			was := elector(t, p, "b").campaign(ctx)
			p.exec(t, `UPDATE elect_leases SET record = '`+old+`'`)
			is := elector(t, p, "c").campaign(ctx)
			if was.Check() == nil {
				t.Error("two are proven")
			}
			if is.Token() > was.Token() {
				t.Errorf("token %v after %v, of which the row knows nothing; say in docs/databases.md why it rises", is.Token(), was.Token())
			}
			released(t, was)
			released(t, is)
			p.era++
			if is = elector(t, p, "d").campaign(ctx); is.Token() <= was.Token() {
				t.Errorf("token %v of the next era after %v", is.Token(), was.Token())
			}
			released(t, is)
		})
	}
}

// local is a participant in this process.
type local struct {
	driver.Elector
	t *testing.T
}

func elector(t *testing.T, p *place, id string) local {
	t.Helper()
	return opened(t, p.url(""), id)
}

// opened is a participant of the election "e" at a URL.
func opened(t *testing.T, url, id string) local {
	t.Helper()
	return logged(t, url, id, nil)
}

// logged is opened with a log.
func logged(t *testing.T, url, id string, log *slog.Logger) local {
	t.Helper()
	u := parse(t, url)
	e, err := openers[u.Scheme](t.Context(), driver.Target{URL: u, Name: "e", ID: id, Logger: log})
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

func cableTo(t testing.TB, addr string) *cable.Cable {
	t.Helper()
	c, err := cable.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// perCase returns what has one P for each case of the suite.
func perCase[P any](begin func(testing.TB) P) func(testing.TB) P {
	all := map[testing.TB]P{}
	return func(t testing.TB) P {
		p, begun := all[t]
		if !begun {
			p = begin(t)
			all[t] = p
		}
		return p
	}
}

// behindCable opens a participant in a process of its own, behind a cable to a server at addr. at is its URL for an
// address.
func behindCable(t testing.TB, addr string, at func(addr string) string, name, id string) electtest.Participant {
	t.Helper()
	c := cableTo(t, addr)
	p := electtest.Spawn(t, at(c.Addr()), name, id)
	p.Cut = cuts(c)
	return p
}

// cuts is a [electtest.Participant]'s Cut.
func cuts(c *cable.Cable) func(on bool) {
	return func(on bool) {
		if on {
			c.Cut()
		} else {
			c.Heal()
		}
	}
}

func (l local) campaign(ctx context.Context) driver.Mandate {
	l.t.Helper()
	m, err := l.Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}
