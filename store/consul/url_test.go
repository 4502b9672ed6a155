package consul

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/store/internal/secure"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		url  string
		env  map[string]string
		want access
		cfg  Config
	}{
		{url: "consul://h", want: access{scheme: "http", host: "h:8500"}, cfg: Config{Key: "e"}},
		{url: "consul:///", want: access{scheme: "http", host: "127.0.0.1:8500"}, cfg: Config{Key: "e"}},
		{url: "consul://[::1]/a/b/", want: access{scheme: "http", host: "[::1]:8500"}, cfg: Config{Key: "a/b/e"}},
		{url: "consul://h:1/a?key=x/y", want: access{scheme: "http", host: "h:1"}, cfg: Config{Key: "x/y"}},
		{
			url:  "consul://me:pw@h/a?lease=2s&max_lease=3s&poll=1s&era=7&dc=d&ns=n&partition=p&flight=/f&token_file=/t&cert=/c&cert_key=/k&server_name=s",
			want: access{scheme: "https", host: "h:8501", user: "me", password: "pw", tokenFile: "/t", tls: secure.TLS{On: true, ServerName: "s", Cert: "/c", Key: "/k"}},
			cfg:  Config{Key: "a/e", Lease: 2 * time.Second, MaxLease: 3 * time.Second, Poll: time.Second, Era: 7, Datacenter: "d", Namespace: "n", Partition: "p", Flight: "/f"},
		},
		{
			url:  "consul:///a",
			env:  map[string]string{"CONSUL_HTTP_ADDR": "https://h:2/", "CONSUL_HTTP_TOKEN": "t", "CONSUL_HTTP_TOKEN_FILE": "/x", "CONSUL_HTTP_AUTH": "me:p:w", "CONSUL_NAMESPACE": "n", "CONSUL_PARTITION": "p"},
			want: access{scheme: "https", host: "h:2", token: "t", user: "me", password: "p:w", tls: secure.TLS{On: true}},
			cfg:  Config{Key: "a/e", Namespace: "n", Partition: "p"},
		},
		{ // files of the environment do not ask for TLS, as in Consul's own programs
			url:  "consul://h",
			env:  map[string]string{"CONSUL_HTTP_ADDR": "https://other", "CONSUL_CACERT": "/c", "CONSUL_CAPATH": "/d", "CONSUL_CLIENT_CERT": "/e", "CONSUL_CLIENT_KEY": "/k", "CONSUL_TLS_SERVER_NAME": "s", "CONSUL_HTTP_TOKEN_FILE": "/x"},
			want: access{scheme: "http", host: "h:8500", tokenFile: "/x"},
			cfg:  Config{Key: "e"},
		},
		{
			url: "consul://h?cert=/c&cert_key=/k", env: map[string]string{"CONSUL_CLIENT_CERT": "/x", "CONSUL_TLS_SERVER_NAME": "s", "CONSUL_HTTP_SSL_VERIFY": "false"},
			want: access{scheme: "https", host: "h:8501", tls: secure.TLS{On: true, ServerName: "s", Cert: "/c", Key: "/k"}, anyCert: true}, cfg: Config{Key: "e"},
		},
		{
			url: "consul://h", env: map[string]string{"CONSUL_HTTP_SSL": "1", "CONSUL_CLIENT_CERT": "/c", "CONSUL_CLIENT_KEY": "/k"},
			want: access{scheme: "https", host: "h:8501", tls: secure.TLS{On: true, Cert: "/c", Key: "/k"}}, cfg: Config{Key: "e"},
		},
		{url: "consul://h?tls=off", env: map[string]string{"CONSUL_HTTP_SSL": "true"}, want: access{scheme: "http", host: "h:8500"}, cfg: Config{Key: "e"}},
		{url: "consul:///a?socket=/run/s", env: map[string]string{"CONSUL_HTTP_ADDR": "h"}, want: access{scheme: "http", host: "127.0.0.1:8500", socket: "/run/s"}, cfg: Config{Key: "a/e"}},
		{url: "consul:///a", env: map[string]string{"CONSUL_HTTP_ADDR": "unix:///run/s"}, want: access{scheme: "http", host: "127.0.0.1:8500", socket: "/run/s"}, cfg: Config{Key: "a/e"}},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		cfg, to, err := parse(u, "e", func(name string) string { return c.env[name] })
		if err != nil {
			t.Errorf("%s with %v: %v", c.url, c.env, err)
		} else if cfg.now = nil; to.access != c.want || !equal(cfg, c.cfg) {
			t.Errorf("%s with %v:\n%+v %+v; want\n%+v %+v", c.url, c.env, to.access, cfg, c.want, c.cfg)
		}
	}
}

// equal compares what a URL sets.
func equal(a, b Config) bool {
	return a.Key == b.Key && a.Datacenter == b.Datacenter && a.Namespace == b.Namespace && a.Partition == b.Partition &&
		a.Lease == b.Lease && a.MaxLease == b.MaxLease && a.Poll == b.Poll && a.Era == b.Era && a.Flight == b.Flight
}

func TestParseRefuses(t *testing.T) {
	absent, broken := filepath.Join(t.TempDir(), "absent"), filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("hunter2\nhunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"consul://h?lease=x":               "lease=x; want a time",
		"consul://h?lease=-1s":             "lease=-1s; want a time",
		"consul://h?lease=1s&lease=2s":     "given 2 times; want it once",
		"consul://h?dc=":                   "dc is empty",
		"consul://h?era=65536":             "era=65536; want 0 to 65535",
		"consul://h?tls=yes":               "tls=yes; want on or off",
		"consul://h?tls=off&cacert=/c":     "want tls=on",
		"consul://h?cert=/c":               "want both, or neither",
		"consul://h?cacert=" + absent:      "no such file",
		"consul://h?cacert=url_test.go":    "has no certificate; want PEM",
		"consul://h?token=hunter2":         "a token in the URL",
		"consul://h?dialect=lock":          "dialect; want none",
		"consul://h?nodes=3":               `unknown parameter "nodes"; want lease`,
		"consul://h?a=%zz":                 "parameters do not parse",
		"consul:h":                         "want consul://HOST:PORT/PREFIX",
		"consul://h/a?socket=/s":           "want one of them",
		"consul:///a?socket=s":             "want a path that begins with a slash",
		"consul://:8500/a":                 `host ":8500"; want HOST or HOST:PORT`,
		"consul://me:99999/hunter2@h/a":    "an @ is in its path",
		"consul://h:99999/a":               `host "h:99999"; want HOST or HOST:PORT`,
		"CONSUL_HTTP_ADDR=h:http":          `host "h:http"; want HOST or HOST:PORT`,
		"CONSUL_HTTP_ADDR=http://h/p":      "CONSUL_HTTP_ADDR; want HOST:PORT",
		"CONSUL_HTTP_ADDR=ftp://h":         "CONSUL_HTTP_ADDR; want HOST:PORT",
		"CONSUL_HTTP_SSL=maybe":            "CONSUL_HTTP_SSL=maybe; want true or false",
		"CONSUL_HTTP_TOKEN_FILE=" + absent: "no such file",
		"CONSUL_HTTP_TOKEN_FILE=" + broken: "broken has no token; want one line",
		"CONSUL_HTTP_TOKEN=hunter2 x":      "CONSUL_HTTP_TOKEN has no token; want one line",
		"CONSUL_CLIENT_CERT=/c":            "want both, or neither",
	} {
		env := map[string]string{}
		if name, value, is := strings.Cut(text, "="); is && strings.HasPrefix(text, "CONSUL_") {
			env[name], text = value, "consul:///a"
		}
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, to, err := parse(u, "e", func(name string) string { return env[name] })
		if err == nil {
			_, err = to.client()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s with %v: %v; want %q", text, maps.Clone(env), err, want)
		}
	}
}
