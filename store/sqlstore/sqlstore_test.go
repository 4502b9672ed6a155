package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
)

func TestParameters(t *testing.T) {
	u, err := url.Parse("postgres://me:secret@db/app?lease=2s&max_lease=4s&poll=300ms&table=ops.leases&era=3&sslmode=verify-full&application_name=a%20b")
	if err != nil {
		t.Fatal(err)
	}
	rest, c, err := Parameters(u)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Config{Lease: 2 * time.Second, MaxLease: 4 * time.Second, Poll: 300 * time.Millisecond, Table: "ops.leases", Era: 3}); c != want {
		t.Errorf("%+v; want %+v", c, want)
	}
	if want := "postgres://me:secret@db/app?application_name=a%20b&sslmode=verify-full"; rest.String() != want {
		t.Errorf("%s; want %s", rest, want)
	}
	for query, want := range map[string]string{
		"lease=5":           "lease=5; want a time such as 5s",
		"lease=-5s":         "lease=-5s; want a time",
		"lease=1s&lease=2s": "lease is given 2 times",
		"era=65536":         "era=65536; want 0 to 65535",
		"era=x":             "era=x; want",
		"a=%zz":             "parameters",
	} {
		u.RawQuery = query
		if _, c, err := Parameters(u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want an error with %q", query, c, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"Leases", "a.b.c", "a b", `a"b`, "1a", ".a", "a.", strings.Repeat("a", 64)} {
		if s, err := Schema(PostgreSQL, name); err == nil {
			t.Errorf("%q makes %s; want an error", name, s)
		}
	}
	for d, want := range map[Dialect]string{PostgreSQL: `"ops"."leases"`, MySQL: "`ops`.`leases`", SQLite: `"ops"."leases"`} {
		s, err := Schema(d, "ops.leases")
		if err != nil || !strings.Contains(s, "CREATE TABLE IF NOT EXISTS "+want+" (") {
			t.Errorf("%s: %s, %v; want %s in it", d, s, err, want)
		}
	}
	if s, err := Schema("oracle", ""); err == nil || !strings.Contains(err.Error(), "want postgresql, mysql or sqlite") {
		t.Errorf("%s, %v", s, err)
	}
}

// TestOpenerRefuses: what is wrong for good is marked so, and names no password.
func TestOpenerRefuses(t *testing.T) {
	u, err := url.Parse("postgres://me:secret@db/app?lease=x")
	if err != nil {
		t.Fatal(err)
	}
	opened := false
	open := Opener(PostgreSQL, func(*url.URL) (*sql.DB, error) { opened = true; return nil, errors.New("no such driver") })
	_, err = open(context.Background(), driver.Target{URL: u, Name: "e", ID: "a"})
	if err == nil || !driver.IsPermanent(err) || opened || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v, opened %t; want a permanent error first", err, opened)
	}
	u.RawQuery = ""
	if _, err = open(context.Background(), driver.Target{URL: u, Name: "e", ID: "a"}); err == nil || !driver.IsPermanent(err) || !opened {
		t.Errorf("%v; want that of the driver, as permanent", err)
	}
}

// TestMySQLSettings: what a server tells of itself makes its identity, or is refused.
// away is a server that does not answer.
type away struct{}

func (away) Connect(context.Context) (sqldriver.Conn, error) { return nil, errors.New("no answer") }
func (away) Driver() sqldriver.Driver                        { return nil }

// TestLoggedOnce: each line says once of which election it is, whether a participant is opened by a URL or not.
func TestLoggedOnce(t *testing.T) {
	log := &bytes.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	open := Opener(PostgreSQL, func(*url.URL) (*sql.DB, error) { return sql.OpenDB(away{}), nil })
	byURL, err := elect.Openers{"postgres": open}.Open(t.Context(), "postgres://db/app", "jobs", elect.Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	defer byURL.Close()
	db := sql.OpenDB(away{})
	defer db.Close()
	direct, err := New(t.Context(), db, PostgreSQL, "jobs", "a", Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(byURL.Close(), direct.Close()); err != nil { // they log no more
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(log.String()))
	for _, line := range lines {
		if strings.Count(line, "election=jobs") != 1 {
			t.Errorf("%s; want election=jobs once", line)
		}
	}
	if len(lines) < 2 {
		t.Errorf("%d lines; want one of each at least", len(lines))
	}
}

func TestMySQLSettings(t *testing.T) {
	good := map[string]string{
		"server_uid": "uid", "hostname": "db1", "port": "3306", "datadir": "/var/lib/mysql/", "innodb_flush_log_at_trx_commit": "1",
		"sync_binlog": "0", "log_bin": "OFF", "binlog_format": "MIXED", "wsrep_on": "OFF", "autocommit": "ON", "tx_isolation": "REPEATABLE-READ",
	}
	for name, c := range map[string]struct {
		set      map[string]string
		id, want string
	}{
		"MariaDB":                     {nil, "uid@db1:3306/var/lib/mysql/", ""},
		"another place, the same uid": {map[string]string{"hostname": "db2"}, "uid@db2:3306/var/lib/mysql/", ""},
		"MySQL":                       {map[string]string{"server_uuid": "uuid"}, "uuid", ""},
		"nothing told":                {map[string]string{"hostname": ""}, "", "does not tell what it is"},
		"no flush":                    {map[string]string{"innodb_flush_log_at_trx_commit": "2"}, "", "innodb_flush_log_at_trx_commit=2"},
		"a log that is not synced":    {map[string]string{"log_bin": "ON"}, "", "sync_binlog=0"},
		"a log that is":               {map[string]string{"log_bin": "ON", "sync_binlog": "1"}, "uid@db1:3306/var/lib/mysql/", ""},
		"Galera":                      {map[string]string{"wsrep_on": "ON"}, "", "wsrep_on=ON"},
		"no autocommit":               {map[string]string{"autocommit": "OFF"}, "", "autocommit=OFF"},
		"dirty reads":                 {map[string]string{"tx_isolation": "READ-UNCOMMITTED"}, "", "READ UNCOMMITTED"},
		"dirty reads in MySQL":        {map[string]string{"transaction_isolation": "READ-UNCOMMITTED"}, "", "READ UNCOMMITTED"},
		"no writes":                   {map[string]string{"tx_isolation": "READ-COMMITTED", "log_bin": "ON", "sync_binlog": "1", "binlog_format": "STATEMENT"}, "", "binlog_format=STATEMENT"},
		"committed reads":             {map[string]string{"tx_isolation": "READ-COMMITTED"}, "uid@db1:3306/var/lib/mysql/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := maps.Clone(good)
			maps.Copy(v, c.set)
			id, err := judge(v)
			if id != c.id || (err == nil) != (c.want == "") || err != nil && (!driver.IsPermanent(err) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%q, %v; want %q, and %q", id, err, c.id, c.want)
			}
		})
	}
}

func TestPostgreSQLSettings(t *testing.T) {
	for _, c := range []struct {
		commit, standbys string
		forgets          bool
	}{
		{"on", "", false}, {"on", "s1", false}, {"remote_apply", "s1", false}, {"local", "", false}, {"remote_write", "", false},
		{"off", "", true}, {"local", "s1", true}, {"remote_write", "s1", true},
	} {
		if err := forgets(c.commit, c.standbys); (err != nil) != c.forgets {
			t.Errorf("synchronous_commit=%s with standbys %q: %v", c.commit, c.standbys, err)
		}
	}
}

// TestMySQLTimeouts: a driver that does not watch the context gives up by itself.
func TestMySQLTimeouts(t *testing.T) {
	u, err := url.Parse("mysql://me@db/app?lease=2s&max_lease=2s&readTimeout=7s")
	if err != nil {
		t.Fatal(err)
	}
	var got url.Values
	_, err = Opener(MySQL, func(u *url.URL) (*sql.DB, error) { got = u.Query(); return nil, errors.New("no such driver") })(
		t.Context(), driver.Target{URL: u, Name: "e", ID: "a"})
	if d, bad := time.ParseDuration(got.Get("writeTimeout")); err == nil || bad != nil || d <= 0 || d >= 2*time.Second || got.Get("readTimeout") != "7s" {
		t.Errorf("%v, %v; want a writeTimeout below the lease, and the readTimeout that was given", got, err)
	}
}

// down is a database that does not answer.
type down struct{ closed atomic.Bool }

func (d *down) Connect(context.Context) (sqldriver.Conn, error) { return nil, errors.New("down") }
func (d *down) Driver() sqldriver.Driver                        { return nil }
func (d *down) Close() error                                    { d.closed.Store(true); return nil }

// TestShared: the elections of an opener share a database and its Listener if the URLs differ in what
// is the election's only. Closing one disturbs no other.
func TestShared(t *testing.T) {
	for _, d := range []Dialect{PostgreSQL, SQLite} {
		var opened []*down
		var limits []int
		var listening atomic.Int32
		at := opener(d, func(u *url.URL) (*sql.DB, Listen, error) {
			opened = append(opened, &down{})
			db := sql.OpenDB(opened[len(opened)-1])
			if u.Query().Has("own_limit") {
				db.SetMaxOpenConns(3)
			}
			if d != PostgreSQL {
				return db, nil, nil
			}
			return db, func(ctx context.Context, channel string, heard func(string)) error {
				listening.Add(1)
				defer listening.Add(-1)
				<-ctx.Done()
				return ctx.Err()
			}, nil
		})
		open := func(name, query string) driver.Elector {
			e, err := at(t.Context(), driver.Target{URL: &url.URL{Scheme: "db", User: url.UserPassword("me", "secret"), Host: "h", RawQuery: query}, Name: name, ID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			limits = append(limits, e.(*owner).table.db.Stats().MaxOpenConnections)
			return e
		}
		a, b, other := open("one", "lease=2s"), open("two", "lease=3s&table=t&era=2"), open("one", "own_limit=on")
		if d == SQLite {
			if len(opened) != 3 || limits[0] != 0 {
				t.Errorf("SQLite: %d are open, with limits %v; want one for each election, as it is opened", len(opened), limits)
			}
		} else if want := []int{connections, connections, 3}; len(opened) != 2 || !slices.Equal(limits, want) {
			t.Errorf("%d databases are open, with limits %v; want 2, with %v", len(opened), limits, want)
		}
		if err := a.Close(); err != nil || opened[0].closed.Load() != (d == SQLite) {
			t.Errorf("%s: %v, closed %t with the first election", d, err, opened[0].closed.Load())
		}
		if err := errors.Join(a.Close(), b.Close(), other.Close()); err != nil || listening.Load() != 0 {
			t.Errorf("%s: %v, %d listen", d, err, listening.Load())
		}
		for i, o := range opened {
			if !o.closed.Load() {
				t.Errorf("%s: database %d is open after its last election", d, i)
			}
		}
	}
}
