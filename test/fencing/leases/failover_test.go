//go:build linux && cgo

package leases_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/store/sqlstore"
	"github.com/electd/elect/test/fencing/server"
)

// pair is a PostgreSQL server with a standby, and one election as each of them has it.
type pair struct {
	t                *testing.T
	primary, standby *server.Postgres
	at, after        *place // at the primary, and at the standby
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, primary: server.StartPostgres(t)}
	p.standby = p.primary.StartStandby(t, "s1")
	d := &database{dialect: sqlstore.PostgreSQL, make: func(t testing.TB) *url.URL { return parse(t, p.primary.Database(t)) }}
	p.at = d.place(t)
	p.after = &place{database: d, at: parse(t, p.standby.URL(p.at.at.Path[1:]))}
	return p
}

// until repeats a query at a place until it returns that text.
func (p *place) until(t *testing.T, query, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, got, err := p.open(t), "", error(nil)
	for got != want || err != nil {
		if ctx.Err() != nil {
			t.Fatalf("%s: %q, %v; want %q", query, got, err, want)
		}
		<-time.After(10 * time.Millisecond)
		err = db.QueryRowContext(ctx, query).Scan(&got)
	}
}

// follows waits until the standby has what the primary has now.
func (p *pair) follows() {
	p.t.Helper()
	var lsn string
	if err := p.at.open(p.t).QueryRowContext(p.t.Context(), "SELECT pg_current_wal_insert_lsn()").Scan(&lsn); err != nil {
		p.t.Fatal(err)
	}
	p.after.until(p.t, "SELECT (pg_last_wal_replay_lsn() >= '"+lsn+"')::text", "true")
}

// synchronous makes each write wait for the standby.
func (p *pair) synchronous() {
	p.t.Helper()
	p.at.standbys(p.t, "s1")
	p.at.until(p.t, "SELECT coalesce(max(sync_state), '') FROM pg_stat_replication WHERE application_name = 's1'", "sync")
}

// TestFailover has a standby of PostgreSQL take over.
func TestFailover(t *testing.T) {
	long.Full(t, "it starts six servers, and waits for leases")
	within := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		t.Cleanup(cancel)
		return ctx
	}
	// The old primary lives on, and its leader still reaches it. Nothing that it writes there is
	// acknowledged, so it is proven no more when the next one leads; and tokens rise by themselves,
	// because the standby has all that was acknowledged.
	t.Run("synchronous, and the old primary lives on", func(t *testing.T) {
		t.Parallel()
		p, ctx := newPair(t), within(t)
		p.synchronous()
		a := elector(t, p.at, "a")
		was := a.campaign(ctx)
		b := elector(t, p.after, "b")
		won := make(chan driver.Mandate, 1)
		go func() {
			m, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if m != nil && was.Check() == nil {
				t.Error("two are proven")
			}
			won <- m
		}()
		p.follows()
		select {
		case <-won:
			t.Fatal("it is elected at a standby")
		default:
		}
		p.standby.Promote(t)
		is := <-won
		if is == nil {
			t.Fatal("nobody is elected at the new primary")
		}
		if is.Token() <= was.Token() {
			t.Errorf("token %v after %v", is.Token(), was.Token())
		}
		released(t, was)
		a.nobody(ctx)
	})
	t.Run("synchronous, and the old primary dies", func(t *testing.T) {
		t.Parallel()
		p, ctx := newPair(t), within(t)
		p.synchronous()
		was := elector(t, p.at, "a").campaign(ctx)
		p.primary.Kill(t)
		p.standby.Promote(t)
		is := elector(t, p.after, "b").campaign(ctx)
		if is.Token() <= was.Token() || was.Check() == nil {
			t.Errorf("token %v after %v, which is told %v", is.Token(), was.Token(), was.Check())
		}
	})
	// The standby has missed a whole term, which is what docs/databases.md says: leases stay
	// exclusive, a token comes again, and the era is what prevents that.
	t.Run("asynchronous", func(t *testing.T) {
		t.Parallel()
		p, ctx := newPair(t), within(t)
		a := elector(t, p.at, "a")
		released(t, a.campaign(ctx))
		p.follows()
		p.standby.Kill(t)
		was := a.campaign(ctx)
		p.primary.Kill(t)
		p.standby.Start(t)
		p.standby.Promote(t)
		is := elector(t, p.after, "b").campaign(ctx)
		if was.Check() == nil {
			t.Error("two are proven")
		}
		if is.Token() > was.Token() {
			t.Errorf("token %v after %v, of which the standby knows nothing; say in docs/databases.md why it rises", is.Token(), was.Token())
		}
		released(t, is)
		p.after.era++
		if is = elector(t, p.after, "c").campaign(ctx); is.Token() <= was.Token() {
			t.Errorf("token %v of the next era after %v", is.Token(), was.Token())
		}
	})
}

// mariaPair is a MariaDB server with a replica, and one election as each of them has it. Its user is an ordinary one,
// because root may write at a replica.
type mariaPair struct {
	primary, replica *server.MariaDB
	at, after        *place // at the primary, and at the replica
}

func newMariaPair(t *testing.T, synchronous bool) *mariaPair {
	p := &mariaPair{}
	p.primary, p.replica = server.StartMariaDBPair(t, synchronous)
	name := p.primary.Database(t).DBName
	p.primary.Exec(t, "CREATE USER job@127.0.0.1")
	p.primary.Exec(t, "GRANT ALL ON "+name+".* TO job@127.0.0.1")
	d := &database{dialect: sqlstore.MySQL, make: func(t testing.TB) *url.URL {
		return parse(t, "mysql://job@"+p.primary.Config("").Addr+"/"+name)
	}}
	p.at = d.place(t)
	p.after = &place{database: d, at: parse(t, "mysql://job@"+p.replica.Config("").Addr+"/"+name)}
	p.replica.Follows(t, p.primary)
	return p
}

// TestMariaDBFailover has a replica of MariaDB take over.
func TestMariaDBFailover(t *testing.T) {
	long.Full(t, "it starts six servers, and waits for leases")
	within := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		t.Cleanup(cancel)
		return ctx
	}
	// The old primary lives on and takes no writes, as in a switchover.
	t.Run("the old primary lives on", func(t *testing.T) {
		t.Parallel()
		p, ctx := newMariaPair(t, false), within(t)
		a := elector(t, p.at, "a")
		was := a.campaign(ctx)
		b := elector(t, p.after, "b")
		won := make(chan driver.Mandate, 1)
		go func() {
			m, _ := b.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if m != nil && was.Check() == nil {
				t.Error("two are proven")
			}
			won <- m
		}()
		p.primary.Exec(t, "SET GLOBAL read_only = ON")
		p.replica.Follows(t, p.primary)
		select {
		case <-won:
			t.Fatal("it is elected at a replica")
		default:
		}
		p.replica.Promote(t)
		is := <-won
		if is == nil {
			t.Fatal("nobody is elected at the new primary")
		}
		if is.Token() <= was.Token() {
			t.Errorf("token %v after %v", is.Token(), was.Token())
		}
		released(t, is)
		a.nobody(ctx)
	})
	t.Run("synchronous, and the old primary dies", func(t *testing.T) {
		t.Parallel()
		p, ctx := newMariaPair(t, true), within(t)
		a := elector(t, p.at, "a")
		p.replica.Exec(t, "STOP SLAVE IO_THREAD")
		a.nobody(ctx)
		p.replica.Exec(t, "START SLAVE IO_THREAD")
		was := a.campaign(ctx)
		p.primary.Kill(t)
		p.replica.Promote(t)
		is := elector(t, p.after, "b").campaign(ctx)
		if is.Token() <= was.Token() || was.Check() == nil {
			t.Errorf("token %v after %v, which is told %v", is.Token(), was.Token(), was.Check())
		}
	})
	// The replica has missed a whole term, as in TestFailover.
	t.Run("asynchronous", func(t *testing.T) {
		t.Parallel()
		p, ctx := newMariaPair(t, false), within(t)
		a := elector(t, p.at, "a")
		released(t, a.campaign(ctx))
		p.replica.Follows(t, p.primary)
		p.replica.Kill(t)
		was := a.campaign(ctx)
		p.primary.Kill(t)
		p.replica.Start(t)
		p.replica.Promote(t)
		is := elector(t, p.after, "b").campaign(ctx)
		if was.Check() == nil {
			t.Error("two are proven")
		}
		if is.Token() > was.Token() {
			t.Errorf("token %v after %v, of which the replica knows nothing; say in docs/databases.md why it rises", is.Token(), was.Token())
		}
		released(t, is)
		p.after.era++
		if is = elector(t, p.after, "c").campaign(ctx); is.Token() <= was.Token() {
			t.Errorf("token %v of the next era after %v", is.Token(), was.Token())
		}
	})
}
