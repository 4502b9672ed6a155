//go:build linux

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/internal/harness"
)

// TestAgentClients: the programs of examples/agent say who leads, and the next leader.
func TestAgentClients(t *testing.T) {
	env, dir, addr := environment(t), t.TempDir(), harness.FreeAddr(t)
	file := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(file, []byte("id: a\nstate: "+dir+"\nhttp: {listen: '"+addr+"'}\nelections:\n  - {name: job}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("elect", "agent", "--config", file)
	var log harness.Buffer
	cmd.Env, cmd.Stderr = env, &log
	harness.Start(t, cmd)
	t.Cleanup(func() { harness.End(cmd) })
	harness.Eventually(t, "the agent leads", func() bool { return strings.Contains(log.String(), "leading job (token 1)") })

	const of = "../../examples/agent/follow"
	says := map[string]*bufio.Scanner{}
	for _, argv := range [][]string{{"curl", "sh", of + ".sh"}, {"python3", "python3", of + ".py"}, {"node", "node", of + ".mjs"}, {"java", "java", "../../examples/agent/Follow.java"}} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Logf("not tried, because it is not installed: %v", err)
			continue
		}
		follow := exec.Command(argv[1], argv[2], "http://"+addr, "job")
		follow.Env, follow.Stderr = env, os.Stderr
		_, out := harness.Start(t, follow)
		t.Cleanup(func() { harness.End(follow) })
		says[argv[0]] = bufio.NewScanner(out)
	}
	await := func(want string) {
		for name, lines := range says {
			for lines.Text() != want {
				if !lines.Scan() {
					t.Fatalf("%s ends before it says %q: %v", name, want, lines.Err())
				}
			}
		}
	}
	await("a 1")
	resign := exec.Command("elect", "resign", "job")
	resign.Env = env
	if out, err := resign.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	await("a 2")
}
