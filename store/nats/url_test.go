package nats

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
)

// several is a URL of several hosts, as elect.ParseURL returns it.
func several(place, query string) *url.URL {
	return &url.URL{Scheme: "nats", Opaque: "//" + place, RawQuery: query}
}

func one(t testing.TB, text string) *url.URL {
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
		u             *url.URL
		bucket, hosts string
	}{
		"one host":         {one(t, "nats://a"), "", "nats://a:4222"},
		"a port":           {one(t, "nats://a:1/jobs"), "jobs", "nats://a:1"},
		"version 6":        {one(t, "nats://[::1]/"), "", "nats://[::1]:4222"},
		"several":          {several("a,b:1,[::1]:2", ""), "", "nats://a:4222,nats://b:1,nats://[::1]:2"},
		"several, a path":  {several("a,b/x-Y_1/", ""), "x-Y_1", "nats://a:4222,nats://b:4222"},
		"several with TLS": {several("a,b/x", "tls=on"), "x", "tls://a:4222,tls://b:4222"},
	} {
		cfg, client, err := parse(c.u, none)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if cfg.Bucket != c.bucket || client.access.hosts != c.hosts {
			t.Errorf("%s: bucket %q at %s; want %q at %s", name, cfg.Bucket, client.access.hosts, c.bucket, c.hosts)
		}
	}
}

func TestParameters(t *testing.T) {
	cfg, _, err := parse(one(t, "nats://a/x?lease=8s&max_lease=9s&poll=4s&replicas=5&era=3&flight=/f"), none)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Config{Bucket: "x", Lease: 8 * time.Second, MaxLease: 9 * time.Second, Poll: 4 * time.Second, Replicas: 5, Era: 3, Flight: "/f"}); cfg != want {
		t.Errorf("%+v; want %+v", cfg, want)
	}
	for query, want := range map[string]string{
		"lease=5":                     "lease=5; want a time such as 5s",
		"poll=-5s":                    "poll=-5s; want a time",
		"lease=1s&lease=2s":           "lease is empty, or given 2 times",
		"user=":                       "user is empty",
		"era=65536":                   "era=65536; want 0 to 65535",
		"replicas=2":                  "replicas=2; want 1, 3 or 5",
		"ttl=5s":                      `unknown parameter "ttl"; want lease,`,
		"a=%zz":                       "the parameters do not parse",
		"tls=yes":                     "tls=yes; want on or off",
		"tls=off&cacert=x":            "tls=off, and parameters of TLS",
		"cert=x":                      "want both, or neither",
		"cacert=/none":                "/none",
		"user=u":                      "want both (password_file",
		"user=u&token_file=/t":        "want one of them",
		"creds=/none":                 "/none",
		"password_file=" + os.DevNull: "is empty; want a password",
	} {
		if _, _, err := parse(one(t, "nats://a?"+query), none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", query, err, want)
		}
	}
	for place, want := range map[string]string{
		"": "host", "a,": "host", "a,,b": "host", "a:": "host", ":1": "host", "a/b c": `bucket "b c"`, "a/b/c": `bucket "b/c"`, "a/b.c": `bucket "b.c"`,
		"ab/cdhunter2@h/B": `bucket "xxxxx@h/B"`, "me:hunter2/x@h/B": "an @ is in its path",
		"hunter2@a": "a user without a password in the URL",
	} {
		if _, _, err := parse(several(place, ""), none); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v; want an error with %q", place, err, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		u                                  *url.URL
		env                                map[string]string
		user, password, token, creds, nkey string
	}{
		"none":                {u: one(t, "nats://a")},
		"the URL":             {u: one(t, "nats://u:p%40@a"), user: "u", password: "p@"},
		"the URL with hosts":  {u: several("u:p%40,@a,b", ""), user: "u", password: "p@,"},
		"a file":              {u: one(t, "nats://u@a?password_file="+file), user: "u", password: "from-file"},
		"a parameter":         {u: one(t, "nats://a?user=u&password_file="+file), user: "u", password: "from-file"},
		"a token":             {u: one(t, "nats://a?token_file="+file), token: "from-file"},
		"credentials":         {u: one(t, "nats://a?creds="+file), creds: file},
		"an nkey":             {u: one(t, "nats://a?nkey="+file), nkey: file},
		"nats":                {u: one(t, "nats://a"), env: map[string]string{"NATS_USER": "u", "NATS_PASSWORD": "p"}, user: "u", password: "p"},
		"nats, a token":       {u: one(t, "nats://a"), env: map[string]string{"NATS_TOKEN": "t"}, token: "t"},
		"nats, credentials":   {u: one(t, "nats://a"), env: map[string]string{"NATS_CREDS": file}, creds: file},
		"nats's password":     {u: one(t, "nats://u@a"), env: map[string]string{"NATS_PASSWORD": "p"}, user: "u", password: "p"},
		"the URL before nats": {u: one(t, "nats://u:own@a"), env: map[string]string{"NATS_TOKEN": "t", "NATS_PASSWORD": "q"}, user: "u", password: "own"},
	} {
		_, got, err := parse(c.u, func(key string) string { return c.env[key] })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.user != c.user || got.password != c.password || got.token != c.token || got.creds != c.creds || got.nkey != c.nkey {
			t.Errorf("%s: %+v; want %+v", name, got.access, c)
		}
	}
}

// TestKeys: the name of each election is a key of its own, and valid.
func TestKeys(t *testing.T) {
	for name, want := range map[string]string{
		"nightly-report_1": "nightly-report_1", "a.b": "a=2Eb", "a=2Eb": "a=3D2Eb", "e*>": "e=2A=3E", "é": "=C3=A9",
	} {
		if got := keyOf(name); got != want {
			t.Errorf("keyOf(%q) is %q; want %q", name, got, want)
		}
	}
	if i, n := parseVersion(version("k3", 17)); i != "k3" || n != 17 || revisionOf(version("k3", 17)) != 17 {
		t.Errorf("%q, %d; want k3, 17", i, n)
	}
}

func TestOpenRefuses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	e, err := Open(ctx, driver.Target{URL: one(t, "nats://127.0.0.1:1/x?lease=1h2m"), Name: "e", ID: "a"})
	if err == nil {
		_ = e.Close()
	}
	if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "want 100ms to 1h0m0s") {
		t.Errorf("%v; want a permanent error about the lease", err)
	}
}

// TestNoServer: an election is opened without a server, and goes on when there is one; Close does not wait for it.
func TestNoServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	e, err := Open(ctx, driver.Target{URL: one(t, "nats://127.0.0.1:1/x"), Name: "e", ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for s, err := range e.Watch(t.Context()) {
		if err != nil || !s.Stale || !strings.Contains(s.Cause.Error(), "connection refused") {
			t.Errorf("%+v, %v; want that the connection is refused", s, err)
		}
		break
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"message":{"subject":"a","seq":3,"hdrs":"TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg==","data":"eA=="}}`))
	f.Add([]byte(`{"error":{"code":404,"err_code":10037}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseLast(data)
		if m != nil && (err != nil || m.revision == 0) {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

// TestOutdated: servers that carry out two writes with one condition are refused. TestNATSMeeting in
// test/fencing/leases shows which do.
func TestOutdated(t *testing.T) {
	for version, old := range map[string]bool{"1.4.1": true, "2.9.20": true, "2.10.0": false, "2.15.2": false, "3.0.0-preview.1": false, "": false} {
		if err := outdated(version); driver.IsPermanent(err) != old {
			t.Errorf("%s: %v; want it refused: %t", version, err, old)
		}
	}
}
