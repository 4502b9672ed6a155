package redact

import (
	"net/url"
	"strings"
	"testing"
)

// TestPeers: ids before an @ are no secret, what looks like a password is.
func TestPeers(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400?certs=/etc/elect", "peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400?certs=/etc/elect"},
		{"peer://n1@10.0.0.1:7400", "peer://n1@10.0.0.1:7400"},
		{"peer:n1@[::1]:7400,n2@[::1]:7401?ca=a&cert=b&key=/etc/n1.key", "peer:n1@[::1]:7400,n2@[::1]:7401?ca=a&cert=b&key=/etc/n1.key"},
		{"peer://n1:secret@10.0.0.1:7400", "peer://n1:xxxxx@10.0.0.1:7400"},
		{"peer://n1@10.0.0.1:7400,n2:secret@10.0.0.2:7400?token=hunter2", "peer://n1@10.0.0.1:7400,n2:xxxxx@10.0.0.2:7400?token=xxxxx"},
		{"peer://n1:s@cret@10.0.0.1:7400", "peer://n1:xxxxx@10.0.0.1:7400"},
	} {
		plain, err := url.Parse(c.raw)
		if err != nil {
			t.Fatal(err)
		}
		listed := *plain // as elect.ParseURL makes it
		rest, _, _ := strings.Cut(c.raw[len("peer:"):], "?")
		listed.Opaque, listed.User, listed.Host = rest, nil, ""
		for _, u := range []*url.URL{plain, &listed} {
			if got := URL(u); got != c.want {
				t.Errorf("URL(%s) = %s; want %s", c.raw, got, c.want)
			}
			if got := Without(u).String(); got != c.want {
				t.Errorf("Without(%s) = %s; want %s", c.raw, got, c.want)
			}
		}
	}
}

func Test(t *testing.T) {
	for _, c := range []struct{ raw, shown, bare string }{
		{"file:/var/lib/elect?era=1", "file:/var/lib/elect?era=1", "file:/var/lib/elect?era=1"},
		{"postgres://me:hunter2@db/x?sslmode=on", "postgres://me:xxxxx@db/x?sslmode=on", "postgres://me@db/x?sslmode=on"},
		{"postgresql://m%40e:hunter2@db/x", "postgresql://m%40e:xxxxx@db/x", "postgresql://m%40e@db/x"},
		{"postgres://me@db/x", "postgres://me@db/x", "postgres://me@db/x"},
		{"postgres://:hunter2@db/x", "postgres://:xxxxx@db/x", "postgres://db/x"},
		{
			"postgres://db/x?user=me&password=hunter2&p%61ssword=hunter2&sslkey=/k&sslpassword=hunter2&passfile=/p",
			"postgres://db/x?user=me&password=xxxxx&p%61ssword=xxxxx&sslkey=/k&sslpassword=xxxxx&passfile=xxxxx",
			"postgres://db/x?user=me&sslkey=/k&passfile=/p",
		},
		{"mysql://me:hunter2@db/x?tls=true&serverPubKey=k&allowNativePasswords=true", "mysql://me:xxxxx@db/x?tls=true&serverPubKey=k&allowNativePasswords=xxxxx", "mysql://me@db/x?tls=true&serverPubKey=k&allowNativePasswords=true"},
		{"s3://jobs/x?credentials_file=/c&secret=hunter2", "s3://jobs/x?credentials_file=xxxxx&secret=xxxxx", "s3://jobs/x?credentials_file=/c"},
		{"nats://hunter2@a/x?nkey=/k&creds=/c", "nats://xxxxx@a/x?nkey=/k&creds=/c", "nats://a/x?nkey=/k&creds=/c"},
		{"nats://me@a/x?password_file=/p", "nats://me@a/x?password_file=xxxxx", "nats://me@a/x?password_file=/p"},
		{"etcd://me:hunter2@a/x?key=/jobs&cert=c&cert_key=/k&password_file=/p", "etcd://me:xxxxx@a/x?key=/jobs&cert=c&cert_key=/k&password_file=xxxxx", "etcd://me@a/x?key=/jobs&cert=c&cert_key=/k&password_file=/p"},
		{"consul://db?Token=hunter2&a=b", "consul://db?Token=xxxxx&a=b", "consul://db?a=b"},
		{"consul://me:hunter2@db/x?key=k&cert_key=/k&token_file=/t", "consul://me:xxxxx@db/x?key=k&cert_key=/k&token_file=/t", "consul://me@db/x?key=k&cert_key=/k&token_file=/t"},
		{"zk://me:hunter2@a/x?cert=c&cert_key=/k&password_file=/p", "zk://me:xxxxx@a/x?cert=c&cert_key=/k&password_file=xxxxx", "zk://me@a/x?cert=c&cert_key=/k&password_file=/p"},
		{"group+peer://n1@10.0.0.1:7400?key=/k&group-token-bits=8", "group+peer://n1@10.0.0.1:7400?key=/k&group-token-bits=8", "group+peer://n1@10.0.0.1:7400?key=/k&group-token-bits=8"},
		{"group+etcd://me:hunter2@a/x?key=/jobs&group-zone=z", "group+etcd://me:xxxxx@a/x?key=/jobs&group-zone=z", "group+etcd://me@a/x?key=/jobs&group-zone=z"},
		{"postgres://db/x;password=hunter2", "postgres://db/x;password=xxxxx", "postgres://db/x;password=hunter2"},
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

// TestHosts: the user of several hosts stays, and the password does not.
func TestHosts(t *testing.T) {
	for list, want := range map[string]string{
		"//me:hunter2@a:2379,b:2379/x":    "//me@a:2379,b:2379/x",
		"//me:hunter2@x@a,b":              "//me@a,b",
		"//m%40e:hunter2,hunter2@a,b/x@y": "//m%40e@a,b/x@y",
		"//me@a,b":                        "//me@a,b",
		"//a,b/x":                         "//a,b/x",
	} {
		for _, scheme := range []string{"etcd", "postgres", "zookeeper"} {
			u := &url.URL{Scheme: scheme, Opaque: list, RawQuery: "password=hunter2&era=1"}
			if got := Without(u).String(); got != scheme+":"+want+"?era=1" {
				t.Errorf("Without(%s) = %s; want %s:%s?era=1", u, got, scheme, want)
			}
			if got := URL(u); strings.Contains(got, "hunter2") {
				t.Errorf("URL(%s) = %s; want no password", u, got)
			}
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"host=db user=me password=hunter2":         "host=db user=me password=xxxxx",
		"host=db password = hunter2 user=me":       "host=db password = xxxxx user=me",
		"Server=db;Password=hunter2;Database=x":    "Server=db;Password=xxxxx;Database=x",
		"failed to connect to `db=x pass=hunter2`": "failed to connect to `db=x pass=xxxxx`",
		"password authentication failed for me":    "password authentication failed for me",
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%s) = %s; want %s", text, got, want)
		}
	}
}
