package elect_test

import (
	"testing"

	"github.com/electd/elect"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct{ raw, opaque, host, query string }{
		{"peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400?data=/x", "//n1@10.0.0.1:7400,n2@10.0.0.2:7400", "", "data=/x"},
		{"peer://n1@[::1]:7400,n2@[::1]:7401", "//n1@[::1]:7400,n2@[::1]:7401", "", ""},
		{"etcd://a:2379,b:2379/prefix?", "//a:2379,b:2379/prefix", "", ""},
		{"peer://n1@10.0.0.1:7400", "", "10.0.0.1:7400", ""},
		{"etcd://me:a@a:2379,b:2379", "//me:a@a:2379,b:2379", "", ""},
		{"postgres://me:a,b@db/x,y", "", "db", ""}, // a comma in a password
		{"postgres://db/x,y", "", "db", ""},
		{"file:/var/lib/a,b", "", "", ""},
	} {
		u, err := elect.ParseURL(c.raw)
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
			continue
		}
		if u.Opaque != c.opaque || u.Host != c.host || u.RawQuery != c.query {
			t.Errorf("%s: opaque %q, host %q, query %q; want %q, %q, %q", c.raw, u.Opaque, u.Host, u.RawQuery, c.opaque, c.host, c.query)
		}
		if u.String() != c.raw {
			t.Errorf("%s is written as %s", c.raw, u)
		}
	}
	for _, raw := range []string{"pe er://a,b", "://a,b", "1://a,b", "peer://a,b?\x00"} {
		if u, err := elect.ParseURL(raw); err == nil {
			t.Errorf("%q is parsed as %v", raw, u)
		}
	}
}
