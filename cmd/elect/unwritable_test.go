//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect/internal/cli/clitest"
)

// TestUnwritable is for root, who cannot be denied: an ordinary user runs elect
// there. The script trouble.txt has the same for everybody else.
func TestUnwritable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has trouble.txt")
	}
	// t.TempDir and the directory of the command are for root only.
	dir, err := os.MkdirTemp("", "elect-unwritable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := exec.LookPath("elect")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "elect")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	for _, args := range [][]string{
		{"run", "--election", "file:" + dir + "/state", "--name", "nightly", "--", "true"},
		{"run", "--once", "--election", "file:" + dir, "--name", "nightly", "--", "true"},
		{"bench", "failover", "--rounds", "1"},
		{"run", "--election", "peer://n1@127.0.0.1:7401", "--data", dir + "/data", "--id", "n1", "--name", "nightly", "--", "true"},
	} {
		t.Run(args[0]+" "+args[1]+" "+args[2], func(t *testing.T) {
			var out, errs strings.Builder
			cmd := exec.Command(path, args...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &out, &errs
			cmd.Env = append(environment(t), "HOME="+dir, "XDG_STATE_HOME=")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			_ = cmd.Run() // the state tells more
			if got := clitest.EndOf(cmd.ProcessState); got != "73" {
				t.Errorf("it ended with %s, not with 73", got)
			}
			text := errs.String()
			if at := strings.LastIndex(text, "one voter"); at >= 0 { // what a peer election comes to is said first
				_, text, _ = strings.Cut(text[at:], "\n")
			}
			if !strings.HasPrefix(text, "elect: ") || strings.Count(text, "\n") != 1 || !strings.Contains(text, "permission denied") {
				t.Errorf("it said %q, not in one line that permission was denied", text)
			}
			if out.Len() > 0 {
				t.Errorf("it wrote %q to stdout", out.String())
			}
		})
	}
}
