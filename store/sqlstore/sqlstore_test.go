package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

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
