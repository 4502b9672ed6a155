package drive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/store/internal/drive"
)

func TestParseParameters(t *testing.T) {
	for query, want := range map[string]string{ // "": it is taken
		"":                        "",
		"lease=5s&host=a&host=b":  "",
		"tls=off&secret=hunter2":  "",
		"lease=5":                 "lease=5; want a time such as 5s",
		"lease=0s":                "lease=0s; want a time",
		"era=-1":                  "era=-1; want 0 to 65535",
		"tls=yes":                 "tls=yes; want on or off",
		"secret=":                 "secret is empty, or given 1 times",
		"secret=hunter2&secret=2": "secret is empty, or given 2 times",
		"token=hunter2":           "no token here",
		"a=1&secret=hunter2":      `unknown parameter "a"; want lease, era, tls, secret or host`,
		"secret=hunter2%zz":       "do not parse",
		"secret=hunter2;a":        "do not parse",
	} {
		var lease time.Duration
		var era uint16
		var tls, secret string
		var hosts []string
		err := drive.ParseParameters(query, drive.Duration("lease", &lease), drive.Era(&era), drive.Choice("tls", &tls), drive.Text("secret", &secret),
			drive.Texts("host", &hosts), drive.Refuse("token", "no token here"))
		switch {
		case (err == nil) != (want == ""):
			t.Errorf("%s: %v; want %q", query, err, want)
		case err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v; want %q, and no secret", query, err, want)
		case strings.HasPrefix(query, "lease=5s") && (lease != 5*time.Second || strings.Join(hosts, ",") != "a,b"):
			t.Errorf("%s: %v, %q", query, lease, hosts)
		}
	}
}
