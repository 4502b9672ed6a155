//go:build linux && cgo

package leases_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// standbys sets the names of PostgreSQL's synchronous standbys, and returns when new sessions have them.
func (p *place) standbys(t testing.TB, names string) {
	t.Helper()
	p.exec(t, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
	p.exec(t, "SELECT pg_reload_conf()")
	for now := ""; ; {
		db := p.open(t)
		if err := db.QueryRowContext(t.Context(), "SHOW synchronous_standby_names").Scan(&now); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if now == names {
			return
		}
	}
}

// nobody fails the test if a participant is elected within four leases.
func (l local) nobody(ctx context.Context) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	if m, err := l.Campaign(ctx, driver.Candidacy{Exclusive: true}); err == nil {
		l.t.Errorf("it is elected with token %v though no write was acknowledged", m.Token())
	}
}

// TestUnacknowledged: writes of which PostgreSQL shows the effect, and which it has not
// acknowledged, prove nothing.
func TestUnacknowledged(t *testing.T) {
	long.Test(t, "it waits for leases")
	t.Parallel()
	pg := server.StartPostgres(t)
	d := database{dialect: sqlstore.PostgreSQL, make: func(t testing.TB) *url.URL { return parse(t, pg.Database(t)) }}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Run("standby", func(t *testing.T) {
		p := d.place(t)
		a, b := elector(t, p, "a"), elector(t, p, "b")
		m := a.campaign(ctx)
		p.standbys(t, "s1") // none of this name is connected
		select {
		case <-m.Context().Done():
		case <-ctx.Done():
			t.Fatal("it leads on though no write is acknowledged")
		}
		if err := m.Check(); !errors.Is(err, driver.ErrExpired) {
			t.Errorf("%v; want an expired lease", err)
		}
		b.nobody(ctx)
		p.standbys(t, "")
		if n := b.campaign(ctx); n.Token() <= m.Token() {
			t.Errorf("token %v after %v", n.Token(), m.Token())
		}
	})
	t.Run("asynchronous session", func(t *testing.T) {
		p := d.place(t)
		e := elector(t, p, "a") // its settings are right here
		p.exec(t, `ALTER DATABASE "`+p.at.Path[1:]+`" SET synchronous_commit = off`)
		p.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()`)
		e.nobody(ctx)
	})
}
