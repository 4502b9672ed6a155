package zookeeper

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver"
)

// several is a URL of several hosts, as elect.ParseURL returns it.
func several(place, query string) *url.URL {
	return &url.URL{Scheme: "zookeeper", Opaque: "//" + place, RawQuery: query}
}

func one(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		u       *url.URL
		path    string
		servers []string
	}{
		"one host":         {one(t, "zookeeper://a"), "/e", []string{"a:2181"}},
		"a port":           {one(t, "zk://a:1"), "/e", []string{"a:1"}},
		"version 6":        {one(t, "zk://[::1]"), "/e", []string{"[::1]:2181"}},
		"a slash":          {one(t, "zk://a/"), "/e", []string{"a:2181"}},
		"a path":           {one(t, "zk://a/x/y"), "/x/y/e", []string{"a:2181"}},
		"a path's end":     {one(t, "zk://a/x/"), "/x/e", []string{"a:2181"}},
		"the whole path":   {one(t, "zk://a/x?path=/y/z"), "/y/z", []string{"a:2181"}},
		"several, a path":  {several("a,b:1/x%20y", ""), "/x y/e", []string{"a:2181", "b:1"}},
		"several, a slash": {several("a,[::1]:2/", ""), "/e", []string{"a:2181", "[::1]:2"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parse(c.u)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.of("e").Path; got != c.path || !slices.Equal(p.servers, c.servers) {
				t.Errorf("path %q at %q; want %q at %q", got, p.servers, c.path, c.servers)
			}
		})
	}
}

func TestParameters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := parse(one(t, "zk://a/x?lease=8s&hold=2s&max_hold=3s&poll=4s&era=3&layout=kazoo&user=u&password_file="+file+"&acl=world:anyone:r,auth::cdrwa"))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Path: "/x/e", Layout: Kazoo, Lease: 8 * time.Second, Hold: 2 * time.Second, MaxHold: 3 * time.Second, Poll: 4 * time.Second, Era: 3,
		User: "u", Password: "p", ACL: []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}, {Perms: zk.PermAll, Scheme: "auth"}},
	}
	if got := p.of("e"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	for query, want := range map[string]string{
		"lease=5":                               "lease=5; want a time such as 5s",
		"hold=-5s":                              "hold=-5s; want a time",
		"lease=1s&lease=2s":                     "lease is empty, or given 2 times",
		"path=":                                 "path is empty",
		"era=65536":                             "era=65536; want 0 to 65535",
		"ttl=5s":                                `unknown parameter "ttl"; want lease,`,
		"a=%zz":                                 "parameters",
		"tls=yes":                               "tls=yes; want on or off",
		"tls=off&cacert=x":                      "tls=off, and parameters of TLS",
		"cert=x":                                "want both, or neither",
		"cacert=/none":                          "/none",
		"user=u":                                "want both (password_file",
		"acl=world":                             "want SCHEME:ID:RIGHTS",
		"acl=world:anyone:":                     "want SCHEME:ID:RIGHTS",
		"acl=world:anyone:rx":                   "has the right 'x'; want some of cdrwa",
		"acl=auth::r":                           "want user and password_file, too",
		"acl=digest:u:secret:cdrwa":             "want digest:NAME:HASH:RIGHTS",
		"acl=digest:me:secret":                  "acl=xxxxx has the right",
		"acl=digest:secret":                     "acl=xxxxx; want SCHEME:ID:RIGHTS",
		"acl=world:anyone:q,digest:me:secret:r": "acl=xxxxx has the right 'q'",
		"acl=all:x:r":                           `scheme "all"; want world`,
	} {
		if _, err := parse(one(t, "zk://a?"+query)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want an error with %q", query, err, want)
		}
	}
	for _, host := range []string{"", "a,", "a,,b", "a:", ":1", "a,b:x", "a,b:0", "a,b:99999", "a:1/x,b:1/x"} {
		if p, err := parse(several(host, "")); err == nil {
			t.Errorf("hosts %q: %q; want an error", host, p.servers)
		}
	}
}

// TestOpenRefuses: what is wrong for good is marked so, and names no password.
func TestOpenRefuses(t *testing.T) {
	for _, u := range []*url.URL{
		one(t, "zk://me:secret@a?lease=x"), several("me:secret@a,,b", ""), several("me:secret%zz@a,b", ""), several("me:1/secret,x@a,b", ""), several("me:secret,b/x@a,b", ""), one(t, "zk://me:secret@a:?x=y"),
		one(t, "zk://a?layout=x"), one(t, "zk://a?path=x"), one(t, "zk://a?path=/x/../y"), one(t, "zk://a?path=/zookeeper/quota"), one(t, "zk://a?lease=10m"),
		one(t, "zk://me:secret@a?user=you"), one(t, "zk://a/x%00y"), one(t, "zk://a/secret@b/x%00y"), one(t, "zk://a?lease=1500us"), one(t, "zk://a?lease=1ms"), one(t, "zk://a?hold=11s&max_hold=12s"),
	} {
		_, err := Open(context.Background(), driver.Target{URL: u, Name: "e", ID: "a"})
		if err == nil || !driver.IsPermanent(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want a permanent error", u, err)
		}
	}
}

// FuzzACL: an ACL is refused, or has a scheme and rights in each part.
func FuzzACL(f *testing.F) {
	for _, seed := range []string{"world:anyone:r", "auth::cdrwa,ip:10.0.0.0/8:r", "digest:u:hbw21sHXFxNYpYg8wnQqp3HFGGE=:cdrwa", ":::", "a:b:", "world:anyone:rr,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseACL(text, true)
		if (err == nil) != (len(all) > 0) {
			t.Fatalf("%+v, %v", all, err)
		}
		for _, a := range all {
			if a.Scheme == "" || a.Perms&zk.PermAll == 0 || a.Perms&^zk.PermAll != 0 {
				t.Errorf("%q: %+v", text, a)
			}
		}
	})
}
