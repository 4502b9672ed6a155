package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/doctor"
)

const three = "peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@[fd00::3]:7400"

// TestMergeFlags: a flag wins over its parameter and over what contradicts it,
// and leaves the rest of the URL as it was written.
func TestMergeFlags(t *testing.T) {
	for name, c := range map[string]struct {
		query, flags, want string
	}{
		"none":                       {"?profile=wan", "", "?profile=wan"},
		"added":                      {"", "--profile fast --promise 300ms", "?profile=fast&promise=300ms"},
		"added to others":            {"?era=3", "--data /var/lib/elect", "?era=3&data=/var/lib/elect"},
		"won":                        {"?profile=wan&era=3&data=/x", "--data /y --profile=calm", "?era=3&profile=calm&data=/y"},
		"won over an escaped name":   {"?%64ata=/x", "--data /y", "?data=/y"},
		"escaped":                    {"", "--data a&b=c --listen [::]:7400", "?data=a%26b%3Dc&listen=%5B::%5D:7400"},
		"certificates for insecure":  {"?insecure=true&era=1", "--certs /c", "?era=1&certs=/c"},
		"certificates for files":     {"?ca=a&cert=b&key=c", "--certs /c", "?certs=/c"},
		"insecure for certificates":  {"?certs=/c&era=1", "--insecure", "?era=1&insecure=true"},
		"insecure taken back":        {"?insecure=true&era=1", "--insecure=false", "?era=1"},
		"secure all the while":       {"?certs=/c", "--insecure=false", "?certs=/c"},
		"nothing but a question":     {"?", "--heartbeat 50ms", "?heartbeat=50ms"},
		"the same twice in the URL":  {"?data=/a&data=/b", "--data /c", "?data=/c"},
		"a prefix is another's name": {"?database=1", "--data /c", "?database=1&data=/c"},
	} {
		t.Run(name, func(t *testing.T) {
			var f peerFlags
			set := pflag.NewFlagSet("run", pflag.ContinueOnError)
			f.flags(set)
			if err := set.Parse(strings.Fields(c.flags)); err != nil {
				t.Fatal(err)
			}
			p := place{election: three + c.query, name: "nightly"}
			if err := f.merge(&p); err != nil {
				t.Fatal(err)
			}
			if p.election != three+c.want {
				t.Errorf("%s\nwant\n%s", p.election, three+c.want)
			}
		})
	}
}

// TestShownPeers: what a command finds in its environment leads to the same
// election from anywhere.
func TestShownPeers(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	here = strings.ReplaceAll(here, " ", "+") // as in a URL
	for url, want := range map[string]string{
		three:                             three,
		"peer://n1@127.0.0.1:7400":        "peer://n1@127.0.0.1:7400",
		three + "?certs=c/d&profile=fast": three + "?certs=" + here + "/c/d&profile=fast",
		three + "?data=d&key=k%20%26":     three + "?data=" + here + "/d&key=" + here + "/k+%26",
		three + "?data=/d&cluster=x":      three + "?data=/d&cluster=x",
		three + "?observers=o1,o2@h:7400": three + "?observers=o1,o2@h:7400",
		"group+" + three + "?data=d":      "group+" + three + "?data=" + here + "/d",
	} {
		p := place{election: url, name: "nightly"}
		got := p.shown()
		if got != want {
			t.Errorf("%s is shown as\n%s; want\n%s", url, got, want)
		}
		again := place{election: got, name: "nightly"}
		if got := again.shown(); got != want {
			t.Errorf("%s, shown again, is %s", url, got)
		}
		if u, err := elect.ParseURL(got); err != nil || strings.TrimPrefix(u.Scheme, groupPrefix) != peerScheme {
			t.Errorf("%s does not parse: %v, %v", got, u, err)
		}
	}
}

// TestPatient: elect doctor measures before there are certificates, which no other verb
// does on a network.
func TestPatient(t *testing.T) {
	var cfg doctor.Config
	voters, configured, err := patient(three, &cfg)
	if err != nil || voters != 3 || configured != nil || len(cfg.Peers) != 3 || cfg.Peers[2] != (doctor.Target{ID: "n3", Addr: "[fd00::3]:7400"}) {
		t.Errorf("%d voters, %v, %+v, %v", voters, configured, cfg, err)
	}
	if _, _, err := (&place{election: three, name: "nightly"}).peers(); err == nil || !strings.Contains(err.Error(), "without certificates everybody") {
		t.Errorf("whoever says something is refused with %v", err)
	}
	if _, _, err := patient(three+"?certs="+t.TempDir(), &cfg); err == nil || !strings.Contains(err.Error(), "elect certs makes such files") {
		t.Errorf("certificates that are not there: %v", err)
	}
	if _, _, err := patient(three+"?promise=1ms", &cfg); err == nil || !strings.Contains(err.Error(), "want at least 4") {
		t.Errorf("times that cannot hold: %v", err)
	}
}
