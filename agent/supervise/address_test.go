package supervise_test

import (
	"strings"
	"testing"

	"github.com/electd/elect/agent/supervise"
)

func TestParseAddress(t *testing.T) {
	for _, right := range []string{"192.0.2.10/24@eth0", "192.0.2.10/32@eth0", "192.0.2.0/31@br-lan.7", "2001:db8::10/64@eth0", "fe80::10/64@eth0"} {
		if a, err := supervise.ParseAddress(right); err != nil || a.String() != right {
			t.Errorf("%s: %v, %v", right, a, err)
		}
	}
	for wrong, says := range map[string]string{
		"":                               "want ADDRESS/BITS@INTERFACE",
		"192.0.2.10/24":                  "want ADDRESS/BITS@INTERFACE",
		"192.0.2.10@eth0":                "want ADDRESS/BITS@INTERFACE",
		"192.0.2.10/33@eth0":             "want ADDRESS/BITS@INTERFACE",
		"fe80::1%eth0/64@eth0":           "want ADDRESS/BITS@INTERFACE",
		"::ffff:192.0.2.10/120@eth0":     "want one such as",
		"192.0.2.10/24@":                 "no name of a network interface",
		"192.0.2.10/24@eth0:1":           "no name of a network interface",
		"192.0.2.10/24@interfacewith16c": "no name of a network interface",
		"192.0.2.0/24@eth0":              "first or last address",
		"192.0.2.255/24@eth0":            "first or last address",
		"0.0.0.0/0@eth0":                 "cannot move",
		"224.0.0.1/24@eth0":              "cannot move",
		"ff02::1/64@eth0":                "cannot move",
		"127.0.0.2/8@lo":                 "cannot move",
		"::1/128@lo":                     "cannot move",
	} {
		_, err := supervise.ParseAddress(wrong)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want a line with %q", wrong, err, says)
		}
	}
}
