package etcd

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
)

// several is a URL of several hosts, as elect.ParseURL returns it.
func several(place, query string) *url.URL {
	return &url.URL{Scheme: "etcd", Opaque: "//" + place, RawQuery: query}
}

func one(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func none(string) string { return "" }

func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		u         *url.URL
		key       string
		endpoints []string
	}{
		"one host":         {one(t, "etcd://a"), "e", []string{"http://a:2379"}},
		"a port":           {one(t, "etcd://a:1"), "e", []string{"http://a:1"}},
		"version 6":        {one(t, "etcd://[::1]"), "e", []string{"http://[::1]:2379"}},
		"a slash":          {one(t, "etcd://a/"), "/e", []string{"http://a:2379"}},
		"a path":           {one(t, "etcd://a/x/y"), "/x/y/e", []string{"http://a:2379"}},
		"a path's end":     {one(t, "etcd://a/x/"), "/x/e", []string{"http://a:2379"}},
		"a key":            {one(t, "etcd://a/x?key=/y/"), "/y/", []string{"http://a:2379"}},
		"several":          {several("a,b:1,[::1]:2", ""), "e", []string{"http://a:2379", "http://b:1", "http://[::1]:2"}},
		"several, a path":  {several("a,b/x%20y", ""), "/x y/e", []string{"http://a:2379", "http://b:2379"}},
		"several, a slash": {several("a,b/", ""), "/e", []string{"http://a:2379", "http://b:2379"}},
		"several with TLS": {several("a,b/x", "tls=on"), "/x/e", []string{"https://a:2379", "https://b:2379"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, client, err := parse(c.u, "e", none)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Key != c.key || !slices.Equal(client.Endpoints, c.endpoints) {
				t.Errorf("key %q at %q; want %q at %q", cfg.Key, client.Endpoints, c.key, c.endpoints)
			}
		})
	}
}

func TestParameters(t *testing.T) {
	cfg, _, err := parse(one(t, "etcd://a/x?lease=8s&hold=2s&max_hold=3s&poll=4s&server_election=500ms&servers_fixed=on&era=3"), "e", none)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Key: "/x/e", Lease: 8 * time.Second, Hold: 2 * time.Second, MaxHold: 3 * time.Second, Poll: 4 * time.Second,
		ServerElection: 500 * time.Millisecond, ServersFixed: true, Era: 3,
	}
	if cfg != want {
		t.Errorf("%+v; want %+v", cfg, want)
	}
	for query, want := range map[string]string{
		"lease=5":             "lease=5; want a time such as 5s",
		"hold=-5s":            "hold=-5s; want a time",
		"lease=1s&lease=2s":   "lease is empty, or given 2 times",
		"key=":                "key is empty",
		"era=65536":           "era=65536; want 0 to 65535",
		"servers_fixed=yes":   "servers_fixed=yes; want on or off",
		"ttl=5s":              `unknown parameter "ttl"; want lease,`,
		"a=%zz":               "parameters",
		"tls=off&cacert=x":    "tls=off, and parameters of TLS",
		"cert=x":              "want both, or neither",
		"cacert=/none":        "/none",
		"user=u":              "want both (password_file",
		"user=u&era=1&tls=on": "want both (password_file",
	} {
		if _, _, err := parse(one(t, "etcd://a?"+query), "e", none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", query, err, want)
		}
	}
	for _, host := range []string{"", "a,", "a,,b", "a:", ":1"} {
		if _, client, err := parse(several(host, ""), "e", none); err == nil {
			t.Errorf("hosts %q: %q; want an error", host, client.Endpoints)
		}
	}
}

func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		u              *url.URL
		env            map[string]string
		user, password string
	}{
		"none":                  {one(t, "etcd://a"), nil, "", ""},
		"the URL":               {one(t, "etcd://u:p%40@a"), nil, "u", "p@"},
		"the URL with hosts":    {several("u:p%40,@a,b", ""), nil, "u", "p@,"},
		"a file":                {one(t, "etcd://u@a?password_file="+file), nil, "u", "from-file"},
		"a parameter":           {one(t, "etcd://a?user=u&password_file="+file), nil, "u", "from-file"},
		"etcdctl":               {one(t, "etcd://a"), map[string]string{"ETCDCTL_USER": "u:p"}, "u", "p"},
		"etcdctl, two":          {one(t, "etcd://a"), map[string]string{"ETCDCTL_USER": "u", "ETCDCTL_PASSWORD": "p"}, "u", "p"},
		"etcdctl's password":    {one(t, "etcd://u@a"), map[string]string{"ETCDCTL_PASSWORD": "p"}, "u", "p"},
		"another of etcdctl":    {one(t, "etcd://u@a?password_file="+file), map[string]string{"ETCDCTL_USER": "root:p"}, "u", "from-file"},
		"the URL before others": {one(t, "etcd://u:own@a"), map[string]string{"ETCDCTL_USER": "root:p", "ETCDCTL_PASSWORD": "q"}, "u", "own"},
	} {
		t.Run(name, func(t *testing.T) {
			_, client, err := parse(c.u, "e", func(key string) string { return c.env[key] })
			if err != nil || client.Username != c.user || client.Password != c.password {
				t.Errorf("user %q, password %q, %v; want %q and %q", client.Username, client.Password, err, c.user, c.password)
			}
		})
	}
	if _, _, err := parse(one(t, "etcd://u@a"), "e", func(key string) string { return map[string]string{"ETCDCTL_USER": "root:p"}[key] }); err == nil {
		t.Error("the password of another user is taken; want an error")
	}
}

// TestOpenRefuses: what is wrong for good is marked so, and names no password.
func TestOpenRefuses(t *testing.T) {
	for _, u := range []*url.URL{one(t, "etcd://me:secret@a?lease=x"), several("me:secret@a,,b", ""), several("me:secret%zz@a,b", ""), several("me:secret,b/x@a,b", ""), one(t, "etcd://a/secret@b/x%00y"), one(t, "etcd://me:secret@a:?x=y")} {
		_, err := Open(context.Background(), driver.Target{URL: u, Name: "e", ID: "a"})
		if err == nil || !driver.IsPermanent(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want a permanent error", u, err)
		}
	}
}

// TestOpenWithoutServer: a client with a user needs no server to begin.
func TestOpenWithoutServer(t *testing.T) {
	_, c, err := parse(one(t, "etcd://me:secret@127.0.0.1:1"), "e", none)
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if client.Username != "me" || client.Password != "secret" || client.Token != "" {
		t.Errorf("user %q, password %q, token %q; want those of the URL, and no token", client.Username, client.Password, client.Token)
	}
}

func TestFixedVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"3.4.30": false, "3.4.31": true, "3.5.12": false, "3.5.13": true, "3.6.0": true, "3.7.3": true, "4.0.0": true,
		"3.6.0-rc.1": false, "3.3.27": false, "2.9.99": false, "": false, "3.6": false, "x.y.z": false, "3.5.13.1": false,
	} {
		if got := isFixed(version); got != want {
			t.Errorf("%q: %t; want %t", version, got, want)
		}
	}
}
