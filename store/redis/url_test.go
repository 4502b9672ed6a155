package redis

import (
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/store/internal/secure"
)

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
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cli := func(name string) string { return map[string]string{"REDISCLI_AUTH": "cli"}[name] }
	for name, c := range map[string]struct {
		url  string
		env  func(string) string
		want access
	}{
		"a host":            {"redis://a", none, access{network: "tcp", addr: "a:6379"}},
		"no host":           {"redis://", none, access{network: "tcp", addr: "localhost:6379"}},
		"a port, a number":  {"redis://a:1/2", none, access{network: "tcp", addr: "a:1", db: 2}},
		"a number by name":  {"redis://a?db=3", none, access{network: "tcp", addr: "a:6379", db: 3}},
		"version 6":         {"redis://[::1]:1", none, access{network: "tcp", addr: "[::1]:1"}},
		"a user":            {"redis://u:p%40@a", cli, access{network: "tcp", addr: "a:6379", user: "u", password: "p@"}},
		"a password":        {"redis://:p@a", none, access{network: "tcp", addr: "a:6379", password: "p"}},
		"of redis-cli":      {"redis://u@a", cli, access{network: "tcp", addr: "a:6379", user: "u", password: "cli"}},
		"a file":            {"redis://u@a?password_file=" + file, cli, access{network: "tcp", addr: "a:6379", user: "u", password: "from-file"}},
		"as parameters":     {"redis://a?username=u&password=p", none, access{network: "tcp", addr: "a:6379", user: "u", password: "p"}},
		"TLS":               {"rediss://a", none, access{network: "tcp", addr: "a:6379", tls: secure.TLS{On: true, ServerName: "a"}}},
		"TLS, another name": {"rediss://a?server_name=b", none, access{network: "tcp", addr: "a:6379", tls: secure.TLS{On: true, ServerName: "b"}}},
		"a socket":          {"redis+unix:///run/r.sock?db=1", none, access{network: "unix", addr: "/run/r.sock", db: 1}},
		"Sentinels": {"redis://s:sp@a:1/1?master_name=m&addr=b:2&addr=[::1]:3&username=u&password=p", none, access{
			network: "tcp", master: "m", sentinels: "a:1,b:2,[::1]:3", sentinelUser: "s", sentinelPassword: "sp", user: "u", password: "p", db: 1,
		}},
		"Sentinels with TLS": {"rediss://a:1?master_name=m", none, access{network: "tcp", master: "m", sentinels: "a:1", tls: secure.TLS{On: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, err := parse(one(t, c.url), c.env)
			if err != nil {
				t.Fatal(err)
			}
			if got.access != c.want {
				t.Errorf("%+v; want %+v", got.access, c.want)
			}
			if err := got.open().Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParameters(t *testing.T) {
	cfg, _, err := parse(one(t, "redis://a?lease=8s&max_lease=9s&poll=1s&key=k&replicas=2&volatile=on&era=3&flight=f"), none)
	want := Config{Key: "k", Lease: 8 * time.Second, MaxLease: 9 * time.Second, Poll: time.Second, Replicas: 2, Volatile: true, Era: 3, Flight: "f"}
	if err != nil || !reflect.DeepEqual(cfg, want) {
		t.Errorf("%+v, %v; want %+v", cfg, err, want)
	}
	if cfg, _, err := parse(one(t, "redis://a?replicas=any"), none); err != nil || cfg.Replicas != AnyReplicas {
		t.Errorf("%+v, %v; want any replicas", cfg, err)
	}
	for text, want := range map[string]string{
		"redis://a?lease=5":                           "lease=5; want a time such as 5s",
		"redis://a?poll=-5s":                          "poll=-5s; want a time",
		"redis://a?lease=1s&lease=2s":                 "lease is empty, or given 2 times",
		"redis://a?key=":                              "key is empty",
		"redis://a?era=65536":                         "era=65536; want 0 to 65535",
		"redis://a?replicas=-1":                       "replicas=-1; want 0 to 1000, or any",
		"redis://a?replicas=1001":                     "want 0 to 1000, or any",
		"redis://a?volatile=yes":                      "volatile=yes; want on or off",
		"redis://a?ttl=5s":                            `unknown parameter "ttl"; want lease,`,
		"redis://a?db=x":                              "db=x; want the number",
		"redis://a?db=-1":                             "db=-1; want the number",
		"redis://a/x":                                 `invalid database number: "x"; want redis://HOST:PORT/DB`,
		"redis+unix://":                               "empty unix socket path; want redis://HOST",
		"redis+unix://run/r.sock":                     "the URL does not parse; want redis://HOST:PORT/DB",
		"redis://a:99999":                             `host "a:99999"; want HOST or HOST:PORT`,
		"redis://a?master_name=m&addr=b:x":            "addr=b:x; want HOST:PORT of a Sentinel",
		"redis:a":                                     "the URL does not parse; want redis://HOST:PORT/DB",
		"redis://u@a":                                 "a user without a password; want",
		"redis://u:p@a?username=v":                    "want one of them",
		"redis://u:p@a?password_file=x":               "a password, and password_file; want one of them",
		"redis://a?password_file=/none":               "/none",
		"redis://a?addr=b:1":                          "addr without master_name",
		"redis://a?master_name=m&addr=b":              "addr=b; want HOST:PORT of a Sentinel",
		"redis://a?master_name=m&addr=b:1,c:2":        "want HOST:PORT of a Sentinel",
		"redis://a?master_name=m&addr=u%3Ap%40b:1":    "want HOST:PORT of a Sentinel",
		"redis+unix:///a?master_name=m":               "master_name at a socket",
		"redis://a?cacert=x":                          "parameters of TLS without TLS; want rediss://",
		"rediss://a?cert=x":                           "want both, or neither",
		"rediss://a?cacert=/none":                     "/none",
		"rediss://a?cert=/none&cert_key=/none":        "/none",
		"rediss://a?cacert=url_test.go":               "has no certificate; want PEM",
		"redis://ops:12/hunter2@h/0":                  "an @ in the path of the URL; want redis://HOST:PORT/DB",
		"redis://ab/hunter2@h":                        "an @ in the path of the URL; want redis://HOST:PORT/DB",
		"redis://a?password=hunter2&username=u&nix=1": `unknown parameter "nix"`,
	} {
		_, _, err := parse(one(t, text), none)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want an error with %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"redis://u:p@a:1/2?lease=5s", "rediss://a?master_name=m&addr=b:1", "redis+unix:///a?db=1", "redis://a,b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		query := u.Query()
		for _, file := range []string{"cacert", "cert", "cert_key", "password_file"} {
			query.Del(file)
		}
		u.RawQuery = query.Encode()
		_, c, err := parse(u, none)
		if err == nil && (c.db < 0 || c.network == "unix" && c.master != "" || c.master != "" && c.addr != "") {
			t.Errorf("%s is %+v", text, c.access)
		}
		if err != nil && err.Error() == "" {
			t.Error("want a text")
		}
	})
}
