//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/electd/elect/internal/cli/clitest"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/internal/protocol/trace/replay"
	"github.com/electd/elect/peer"
)

// TestScript runs the scripts of testdata/script.
func TestScript(t *testing.T) {
	clitest.Run(t, variables,
		clitest.Command{Usage: "readenv NAME FILE", Least: 2, Do: readEnv},
		clitest.Command{Usage: "addresses FILE", Least: 1, Do: addresses},
		// METHOD URL [RESOURCE;TOKEN [BODY]]; - is no token.
		clitest.Command{Usage: "ask METHOD URL", Least: 2, Do: ask}, // or SOCKET!/PATH
		clitest.Command{Usage: "askuntil REGEXP METHOD URL", Least: 3, Do: askUntil},
		clitest.Command{Usage: "replay COUNT PATTERN", Least: 2, Do: replayed},
	)
}

// variables gives a script a state directory of its own, and peers.
func variables(env *testscript.Env) error {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		return err
	}
	voters, err := harness.Addrs(8)
	if err != nil {
		return err
	}
	for i, addr := range voters {
		voters[i] = fmt.Sprintf("n%d@%s", i+1, addr)
	}
	env.Vars = append(env.Vars, "XDG_STATE_HOME="+filepath.Join(env.WorkDir, "state"), "EXAMPLES="+examples,
		"PEERS=peer://"+strings.Join(voters[:3], ",")+"?profile=lan")
	for i, v := range voters {
		env.Vars = append(env.Vars, fmt.Sprintf("N%d=%s", i+1, v))
	}
	return nil
}

// replayed has the machines do again what nodes have recorded, in so many files of a
// pattern, each of one life.
func replayed(ts *testscript.TestScript, args []string) {
	paths, err := filepath.Glob(ts.MkAbs(args[1]))
	ts.Check(err)
	if fmt.Sprint(len(paths)) != args[0] {
		ts.Fatalf("%d files, want %s: %q", len(paths), args[0], paths)
	}
	for _, path := range paths {
		report, err := trace.Verify(strings.NewReader(ts.ReadFile(path)), replay.Makers(peer.Protocols()))
		if err != nil || report.Steps == 0 || report.Lives != 1 {
			ts.Fatalf("%s: %+v, %v", path, report, err)
		}
	}
}
