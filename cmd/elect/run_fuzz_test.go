//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/electd/elect"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

// FuzzRunFlags: whatever flags and variables elect run gets, it ends with one line and 64, or comes to look for its
// command, which is missing. Each line of an input is a variable ELECT_NAME=VALUE, or a flag without its dashes; so
// none names a command that could be started.
func FuzzRunFlags(f *testing.F) {
	for _, seed := range []string{
		"name=nightly\nid=a\nelection=file:/tmp/e\nwait=10s\ngrace=0\nrestart=always\ncontain=pid\nlimit=memory=2G",
		"name=e\nELECT_ONCE=true\nELECT_RESTART=always", "once\nrestart=on-failure", "help",
		"name=e\nguard=network,optional\nguard-allow=127.0.0.1:53\nguard-allow=[::1]:65536\nexclusive=false",
		"ELECT_ELECTION=peer://a@127.0.0.1:4101,b@127.0.0.1:4102,c@127.0.0.1:4103\nELECT_ID=a\nELECT_NAME=e\nprofile=fast",
		"name=e\nelection=peer:?protocol=raft\nposition=prefer\nposition-command=true\nposition-every=-1s\nid=\xff",
		"name=e\nhealth-command=true\nhealth-every=1s\nhealth-timeout=1h\nhealth-failures=-1\nwhen-all-ill=some",
		"name=e\nwatchdog=1s\nwait-ready=1m\nprepare=true\nlog-format=xml\nlog-time\nverbose=maybe\nELECT_GRACE=soon",
		"name=a/b\nelection=postgres://me:hunter2@[::1/x?lease=-1s&lease=2s", "name=e\nelection=s3://b?endpoint=%zz\nELECT_TOKEN=7", "", "=", "id",
	} {
		f.Add(seed)
	}
	openers := elect.Openers{"file": file.Open, peerScheme: openPeer, "redis": file.Open}
	f.Fuzz(func(t *testing.T, input string) {
		if strings.Contains(input, "\x00") {
			t.Skip("no process can get it")
		}
		args := []string{"run"}
		for line := range strings.SplitSeq(input, "\n") {
			key, value, found := strings.Cut(line, "=")
			if found && strings.HasPrefix(key, "ELECT_") {
				t.Setenv(key, value)
				continue
			}
			args = append(args, "--"+line)
		}
		root := newRoot(openers)
		root.SetArgs(append(args, "--", "/nowhere/command"))
		var out strings.Builder
		root.SetOut(&out)
		err := root.ExecuteContext(t.Context())
		code, tell := exit.Of(err)
		switch {
		case code == exit.OK && strings.Contains(out.String(), "Usage"): // --help
		case code != exit.Usage && code != exit.NotFound || !tell:
			t.Errorf("%q: %d, told: %t, %v; want a line and 64, or 127 for the command", args, code, tell, err)
		default:
			if line := cli.OneLine(err.Error()); line == "" || strings.ContainsAny(line, "\n\r") {
				t.Errorf("%q: %q; want one line", args, line)
			}
		}
	})
}
