package peer

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
)

var three = []Peer{{"n1", "10.0.0.1:7400"}, {"n2", "10.0.0.2:7400"}, {"n3", "10.0.0.3:7400"}}

// TestParseURL reads each URL by elect.ParseURL, and by url.Parse where that
// can.
func TestParseURL(t *testing.T) {
	const list = "n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400"
	for _, c := range []struct {
		raw  string
		net  bool // url.Parse reads it too
		want []Peer
		rest Config
	}{
		{"peer://" + list, true, three, Config{}},
		{"peer:" + list, true, three, Config{}},
		{"peer://" + list + "/", true, three, Config{}},
		{"peer://n1@10.0.0.1:7400", true, three[:1], Config{}},
		{"peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400", true, three[:2], Config{}},
		{"peer://n1@[::1]:7400", true, []Peer{{"n1", "[::1]:7400"}}, Config{}},
		{"peer://n1@[::1]:7400,n2@[::1]:7401", false, []Peer{{"n1", "[::1]:7400"}, {"n2", "[::1]:7401"}}, Config{}},
		{"peer://n1@[fe80::1%25eth0]:7400", true, []Peer{{"n1", "[fe80::1%eth0]:7400"}}, Config{}},
		{"peer://n1@[fe80::1%25eth0]:7400,n2@b:1", false, []Peer{{"n1", "[fe80::1%eth0]:7400"}, {"n2", "b:1"}}, Config{}},
		{"peer://n%31@a:1,n2@b:2", true, []Peer{{"n1", "a:1"}, {"n2", "b:2"}}, Config{}},
		{"peer://n1@a:http,n2@b:2", true, []Peer{{"n1", "a:http"}, {"n2", "b:2"}}, Config{}},
		{
			"peer://" + list + "?certs=/etc/elect&data=/var/lib/elect&cluster=prod&profile=fast&heartbeat=10ms&promise=2s&era=3&listen=0.0.0.0:7400&observers=o1,o2@10.0.0.9:7400", true,
			three, Config{
				Certs: "/etc/elect", Data: "/var/lib/elect", Cluster: "prod", Profile: "fast",
				Heartbeat: 10 * time.Millisecond, Promise: 2 * time.Second, Era: 3, Listen: "0.0.0.0:7400",
				Observers: []Peer{{"o1", ""}, {"o2", "10.0.0.9:7400"}},
			},
		},
		{"peer://" + list + "?ca=a&cert=b&key=c", true, three, Config{CA: "a", Cert: "b", Key: "c"}},
		{"peer://" + list + "?insecure=true", true, three, Config{Insecure: true}},
	} {
		u, err := elect.ParseURL(c.raw)
		if err != nil {
			t.Errorf("elect.ParseURL(%s): %v", c.raw, err)
			continue
		}
		if got, rest, err := ParseURL(u); err != nil || !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(rest, c.rest) {
			t.Errorf("ParseURL(%s) = %v, %+v, %v; want %v, %+v", c.raw, got, rest, err, c.want, c.rest)
		}
		u, err = url.Parse(c.raw)
		if (err == nil) != c.net {
			t.Errorf("url.Parse(%s): %v; want it to be read: %v", c.raw, err, c.net)
		}
		if err != nil {
			continue
		}
		if got, rest, err := ParseURL(u); err != nil || !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(rest, c.rest) {
			t.Errorf("ParseURL(url.Parse(%s)) = %v, %+v, %v; want %v, %+v", c.raw, got, rest, err, c.want, c.rest)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for raw, says := range map[string]string{
		"file:/tmp":                          `scheme "file"`,
		"peer:":                              "no voters",
		"peer://":                            "no voters",
		"peer://10.0.0.1:7400":               "has no id; want id@host:port, as in n1@10.0.0.1:7400",
		"peer://n1@a:1,b:2":                  "participant 2 of the list",
		"peer://n1@a":                        "has no port",
		"peer://n1@a:1,n2@b":                 "n2: address \"b\" has no port",
		"peer://n1@a:1,n1@b:2":               "n1 is listed twice",
		"peer://n1@a:1,,n2@b:2":              "participant 2 of the list is empty",
		"peer://n1@a:1,":                     "participant 2 of the list is empty",
		"peer://@a:1":                        "0 bytes; want 1 to 64",
		"peer://n/1@a:1":                     "no path",
		"peer://n1:secret@a:1":               "peers have no passwords",
		"peer://n1@a:1,n2:secret@b:2":        "peers have no passwords",
		"peer://n1@@a:1":                     "more than one @",
		"peer://n1@a:1/x":                    "no path",
		"peer://n1@a:1,n2@b:2/x":             "no path",
		"peer://n1@a:1#x":                    "no fragment",
		"peer://n1@:7400":                    "has no host",
		"peer://n1@a:0":                      "port",
		"peer://n1@a:1,n2@b:70000":           "port",
		"peer:n1@::1:7400":                   "brackets",
		"peer://n1@a:1?profil=fast":          `unknown parameter "profil"; want some of: ca, cert, certs, cluster, data, era,`,
		"peer://n1@a:1?profile=lan&profile=": "profile is given 2 times",
		"peer://n1@a:1?promise=1":            `promise: "1"; want a time such as`,
		"peer://n1@a:1?promise=-1s":          "want a time such as",
		"peer://n1@a:1?era=40000":            "want a number from 0 to 32767",
		"peer://n1@a:1?insecure=maybe":       "want true or false",
		"peer://n1@a:1?data=":                "it is empty",
		"peer://n1@a:1?observers=":           "it is empty",
		"peer://n1@a:1?observers=o1@a":       "has no port",
	} {
		u, err := elect.ParseURL(raw)
		if err != nil {
			t.Errorf("elect.ParseURL(%s): %v", raw, err)
			continue
		}
		_, _, err = ParseURL(u)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseURL(%s): %v; want an error that says %q", raw, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL(%s) repeats a password: %v", raw, err)
		}
	}
	if _, _, err := ParseURL(nil); err == nil {
		t.Error("no URL is accepted")
	}
}

// FuzzParseURL: what is accepted is a list of participants that reads the same
// when it is written again.
func FuzzParseURL(f *testing.F) {
	for _, raw := range []string{
		"peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect", "peer:n1@[::1]:7400", "peer://n1:x@a:1,n2@b:2",
		"peer://n1@[fe80::1%25eth0]:7400,n2@b:1?observers=o1,o2@c:3", "peer://%6e1@a:1", "peer://,@:", "peer:%zz",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := elect.ParseURL(raw)
		if err != nil {
			return
		}
		voters, _, err := ParseURL(u)
		if err != nil {
			return
		}
		again := &url.URL{Scheme: "peer", Opaque: "//" + strings.ReplaceAll(strings.ReplaceAll(list(voters), ", ", ","), "%", "%25")}
		same, _, err := ParseURL(again)
		if err != nil || !reflect.DeepEqual(voters, same) {
			t.Errorf("ParseURL(%q) has the voters %v; written again they are %v (%v)", raw, voters, same, err)
		}
	})
}
