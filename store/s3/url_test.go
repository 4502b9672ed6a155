package s3

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func one(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func keys(name string) string {
	return map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2", "HOME": "/nowhere"}[name]
}

func TestPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"s3://jobs?region=eu-central-1":                                    "https://jobs.s3.eu-central-1.amazonaws.com/e",
		"s3://jobs/a/b/?region=eu-central-1":                               "https://jobs.s3.eu-central-1.amazonaws.com/a/b/e",
		"s3://my.jobs/a?region=us-east-1":                                  "https://s3.us-east-1.amazonaws.com/my.jobs/a/e",
		"s3://jobs/a?endpoint=http://minio:9000":                           "http://minio:9000/jobs/a/e",
		"s3://jobs/a?endpoint=https%3A%2F%2Fs3.example.org&path_style=off": "https://jobs.s3.example.org/a/e",
		"s3://jobs?endpoint=http://[::1]:9000/&region=local&path_style=on": "http://[::1]:9000/jobs/e",
	} {
		cfg, err := parse(one(t, text), keys)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		o, err := newObject("e", cfg)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		at := o.base
		if at.Path += o.key; at.String() != want {
			t.Errorf("%s is at %s; want %s", text, at.String(), want)
		}
	}
}

func TestParameters(t *testing.T) {
	cfg, err := parse(one(t, "s3://jobs/x?region=r&lease=8s&max_lease=9s&poll=4s&era=3&flight=/f"), keys)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Lease != 8*time.Second || cfg.MaxLease != 9*time.Second || cfg.Poll != 4*time.Second || cfg.Era != 3 || cfg.Flight != "/f" || cfg.Bucket != "jobs" || cfg.Prefix != "x" {
		t.Errorf("%+v", cfg)
	}
	for text, want := range map[string]string{
		"s3://jobs":                              "no region; want region=NAME",
		"s3:jobs?region=r":                       "want s3://BUCKET/PREFIX",
		"s3://jobs:1?region=r":                   "want s3://BUCKET/PREFIX",
		"s3://id:hunter2@jobs?region=r":          "want the credentials in AWS_ACCESS_KEY_ID",
		"s3://jobs?region=r&lease=5":             "lease=5; want a time such as 5s",
		"s3://jobs?region=r&lease=1s&lease=2s":   "lease is empty, or given 2 times",
		"s3://jobs?region=r&era=-1":              "era=-1; want 0 to 65535",
		"s3://jobs?region=r&path_style=on":       "path_style without an endpoint",
		"s3://jobs?endpoint=a:1&path_style=1":    "path_style=1; want on or off",
		"s3://user/hunter2@jobs?region=r":        `prefix "xxxxx@jobs"`,
		"s3://jobs?region=r&secret=hunter2":      `unknown parameter "secret"`,
		"s3://jobs?region=r&a=%zz":               "the parameters do not parse",
		"s3://jobs?region=r&profile=x":           "no credentials: open /nowhere/.aws/credentials",
		"s3://Jobs?region=r":                     `bucket "Jobs"; want 3 to 63 small letters`,
		"s3://jobs/a%20b?region=r":               `prefix "a b"; want at most 400 letters`,
		"s3://jobs/../x?region=r":                "prefix",
		"s3://jobs?region=r/s":                   "region",
		"s3://jobs?endpoint=ftp://x":             "the endpoint does not parse",
		"s3://jobs?endpoint=http://me:hunter2@x": "the endpoint does not parse",
	} {
		cfg, err := parse(one(t, text), keys)
		if err == nil {
			_, err = newObject("e", cfg)
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want an error with %q", text, err, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("# all\n[default]\naws_access_key_id = d\naws_secret_access_key=hunter=2\n[ other ]\nAWS_ACCESS_KEY_ID=o\naws_secret_access_key=p\naws_session_token = t\n[role]\nrole_arn = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"": "id hunter2 ", "credentials_file=" + file: "d hunter=2 ", "profile=other&credentials_file=" + file: "o p t"} {
		cfg, err := parse(one(t, "s3://jobs?region=r&"+query), keys)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		c, err := cfg.Credentials.Retrieve(t.Context())
		if got := c.AccessKeyID + " " + c.SecretAccessKey + " " + c.SessionToken; err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", query, got, err, want)
		}
	}
	for query, want := range map[string]string{
		"profile=none&credentials_file=" + file: "no profile [none]",
		"profile=role&credentials_file=" + file: "roles, single sign-on and credential_process are not read here",
	} {
		if _, err := parse(one(t, "s3://jobs?region=r&"+query), keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", query, err, want)
		}
	}
	if _, err := (credentials{}).provider(func(name string) string { return map[string]string{"AWS_ACCESS_KEY_ID": "id"}[name] }); err == nil || !strings.Contains(err.Error(), "want both") {
		t.Errorf("%v; want both keys", err)
	}
}

func FuzzProfile(f *testing.F) {
	f.Add("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := profileOf(text, "default"); err == nil && (c.AccessKeyID == "" || c.SecretAccessKey == "") {
			t.Errorf("%q: %+v", text, c)
		}
	})
}
