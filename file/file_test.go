package file

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/driver"
)

func TestParse(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, dir string
		era      uint64
	}{
		{"file:/var/lib/elect", "/var/lib/elect", 0},
		{"file:///var/lib/elect", "/var/lib/elect", 0},
		{"file:/var//lib/../lib/elect/", "/var/lib/elect", 0},
		{"file:state/elect", here + "/state/elect", 0},
		{"file:./state", here + "/state", 0},
		{"file:../state", filepath.Dir(here) + "/state", 0},
		{"file:.", here, 0},
		{"file:/a%20b%23c", "/a b#c", 0},
		{"file:a%20b", here + "/a b", 0},
		{"file:/x?era=32767", "/x", 32767},
		{"file:x?era=7", here + "/x", 7},
		{"file:x?shared-place=false&era=7", here + "/x", 7},
		{"file:x?era=7&shared-place=true", here + "/x", 7},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		dir, cfg, err := parse(u)
		if err != nil || dir != c.dir || cfg.Era != c.era || cfg.SharedPlace != strings.HasSuffix(c.url, "=true") {
			t.Errorf("%s: %q, %+v, %v; want %q and era %d", c.url, dir, cfg, err, c.dir, c.era)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"file://host/x", "did you mean file:///host/x"},
		{"file://localhost/x", "did you mean file:///x"},
		{"file://host", "did you mean file:///host"},
		{"file:", "want a directory"},
		{"file://", "want a directory"},
		{"file:///x#y", "%23"},
		{"file://me@/x", "no user"},
		{"file:~/x", "write the directory out"},
		{"file:/x?eera=1", `unknown parameter "eera"; want era or shared-place`},
		{"file:/x?era=32768", "0 to 32767"},
		{"file:/x?era=-1", "0 to 32767"},
		{"file:/x?era=", "0 to 32767"},
		{"file:/x?era=1&era=2", "want it once"},
		{"file:/x?shared-place=yes", `shared-place "yes"; want true or false`},
		{"file:/x?a;b", "era"},
		{"files:/x", "want file"},
		{"file:/x?password=hunter2", "unknown parameter"},
		{"file://me:hunter2@/x", "no user"},
		{"file:%00", "zero byte"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Open(t.Context(), driver.Target{URL: u, Name: "jobs", ID: "me"})
		if err == nil || e != nil {
			t.Errorf("%s: opened", c.url)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error repeats a secret: %v", c.url, err)
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || !driver.IsPermanent(err) {
			t.Errorf("%s: %v (permanent: %v); want one permanent line with %q", c.url, err, driver.IsPermanent(err), c.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		dir, name, id string
		cfg           Config
		want          string
	}{
		{"/x", "", "me", Config{}, "election name is empty"},
		{"/x", "a/b", "me", Config{}, "election name"},
		{"/x", "..", "me", Config{}, "dot"},
		{"/x", "a", "", Config{}, "id is empty"},
		{"/x", "a", "me", Config{Era: 32768}, "era 32768"},
		{"", "a", "me", Config{}, "no directory"},
	} {
		if _, err := New(c.dir, c.name, c.id, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) || !driver.IsPermanent(err) {
			t.Errorf("%+v: %v; want %q", c, err, c.want)
		}
	}
}
