package redact

import (
	"net/url"
	"testing"
)

func Test(t *testing.T) {
	for _, c := range []struct{ raw, shown, bare string }{
		{"file:/var/lib/elect?era=1", "file:/var/lib/elect?era=1", "file:/var/lib/elect?era=1"},
		{"postgres://me:hunter2@db/x?sslmode=on", "postgres://me:xxxxx@db/x?sslmode=on", "postgres://db/x?sslmode=on"},
		{"consul://db?Token=hunter2&a=b", "consul://db?Token=xxxxx&a=b", "consul://db?a=b"},
		{"redis:me:hunter2@db", "redis:xxxxx@db", "redis:me:hunter2@db"}, // not a URL that leads anywhere
	} {
		u, err := url.Parse(c.raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := URL(u); got != c.shown {
			t.Errorf("URL(%s) = %s; want %s", c.raw, got, c.shown)
		}
		if got := Without(u).String(); got != c.bare {
			t.Errorf("Without(%s) = %s; want %s", c.raw, got, c.bare)
		}
		if u.String() != c.raw {
			t.Errorf("%s was changed to %s", c.raw, u)
		}
	}
}
